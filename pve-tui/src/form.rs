//! The one engine for all forms: focus by key, typing, picking, and what was changed.
//!
//! A form knows no field. It is handed the rows that there are now, and says what a key changed;
//! whoever owns the values takes that in, or refuses it with a reason.

mod draw;
mod list;
mod picker;
mod row;
mod text;

use crossterm::event::Event;
use crossterm::event::KeyEvent;
use tui_input::Input;
use tui_input::InputRequest;
use tui_input::backend::crossterm::EventHandler as _;

use crate::keys::Action;
use crate::keys::action;
use crate::keys::typed;

pub(crate) use draw::draw;
pub(crate) use draw::draw_rows;
pub(crate) use draw::draw_rule;
pub(crate) use draw::popup;
use picker::Picker;
pub(crate) use row::Kind;
pub(crate) use row::Row;
pub(crate) use row::State;
pub(crate) use text::clipped;
pub(crate) use text::wrapped;
pub(crate) use text::wrapped_command;

/// A form: where the focus is, and what is being done there.
#[derive(Clone)]
pub(crate) struct Form<K> {
    focus: K,
    /// Where the focus was last, should its field go away.
    index: usize,
    mode: Mode,
    /// Why the last change was refused.
    problem: Option<String>,
    /// Where to go once a text is taken.
    then: Then,
}

#[derive(Clone)]
enum Mode {
    Browse,
    Edit(Input),
    Pick(Picker),
}

/// What is being done with a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Browsing,
    Typing,
    Picking,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Up,
    Down,
    /// To the next field, if there is nothing more to say here.
    Next,
    Stay,
}

/// What a key changed.
#[derive(Clone, PartialEq)]
pub(crate) enum Change<K> {
    /// A text was typed, or the value of a choice was picked.
    Said(K, String),
    /// A flag was switched.
    Flag(K, bool),
    /// Texts were added or removed.
    List(K, Vec<String>),
    /// What was said is taken back.
    Reset(K),
    /// What the server said is asked for again.
    Reload(K),
    /// A button was pressed.
    Pressed(K),
}

/// How far a page is moved in a list.
const PAGE: usize = 10;

impl<K: Clone + PartialEq> Form<K> {
    /// A form with its focus on a field.
    pub(crate) fn new(focus: K) -> Self {
        Self { focus, index: 0, mode: Mode::Browse, problem: None, then: Then::Down }
    }

    /// What is being done.
    pub(crate) fn doing(&self) -> Doing {
        match self.mode {
            Mode::Browse => Doing::Browsing,
            Mode::Edit(_) => Doing::Typing,
            Mode::Pick(_) => Doing::Picking,
        }
    }

    /// Whether nothing is being typed or picked.
    pub(crate) fn is_browsing(&self) -> bool {
        self.doing() == Doing::Browsing
    }

    /// Whether a text is being typed.
    pub(crate) fn is_editing(&self) -> bool {
        self.doing() == Doing::Typing
    }

    /// Whether a text was taken by the key that also presses buttons.
    pub(crate) fn is_entered(&self) -> bool {
        self.then == Then::Next
    }

    /// Where the focus is.
    pub(crate) fn focus(&self) -> &K {
        &self.focus
    }

    /// Puts the focus on a field.
    pub(crate) fn go_to(&mut self, key: K) {
        self.focus = key;
        self.close();
    }

