//! The program as a value: a model, messages that change it, and effects that somebody else does.

use crossterm::event::KeyCode;
use crossterm::event::KeyEvent;
use pve_api::Address;
use pve_api::Domain;
use pve_api::Fingerprint;
use pve_provision::Event;
use pve_provision::create::Draft;
use pve_provision::create::End;
use pve_provision::create::Found;
use pve_provision::create::Plan;
use pve_provision::create::Query;
use pve_provision::create::Stage;
use pve_provision::create::Template;

use crate::drawn::Drawn;
use crate::drawn::Spot;
use crate::keys::Action;
use crate::keys::action;
use crate::login;
use crate::login::Known;
use crate::login::Login;
use crate::login::Reached;
use crate::login::Shown;
use crate::progress::Offer;
use crate::progress::Progress;
use crate::style::Theme;
use crate::wizard;
use crate::wizard::Wizard;

/// What happened.
pub(crate) enum Message {
    Key(KeyEvent),
    Paste(String),
    /// A place on the screen was clicked: column and line.
    Click(u16, u16),
    /// The wheel was turned, up or down.
    Wheel {
        up: bool,
    },
    /// The terminal has another size, or was used by somebody else.
    Redraw,
    /// What each of the addresses showed.
    Probed(Vec<Address>, Vec<Result<Shown, String>>),
    Realms(Vec<Address>, Result<Vec<Domain>, String>),
    Reached(Result<Reached, String>),
    Found(Query, Result<Found, String>),
    Event(Box<Event>),
    Ended(Box<End>),
}

/// What is to be done outside.
pub(crate) enum Effect {
    Login(login::Wish),
    Ask(Vec<Query>),
    Create(Box<Plan>, Stage),
    Suspend,
}

/// Where somebody is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Login,
    Wizard,
    Progress,
}

/// What lies above everything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Overlay {
    /// The keys, from that line on.
    Help(usize),
    /// The request as text, from that line on.
    Request(usize),
    /// Whether to leave, and what is lost by that.
    Leave(String),
}

/// Everything.
pub(crate) struct Model {
    pub(crate) part: Part,
    pub(crate) login: Login,
    pub(crate) wizard: Option<Wizard>,
    pub(crate) progress: Option<Progress>,
    pub(crate) overlay: Option<Overlay>,
    pub(crate) theme: Theme,
    pub(crate) quit: bool,
    /// The server at which somebody is logged in.
    pub(crate) at: Vec<Address>,
    /// What is on the screen.
    pub(crate) drawn: Drawn,
    templates: Vec<Template>,
    /// With what the wizard begins.
    draft: Draft,
}

impl Model {
    pub(crate) fn new(
        known: Vec<Known>,
        pins: Vec<(Address, Fingerprint)>,
        templates: Vec<Template>,
        draft: Draft,
        theme: Theme,
    ) -> Self {
        Self {
            part: Part::Login,
            login: Login::new(known, pins),
            wizard: None,
            progress: None,
            overlay: None,
            theme,
            quit: false,
            at: Vec::new(),
            drawn: Drawn::default(),
            templates,
            draft,
        }
    }

    /// Whether what is typed now is text.
    fn is_typing(&self) -> bool {
        match self.part {
            Part::Login => {
                let focus = self.login.form.focus();
                let secret = matches!(
                    focus,
                    login::Entry::Password | login::Entry::Token | login::Entry::Code
                );
                secret || !self.login.form.is_browsing()
            }
            Part::Wizard => self.wizard.as_ref().is_some_and(|wizard| !wizard.form.is_browsing()),
            Part::Progress => false,
        }
    }

    /// What is lost by leaving now.
    fn loss(&self) -> Option<String> {
        let end = self.progress.as_ref().map(|progress| &progress.end);
        match (&self.progress, end) {
            (Some(progress), Some(None)) => return Some(progress.farewell()),
            // Of a VM that is made, or may be, nothing is lost that was said.
            (_, Some(Some(end))) if !matches!(end, End::NothingMade(_)) => return None,
            _ => {}
        }
        let said =
            self.wizard.as_ref().is_some_and(|wizard| !wizard.sheet.draft.answers().is_empty());
        said.then(|| "Nothing was made yet. What was said is not kept.".to_owned())
    }

