//! The wizard: a draft, what the server told, and the screens over both. It knows no terminal and
//! no socket.

mod confirm;
mod rows;
mod sheet;

use crossterm::event::KeyEvent;
use pve_api::Vmid;
use pve_provision::create::Answers;
use pve_provision::create::Draft;
use pve_provision::create::Facts;
use pve_provision::create::Field;
use pve_provision::create::Found;
use pve_provision::create::Key;
use pve_provision::create::NotReady;
use pve_provision::create::Plan;
use pve_provision::create::Privileges;
use pve_provision::create::Query;
use pve_provision::create::Screen;
use pve_provision::create::Template;
use pve_provision::create::Value;
use pve_provision::create::resolve;

use crate::drawn::Spot;
use crate::form::Change;
use crate::form::Form;
use crate::keys::Action;
use crate::keys::action;

/// A screen of the wizard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    Template,
    Of(Screen),
}

impl Page {
    /// All screens in their order.
    pub(crate) const ALL: [Self; 9] = [
        Self::Template,
        Self::Of(Screen::General),
        Self::Of(Screen::Os),
        Self::Of(Screen::System),
        Self::Of(Screen::Disks),
        Self::Of(Screen::Cpu),
        Self::Of(Screen::Memory),
        Self::Of(Screen::Network),
        Self::Of(Screen::Confirm),
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Template => "Template",
            Self::Of(screen) => screen.title(),
        }
    }
}

/// What can have the focus.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    Template(String),
    Key(Key),
    Disk(usize),
    AddDisk,
    Create,
    /// The nth problem of a field.
    Problem(Key, usize),
    /// The nth note on a field.
    Note(Key, usize),
    /// The nth thing that the account may not do.
    Missing(usize),
    /// The nth line by which an administrator grants that.
    Grant(usize),
    Console,
    /// Cores times sockets.
    Cores,
    /// A line of the summary.
    Line(Key),
}

/// What the wizard wants done.
pub(crate) enum Wish {
    Ask(Vec<Query>),
    Create(Box<Plan>),
}

/// The wizard with its focus.
pub(crate) struct Wizard {
    pub(crate) form: Form<Place>,
    pub(crate) sheet: Sheet,
}

/// Everything of the wizard but its focus.
pub(crate) struct Sheet {
    pub(crate) templates: Vec<Template>,
    pub(crate) draft: Draft,
    pub(crate) facts: Facts,
    pub(crate) answers: Answers,
    pub(crate) plan: Result<Plan, NotReady>,
    pub(crate) privileges: Privileges,
    pub(crate) page: Page,
    /// The disk that is open.
    pub(crate) disk: Option<usize>,
    /// What the server complained about when it was asked to make the VM.
    pub(crate) complaints: Vec<(Key, String)>,
    /// Earlier drafts, the latest last.
    past: Vec<Draft>,
}

/// How many changes can be undone.
const REMEMBERED: usize = 200;

impl Wizard {
    /// A wizard for this account; [`Wizard::begin`] asks the first questions.
    pub(crate) fn new(account: &str, templates: Vec<Template>, draft: Draft) -> Self {
        let facts = Facts::new(account);
        let answers = resolve(&draft, &facts);
        let sheet = Sheet {
            plan: Plan::new(&answers, &facts),
            privileges: Privileges::default(),
            templates,
            draft,
            facts,
            answers,
            page: Page::Of(Screen::General),
            disk: None,
            complaints: Vec::new(),
            past: Vec::new(),
        };
        Self { form: Form::new(Place::Key(Field::Node.into())), sheet }
    }

    /// What has to be asked now.
    pub(crate) fn begin(&mut self) -> Option<Wish> {
        self.sheet.refresh()
    }

    /// Somebody logged in anew: what was said stays, what the server told is asked for again.
    pub(crate) fn renew(&mut self, account: &str) -> Option<Wish> {
        self.sheet.facts = Facts::new(account);
        self.sheet.refresh()
    }

    /// Begins another VM like the last one, with a number of its own.
    pub(crate) fn another(&mut self) -> Option<Wish> {
        for field in [Field::Vmid, Field::Mac] {
            self.sheet.draft.unsay(field);
        }
        self.sheet.facts.forget_all(|query| {
            matches!(query, Query::NextId | Query::IsFree(_) | Query::Storages(_))
        });
        self.go_to(Field::Name.into());
        self.sheet.complaints.clear();
        self.sheet.refresh()
    }