    /// The place of the focus; that of a field that went away is taken by its neighbour.
    fn position(&self, rows: &[Row<'_, K>]) -> usize {
        let there = rows.iter().position(|row| row.key == self.focus);
        there.unwrap_or_else(|| self.index.min(rows.len().saturating_sub(1)))
    }

    fn move_to(&mut self, index: usize, rows: &[Row<'_, K>]) {
        self.close();
        self.index = index.min(rows.len().saturating_sub(1));
        if let Some(row) = rows.get(self.index) {
            self.focus = row.key.clone();
        }
    }

    /// Takes the neighbour of a field that went away.
    pub(crate) fn settle(&mut self, rows: &[Row<'_, K>]) {
        self.move_to(self.position(rows), rows);
    }

    fn close(&mut self) {
        self.mode = Mode::Browse;
        self.problem = None;
    }

    /// What was changed is taken in: a text moves on to the next field.
    pub(crate) fn accept(&mut self, rows: &[Row<'_, K>]) {
        let index = self.position(rows);
        match (&mut self.mode, self.then) {
            (Mode::Edit(_), Then::Down) => self.move_to(index + 1, rows),
            (Mode::Edit(_), Then::Next) => {
                let is_wrong = rows.get(index).is_some_and(|row| !row.problems.is_empty());
                // What is wrong with it is read where the focus is.
                if is_wrong { self.close() } else { self.move_to(index + 1, rows) }
            }
            (Mode::Edit(_), Then::Up) => self.move_to(index.saturating_sub(1), rows),
            (Mode::Edit(_), Then::Stay) => self.close(),
            (Mode::Pick(picker), _) => match rows.get(index).map(|row| &row.kind) {
                // One may want to add another one.
                Some(Kind::List { .. }) => {
                    picker.filter.reset();
                    self.problem = None;
                }
                _ => self.close(),
            },
            (Mode::Browse, _) => self.problem = None,
        }
    }

    /// What was changed cannot be taken in; it stays as it was typed.
    pub(crate) fn refuse(&mut self, problem: impl Into<String>) {
        self.problem = Some(problem.into());
    }

    /// Takes a key.
    pub(crate) fn key(&mut self, key: KeyEvent, rows: &[Row<'_, K>]) -> Option<Change<K>> {
        let index = self.position(rows);
        let row = rows.get(index)?;
        (self.index, self.focus) = (index, row.key.clone());
        match &self.mode {
            Mode::Browse => self.browse(key, row, rows),
            Mode::Edit(_) => self.edit(key, row, rows),
            Mode::Pick(_) => self.pick(key, row),
        }
    }

    fn browse(
        &mut self,
        key: KeyEvent,
        row: &Row<'_, K>,
        rows: &[Row<'_, K>],
    ) -> Option<Change<K>> {
        self.problem = None;
        // A secret may begin with whatever can be typed.
        let asked = match (&row.kind, typed(key)) {
            (Kind::Secret, Some(_)) => None,
            _ => action(key),
        };
        match asked {
            Some(Action::Up) => self.move_to(self.index.saturating_sub(1), rows),
            Some(Action::Down) => self.move_to(self.index + 1, rows),
            Some(Action::First) => self.move_to(0, rows),
            Some(Action::Last) => self.move_to(rows.len(), rows),
            Some(Action::Reload) => return Some(Change::Reload(row.key.clone())),
            Some(Action::Reset) => return Some(Change::Reset(row.key.clone())),
            Some(Action::Open | Action::Toggle) => return self.open(row, None),
            _ => {
                if let Some(c) = typed(key)
                    && !matches!(row.kind, Kind::Flag(_) | Kind::Button | Kind::Line)
                {
                    return self.open(row, Some(c));
                }
            }
        }
        None
    }

    /// Begins to change the field; what is typed at once replaces what was there.
    fn open(&mut self, row: &Row<'_, K>, first: Option<char>) -> Option<Change<K>> {
        if let Some(reason) = row.lock {
            self.refuse(format!("locked: {reason}"));
            return None;
        }
        let begin = |text: &str| match first {
            Some(c) => Input::new(c.to_string()),
            None => Input::new(text.to_owned()),
        };
        match &row.kind {
            Kind::Text(text) => self.mode = Mode::Edit(begin(text)),
            Kind::Secret => self.mode = Mode::Edit(begin("")),
            Kind::Choice { .. } | Kind::List { .. } => {
                let filter = first.map(|c| Input::new(c.to_string())).unwrap_or_default();
                self.mode = Mode::Pick(Picker::new(filter));
            }
            Kind::Flag(flag) => return Some(Change::Flag(row.key.clone(), !flag)),
            Kind::Button | Kind::Line => return Some(Change::Pressed(row.key.clone())),
        }
        None
    }

    fn edit(&mut self, key: KeyEvent, row: &Row<'_, K>, rows: &[Row<'_, K>]) -> Option<Change<K>> {
        let Mode::Edit(input) = &mut self.mode else { return None };
        let then = match action(key) {
            Some(Action::Back) => {
                self.close();
                return None;
            }
            Some(Action::Open) => Then::Next,
            Some(Action::Down) => Then::Down,
            Some(Action::Up) => Then::Up,
            _ => {
                self.problem = None;
                input.handle_event(&Event::Key(key));
                return None;
            }
        };
        self.finish(then, row, rows)
    }

    /// Ends the typing of a text where it is, as somebody does who goes on elsewhere.
    pub(crate) fn leave_text(&mut self, rows: &[Row<'_, K>]) -> Option<Change<K>> {
        let row = rows.get(self.position(rows))?;
        self.finish(Then::Stay, row, rows)
    }

    fn finish(&mut self, then: Then, row: &Row<'_, K>, rows: &[Row<'_, K>]) -> Option<Change<K>> {
        let Mode::Edit(input) = &self.mode else { return None };
        self.then = then;
        let text = input.value().to_owned();
        // What was only looked at is not said: it goes on following its default.
        if matches!(&row.kind, Kind::Text(before) if *before == text) {
            self.accept(rows);
            return None;
        }
        Some(Change::Said(row.key.clone(), text))
    }

    fn pick(&mut self, key: KeyEvent, row: &Row<'_, K>) -> Option<Change<K>> {
        let Mode::Pick(picker) = &mut self.mode else { return None };
        self.problem = None;
        let kind = &row.kind;
        match action(key) {
            Some(Action::Back) => self.close(),
            Some(Action::Up) => picker.go(kind, |at, _| at.saturating_sub(1)),
            Some(Action::Down) => picker.go(kind, |at, _| at + 1),
            Some(Action::PageUp) => picker.go(kind, |at, _| at.saturating_sub(PAGE)),
            Some(Action::PageDown) => picker.go(kind, |at, _| at + PAGE),
            Some(Action::First) => picker.go(kind, |_, _| 0),
            Some(Action::Last) => picker.go(kind, |_, last| last),
            Some(Action::Reload) => return Some(Change::Reload(row.key.clone())),
            Some(Action::Open) => return self.take(row),
            _ => {
                if picker.filter.handle_event(&Event::Key(key)).is_some_and(|done| done.value) {
                    picker.refiltered();
                }
            }
        }
        None
    }

    /// Takes what is highlighted.
    fn take(&mut self, row: &Row<'_, K>) -> Option<Change<K>> {
        let Mode::Pick(picker) = &self.mode else { return None };
        let items = picker.items(&row.kind);
        let item = items.get(picker.position(&row.kind, &items))?;
        if let Some(reason) = item.unusable {
            let problem = format!("{}: {reason}", item.label);
            self.refuse(problem);
            return None;
        }
        let (key, id) = (row.key.clone(), item.id.to_owned());
        let Kind::List { items, .. } = row.kind else { return Some(Change::Said(key, id)) };
        let mut items = items.to_vec();
        match items.iter().position(|item| *item == id) {
            Some(there) => drop(items.remove(there)),
            None => items.push(id),
        }
        Some(Change::List(key, items))
    }

    /// Takes a pasted text: one line of it.
    pub(crate) fn paste(&mut self, text: &str, rows: &[Row<'_, K>]) {
        let index = self.position(rows);
        let Some(row) = rows.get(index) else { return };
        (self.index, self.focus) = (index, row.key.clone());
        let types = !matches!(row.kind, Kind::Flag(_) | Kind::Button | Kind::Line);
        let secret = matches!(row.kind, Kind::Secret);
        if self.is_browsing() && types {
            self.open(row, None);
            if let Mode::Edit(input) = &mut self.mode {
                input.reset();
            }
        }
        let input = match &mut self.mode {
            Mode::Edit(input) => input,
            Mode::Pick(picker) => {
                picker.refiltered();
                &mut picker.filter
            }
            Mode::Browse => return,
        };
        // A secret is what it is, but for the end of the line that came along with it.
        let line = if secret {
            text.trim_end_matches(['\r', '\n'])
        } else {
            text.trim().lines().next().unwrap_or_default()
        };
        for c in line.chars().filter(|c| secret || !c.is_control()) {
            input.handle(InputRequest::InsertChar(c));
        }
    }

    /// Takes a click on a row: the focus goes there, a flag is switched, a button is pressed; a
    /// field that has the focus already is opened.
    pub(crate) fn click(&mut self, key: &K, rows: &[Row<'_, K>]) -> Option<Change<K>> {
        let index = rows.iter().position(|row| row.key == *key)?;
        let row = &rows[index];
        let acts = matches!(row.kind, Kind::Flag(_) | Kind::Button);
        let again = index == self.position(rows) && self.is_browsing();
        self.move_to(index, rows);
        if acts || again { self.open(row, None) } else { None }
    }

    /// Takes a click on a line of the list that is open.
    pub(crate) fn click_item(&mut self, index: usize, rows: &[Row<'_, K>]) -> Option<Change<K>> {
        let row = rows.get(self.position(rows))?;
        let Mode::Pick(picker) = &mut self.mode else { return None };
        picker.go(&row.kind, |_, _| index);
        self.take(row)
    }

    /// Takes a turn of the wheel.
    pub(crate) fn wheel(&mut self, up: bool, rows: &[Row<'_, K>]) {
        let index = self.position(rows);
        let step = |at: usize, far: usize| if up { at.saturating_sub(far) } else { at + far };
        match (&mut self.mode, rows.get(index)) {
            (Mode::Browse, _) => self.move_to(step(index, 1), rows),
            (Mode::Pick(picker), Some(row)) => picker.go(&row.kind, |at, _| step(at, 3)),
            _ => {}
        }
    }
}