    fn leave(&mut self) {
        match self.loss() {
            Some(loss) => self.overlay = Some(Overlay::Leave(loss)),
            None => self.quit = true,
        }
    }

    fn log_in_again(&mut self, reason: &str) {
        self.login.again(reason);
        self.part = Part::Login;
    }
}

/// Takes a message in; gives what is to be done because of it.
pub(crate) fn update(model: &mut Model, message: Message) -> Option<Effect> {
    match message {
        Message::Key(key) => press(model, key),
        Message::Paste(text) => {
            match (model.part, &mut model.wizard) {
                _ if model.overlay.is_some() => {}
                (Part::Login, _) => model.login.paste(&text),
                (Part::Wizard, Some(wizard)) => wizard.paste(&text),
                _ => {}
            }
            None
        }
        Message::Click(column, row) => {
            let spot = model.drawn.at(column, row)?;
            click(model, spot)
        }
        Message::Wheel { up } => {
            wheel(model, up);
            None
        }
        Message::Redraw => None,
        Message::Probed(at, shown) => model.login.probed(&at, shown).map(Effect::Login),
        Message::Realms(at, realms) => {
            model.login.realms(&at, realms);
            None
        }
        Message::Reached(reached) => {
            let account = model.login.answered(reached)?;
            enter(model, &account)
        }
        Message::Found(query, found) => {
            let wish = model.wizard.as_mut()?.learn(query, found);
            fulfil(model, wish)
        }
        Message::Event(event) => {
            model.progress.as_mut()?.heard(&event);
            None
        }
        Message::Ended(end) => {
            let progress = model.progress.as_mut()?;
            if let (End::NothingMade(failure), Some(wizard)) = (&*end, &mut model.wizard) {
                wizard.sheet.complaints.clone_from(&failure.fields);
            }
            progress.ended(*end);
            None
        }
    }
}

/// Somebody is in: the wizard begins, or goes on where it was.
fn enter(model: &mut Model, account: &str) -> Option<Effect> {
    let at = model.login.addresses().to_vec();
    if !at.iter().any(|address| model.at.contains(address)) {
        // What was made, or was not, lies at the other server: nothing of it can go on here.
        let_go(model);
        if let Some(wizard) = &mut model.wizard {
            wizard.sheet.complaints.clear();
        }
    }
    model.at = at;
    let wish = if let Some(wizard) = &mut model.wizard {
        wizard.renew(account)
    } else {
        let wizard = Wizard::new(account, model.templates.clone(), model.draft.clone());
        model.wizard.insert(wizard).begin()
    };
    model.part = if model.progress.is_some() { Part::Progress } else { Part::Wizard };
    fulfil(model, wish)
}

fn fulfil(model: &mut Model, wish: Option<wizard::Wish>) -> Option<Effect> {
    match wish? {
        wizard::Wish::Ask(queries) => Some(Effect::Ask(queries)),
        wizard::Wish::Create(plan) => {
            let server = model.at.first().map(ToString::to_string);
            let name = plan.create.config.name.clone().unwrap_or_default();
            let progress = Progress::new((*plan).clone(), server.unwrap_or_default(), name);
            model.progress = Some(progress);
            model.part = Part::Progress;
            Some(Effect::Create(plan, Stage::Create))
        }
    }
}

fn press(model: &mut Model, key: KeyEvent) -> Option<Effect> {
    let asked = action(key);
    if asked == Some(Action::Suspend) {
        return Some(Effect::Suspend);
    }
    if model.overlay.is_some() {
        press_overlay(model, key, asked);
        return None;
    }
    match asked {
        Some(Action::Quit) => {
            model.leave();
            return None;
        }
        Some(Action::Help) if key.code == KeyCode::F(1) || !model.is_typing() => {
            model.overlay = Some(Overlay::Help(0));
            return None;
        }
        Some(Action::Request) if model.wizard.is_some() => {
            model.overlay = Some(Overlay::Request(0));
            return None;
        }
        Some(Action::LogIn) if model.part == Part::Wizard => {
            model.log_in_again("");
            return None;
        }
        _ => {}
    }
    match model.part {
        Part::Login => {
            let is_still = model.login.form.is_browsing() && model.login.sheet.busy.is_none();
            if asked == Some(Action::Back) && is_still && model.wizard.is_some() {
                model.part = if model.progress.is_some() { Part::Progress } else { Part::Wizard };
                return None;
            }
            model.login.key(key).map(Effect::Login)
        }
        Part::Wizard => {
            let wish = model.wizard.as_mut()?.key(key);
            fulfil(model, wish)
        }
        Part::Progress => {
            let offer = model.progress.as_mut()?.key(key, model.drawn.text)?;
            take(model, offer)
        }
    }
}