    pub(crate) fn learn(&mut self, query: Query, found: Result<Found, String>) -> Option<Wish> {
        self.sheet.facts.learn(query, found);
        self.sheet.refresh()
    }

    /// Takes this number and makes the VM; what else is wrong is asked about first.
    pub(crate) fn take_number(&mut self, vmid: Vmid) -> Option<Wish> {
        self.sheet.change(|draft| draft.say(Field::Vmid, u64::from(vmid.get())));
        self.sheet.resolve();
        match &self.sheet.plan {
            // Nothing is asked meanwhile, so nothing may count as asked.
            Ok(plan) => Some(Wish::Create(Box::new(plan.clone()))),
            Err(_) => self.sheet.ask(),
        }
    }

    /// Keeps a number that was only proposed, however much is undone.
    pub(crate) fn keep_number(&mut self, vmid: Vmid) {
        for draft in self.sheet.past.iter_mut().chain([&mut self.sheet.draft]) {
            if draft.said(Field::Vmid.into()).is_none() {
                draft.say(Field::Vmid, u64::from(vmid.get()));
            }
        }
    }

    /// Puts the focus on a field, wherever it is.
    pub(crate) fn go_to(&mut self, key: Key) {
        let screen = key.field.row().screen;
        self.sheet.page = Page::Of(screen);
        self.sheet.disk = key.disk;
        self.form = Form::new(Place::Key(key));
        self.focus_first_if_gone();
    }

    fn open(&mut self, page: Page) {
        self.sheet.page = page;
        self.sheet.disk = None;
        let first = self.sheet.rows().into_iter().next().map(|row| row.key);
        self.form = Form::new(first.unwrap_or(Place::Create));
    }

    fn focus_first_if_gone(&mut self) {
        let rows = self.sheet.rows();
        if !rows.iter().any(|row| row.key == *self.form.focus())
            && let Some(first) = rows.into_iter().next()
        {
            self.form = Form::new(first.key);
        }
    }

    fn turn(&mut self, forward: bool) {
        let all = Page::ALL;
        let at = all.iter().position(|page| *page == self.sheet.page).unwrap_or(0);
        let to = if forward { (at + 1).min(all.len() - 1) } else { at.saturating_sub(1) };
        if to != at {
            self.open(all[to]);
        }
    }

    /// Takes in the text that is being typed, before somebody goes elsewhere; it stays where it is
    /// when it is wrong.
    fn leave_text(&mut self) -> Option<Wish> {
        let change = self.form.leave_text(&self.sheet.rows())?;
        self.apply(change)
    }

    /// Takes a click on what lies there.
    pub(crate) fn click(&mut self, spot: Spot) -> Option<Wish> {
        let place = match spot {
            Spot::Row(index) => self.sheet.rows().get(index).map(|row| row.key.clone()),
            _ => None,
        };
        if self.form.is_editing() {
            if place.as_ref() == Some(self.form.focus()) {
                return None;
            }
            let wish = self.leave_text();
            match (spot, place) {
                _ if !self.form.is_browsing() => {}
                (Spot::Page(index), _) => self.open(Page::ALL[index]),
                (_, Some(place)) => self.form.go_to(place),
                _ => {}
            }
            return wish;
        }
        let change = match (spot, place) {
            (Spot::Page(index), _) => {
                self.open(Page::ALL[index]);
                None
            }
            (Spot::Item(index), _) => self.form.click_item(index, &self.sheet.rows()),
            (_, Some(place)) => self.form.click(&place, &self.sheet.rows()),
            _ => None,
        };
        self.apply(change?)
    }

    pub(crate) fn wheel(&mut self, up: bool) {
        self.form.wheel(up, &self.sheet.rows());
    }

