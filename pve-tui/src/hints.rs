//! The last line: the keys that matter most where somebody is.

use crate::app::Model;
use crate::app::Overlay;
use crate::app::Part;
use crate::form::Doing;
use crate::keys;
use crate::keys::Action;
use crate::login::Entry;
use crate::wizard::Place;
use crate::wizard::Wizard;

/// A key, and what it does here.
type Hint = (Action, &'static str);

const HELP: Hint = (Action::Help, "help");
const CHANGE: Hint = (Action::Open, "change");
const NEXT: Hint = (Action::PageDown, "next");
const BACK: Hint = (Action::PageUp, "back");
const DEFAULT: Hint = (Action::Reset, "default");
const REQUEST: Hint = (Action::Request, "the request");
const GIVE_UP: Hint = (Action::Back, "give up");
const CLOSE: Hint = (Action::Back, "close");
const LEAVE: Hint = (Action::Quit, "leave");

/// The line.
pub(crate) fn line(model: &Model) -> String {
    let first = |action| keys::shown(action).split(", ").next().unwrap_or_default();
    let hints = hints(model).into_iter().map(|(action, what)| format!("{} {what}", first(action)));
    hints.collect::<Vec<_>>().join("  ")
}

fn hints(model: &Model) -> Vec<Hint> {
    match (&model.overlay, model.part, &model.wizard) {
        (Some(Overlay::Leave(_)), ..) => vec![(Action::Open, "leaves"), (Action::Back, "stays")],
        (Some(_), ..) => vec![
            CLOSE,
            (Action::Down, "scroll"),
            (Action::PageDown, "a page"),
            (Action::Last, "to the end"),
        ],
        (None, Part::Wizard, Some(wizard)) => match wizard.form.doing() {
            Doing::Typing => {
                vec![(Action::Open, "take it"), GIVE_UP, (Action::PageDown, "take it, next screen")]
            }
            Doing::Picking => picking(),
            Doing::Browsing => browsing(wizard),
        },
        (None, Part::Progress, _) => {
            let mut hints =
                vec![HELP, (Action::PageUp, "scroll up"), (Action::PageDown, "scroll down")];
            if model.progress.as_ref().is_some_and(|progress| progress.end.is_some()) {
                hints.push((Action::Open, "choose"));
            }
            hints.push(LEAVE);
            hints
        }
        (None, ..) => login(model),
    }
}

fn picking() -> Vec<Hint> {
    vec![
        (Action::Open, "take it"),
        (Action::Down, "next"),
        (Action::PageDown, "a page"),
        (Action::Reload, "ask again"),
        CLOSE,
    ]
}

fn login(model: &Model) -> Vec<Hint> {
    let form = &model.login.form;
    match (form.doing(), form.focus()) {
        (Doing::Picking, _) => picking(),
        (Doing::Typing, Entry::Password | Entry::Token) => {
            vec![(Action::Open, "log in"), GIVE_UP]
        }
        (Doing::Typing, Entry::Code) => vec![(Action::Open, "answer"), GIVE_UP],
        (Doing::Typing, _) => vec![(Action::Open, "take it"), GIVE_UP],
        (Doing::Browsing, _) => vec![
            HELP,
            (Action::Down, "next field"),
            CHANGE,
            (Action::Reload, "connect again"),
            LEAVE,
        ],
    }
}

/// What can be done with a field, and where one goes from it.
fn browsing(wizard: &Wizard) -> Vec<Hint> {
    match wizard.form.focus() {
        Place::Disk(_) => vec![HELP, CHANGE, (Action::Reset, "remove"), NEXT, BACK, LEAVE],
        Place::AddDisk => vec![HELP, (Action::Open, "add"), NEXT, BACK, LEAVE],
        Place::Template(_) => vec![HELP, (Action::Open, "choose"), NEXT, BACK, LEAVE],
        Place::Create => vec![HELP, (Action::Open, "create"), REQUEST, BACK, LEAVE],
        Place::Problem(..) | Place::Note(..) | Place::Line(_) => {
            vec![HELP, (Action::Open, "go to the field"), REQUEST, BACK, LEAVE]
        }
        _ if wizard.sheet.disk.is_some() => {
            vec![HELP, CHANGE, DEFAULT, (Action::Back, "all disks"), NEXT, LEAVE]
        }
        _ => vec![HELP, CHANGE, DEFAULT, NEXT, BACK, LEAVE],
    }
}