/// A click on what lies there; above a text nothing can be clicked.
fn click(model: &mut Model, spot: Spot) -> Option<Effect> {
    match model.part {
        _ if model.overlay.is_some() => None,
        Part::Login => model.login.click(spot).map(Effect::Login),
        Part::Wizard => {
            let wish = model.wizard.as_mut()?.click(spot);
            fulfil(model, wish)
        }
        Part::Progress => {
            let Spot::Row(index) = spot else { return None };
            let offer = model.progress.as_mut()?.click(index)?;
            take(model, offer)
        }
    }
}

fn wheel(model: &mut Model, up: bool) {
    let shown = model.drawn.text;
    match (&mut model.overlay, model.part, &mut model.wizard, &mut model.progress) {
        (Some(Overlay::Help(first) | Overlay::Request(first)), ..) => *first = shown.turned(up),
        (None, Part::Login, ..) => model.login.wheel(up),
        (None, Part::Wizard, Some(wizard), _) => wizard.wheel(up),
        (None, Part::Progress, _, Some(progress)) => {
            progress.scroll(Some(shown.turned(up)), shown);
        }
        _ => {}
    }
}

fn press_overlay(model: &mut Model, key: KeyEvent, asked: Option<Action>) {
    let shown = model.drawn.text;
    match &mut model.overlay {
        Some(Overlay::Leave(_)) => match (asked, key.code) {
            (Some(Action::Open | Action::Quit), _) | (_, KeyCode::Char('y')) => model.quit = true,
            (Some(Action::Back), _) | (_, KeyCode::Char('n')) => model.overlay = None,
            _ => {}
        },
        Some(Overlay::Help(first) | Overlay::Request(first)) => match asked {
            Some(Action::Back | Action::Open | Action::Help | Action::Request) => {
                model.overlay = None;
            }
            Some(Action::Quit) => {
                model.overlay = None;
                model.leave();
            }
            Some(action) => *first = shown.after(action).unwrap_or(*first),
            None => {}
        },
        None => {}
    }
}

/// Takes an offer at the end.
fn take(model: &mut Model, offer: Offer) -> Option<Effect> {
    match offer {
        Offer::Leave => {
            model.quit = true;
            None
        }
        Offer::LogIn => {
            model.log_in_again("the session has ended");
            None
        }
        Offer::Retry(stage) => {
            let progress = model.progress.as_mut()?;
            progress.resume();
            Some(Effect::Create(Box::new(progress.plan.clone()), stage))
        }
        Offer::TakeNumber(vmid) => {
            let wish = model.wizard.as_mut()?.take_number(vmid);
            if !matches!(wish, Some(wizard::Wish::Create(_))) {
                back(model);
            }
            fulfil(model, wish)
        }
        Offer::GoTo(key) => {
            back(model);
            let wizard = model.wizard.as_mut()?;
            wizard.go_to(key);
            let wish = wizard.begin();
            fulfil(model, wish)
        }
        Offer::Back => {
            back(model);
            let wish = model.wizard.as_mut()?.begin();
            fulfil(model, wish)
        }
        Offer::Another => {
            back(model);
            let wish = model.wizard.as_mut()?.another();
            fulfil(model, wish)
        }
    }
}

fn back(model: &mut Model) {
    let_go(model);
    model.part = Part::Wizard;
}

/// Turns away from a VM. Where nobody knows whether it was made its number is kept, so that a new
/// try meets it instead of making a second one.
fn let_go(model: &mut Model) {
    let Some(progress) = model.progress.take() else { return };
    if let (Some(End::Unknown { .. }), Some(wizard)) = (&progress.end, &mut model.wizard) {
        wizard.keep_number(progress.plan.vmid());
    }
}