    /// Takes a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Option<Wish> {
        let turns = matches!(action(key), Some(Action::PageDown | Action::PageUp));
        if turns && (self.form.is_browsing() || self.form.is_editing()) {
            let wish = self.leave_text();
            if self.form.is_browsing() {
                self.turn(action(key) == Some(Action::PageDown));
            }
            return wish;
        }
        if self.form.is_browsing() {
            match action(key) {
                Some(Action::Back) => {
                    if let Some(disk) = self.sheet.disk.take() {
                        self.form = Form::new(Place::Disk(disk));
                    }
                    return None;
                }
                Some(Action::Undo) => {
                    let earlier = self.sheet.past.pop()?;
                    self.sheet.draft = earlier;
                    let wish = self.sheet.refresh();
                    self.close_lost_disk();
                    return wish;
                }
                _ => {}
            }
        }
        let change = self.form.key(key, &self.sheet.rows())?;
        self.apply(change)
    }

    pub(crate) fn paste(&mut self, text: &str) {
        self.form.paste(text, &self.sheet.rows());
    }

    fn close_lost_disk(&mut self) {
        if self.sheet.disk.is_some_and(|disk| disk >= self.sheet.answers.disks()) {
            self.sheet.disk = None;
        }
        self.focus_first_if_gone();
    }

    fn apply(&mut self, change: Change<Place>) -> Option<Wish> {
        match change {
            Change::Said(Place::Key(key), text) => self.said(key, &text),
            Change::Flag(Place::Key(key), flag) => {
                self.sheet.change(|draft| draft.say(key, flag));
                self.sheet.heard(key);
                self.sheet.refresh()
            }
            Change::List(Place::Key(key), items) => {
                self.sheet.change(|draft| draft.say(key, Value::List(items)));
                self.sheet.heard(key);
                let wish = self.sheet.refresh();
                self.form.accept(&self.sheet.rows());
                wish
            }
            Change::Reset(Place::Key(key)) => {
                self.sheet.change(|draft| draft.unsay(key));
                self.sheet.heard(key);
                self.sheet.refresh()
            }
            Change::Reset(Place::Disk(disk)) => {
                let there = self.sheet.answers.disks();
                self.sheet.change(|draft| draft.remove_disk(disk, there));
                self.sheet.complaints.retain(|(key, _)| key.disk.is_none());
                let wish = self.sheet.refresh();
                self.form.settle(&self.sheet.rows());
                wish
            }
            Change::Reload(place) => {
                self.sheet.forget_for(&place);
                self.sheet.refresh()
            }
            Change::Pressed(place) => self.press(place),
            _ => None,
        }
    }

    /// Takes in a text; one that cannot be read stays as it was typed.
    fn said(&mut self, key: Key, text: &str) -> Option<Wish> {
        let table = key.field.row();
        if text.trim().is_empty() && table.empty.is_empty() {
            self.sheet.change(|draft| draft.unsay(key));
        } else {
            match Value::parse(table.input, text) {
                Ok(value) => self.sheet.change(|draft| draft.say(key, value)),
                Err(problem) => {
                    self.form.refuse(problem.to_string());
                    return None;
                }
            }
        }
        self.sheet.heard(key);
        let wish = self.sheet.refresh();
        self.form.accept(&self.sheet.rows());
        wish
    }

    fn press(&mut self, place: Place) -> Option<Wish> {
        match place {
            Place::Template(name) => {
                let chosen = self.sheet.templates.iter().find(|template| template.name() == name);
                let chosen = chosen?.clone();
                self.sheet.change(|draft| draft.set_template(chosen));
                self.sheet.refresh()
            }
            Place::Disk(disk) => {
                self.open_disk(disk);
                None
            }
            Place::AddDisk => {
                let there = self.sheet.answers.disks();
                let mut added = there;
                self.sheet.change(|draft| added = draft.add_disk(there));
                let wish = self.sheet.refresh();
                self.open_disk(added);
                wish
            }
            Place::Create => match &self.sheet.plan {
                Ok(plan) => Some(Wish::Create(Box::new(plan.clone()))),
                Err(not_ready) => {
                    let first = not_ready.problems.first().map(|(key, _)| *key);
                    match first {
                        Some(key) => self.go_to(key),
                        None => self.form.refuse("the server has not told everything yet"),
                    }
                    None
                }
            },
            Place::Problem(key, _) | Place::Note(key, _) | Place::Line(key) => {
                self.go_to(key);
                None
            }
            Place::Key(_) | Place::Missing(_) | Place::Grant(_) | Place::Console | Place::Cores => {
                None
            }
        }
    }

    fn open_disk(&mut self, disk: usize) {
        self.sheet.disk = Some(disk);
        self.form = Form::new(Place::Key(Key::disk(disk, Field::DiskBus)));
    }
}
