//! The login as rows of the form.

use std::borrow::Cow;

use pve_api::Address;
use pve_api::Fingerprint;

use super::Connection;
use super::Entry;
use super::Sheet;
use super::Shown;
use super::trust::Asking;
use crate::form::Kind;
use crate::form::Row;
use crate::form::State;
use crate::keys;
use crate::keys::Action;

pub(super) fn of(sheet: &Sheet) -> Vec<Row<'_, Entry>> {
    match &sheet.connection {
        Connection::Asking(asked) => asking(asked),
        Connection::Changed(pins, address, shown) => changed(pins, address, shown),
        _ if sheet.factors.is_some() => second_factor(sheet),
        _ => credentials(sheet),
    }
}

fn line(number: u8, label: &'static str, text: impl Into<String>) -> Row<'static, Entry> {
    Row::new(Entry::Line(number), label, Kind::Line).showing(text)
}

fn button(entry: Entry, label: &'static str, text: &'static str) -> Row<'static, Entry> {
    Row::new(entry, label, Kind::Button).showing(text)
}

/// A fingerprint in two lines, as it does not fit into one.
fn fingerprint(
    number: u8,
    label: &'static str,
    fingerprint: Fingerprint,
) -> [Row<'static, Entry>; 2] {
    const HALF: usize = 16 * 3;
    let text = fingerprint.to_string();
    let (first, second) = text.split_at(HALF);
    [line(number, label, first), line(number + 1, "", second)]
}

fn asking(asked: &Asking) -> Vec<Row<'static, Entry>> {
    let Some((address, shown)) = asked.open.first() else { return Vec::new() };
    let server = match asked.open.len() {
        1 => address.to_string(),
        more => format!("{address} (then {} more)", more - 1),
    };
    let mut rows = vec![line(0, "Server", server)];
    rows.extend(fingerprint(1, "SHA-256 fingerprint", shown.fingerprint));
    rows.push(line(3, "Certificate of", shown.subject.clone()));
    rows.push(line(4, "Signed by", shown.issuer.clone()));
    rows.push(line(5, "", "Nobody whom this computer trusts vouches for it."));
    rows.push(line(6, "", "Compare it on the node: Node > System > Certificates,"));
    rows.push(line(7, "", "or pvenode cert info"));
    rows.push(button(Entry::Refuse, "[ Refuse ]", "nothing is sent"));
    rows.push(button(Entry::AcceptOnce, "[ Accept once ]", "ask again the next time"));
    rows.push(button(Entry::Remember, "[ Remember ]", "refuse any other from now on"));
    rows
}

fn changed(pins: &[Fingerprint], address: &Address, shown: &Shown) -> Vec<Row<'static, Entry>> {
    let mut rows = vec![
        line(0, "Server", address.to_string()),
        line(1, "REFUSED", "IT SHOWS ANOTHER CERTIFICATE THAN BEFORE."),
        line(2, "", "Somebody may be reading along; nothing was sent."),
    ];
    if let Some(pin) = pins.first() {
        rows.extend(fingerprint(3, "Remembered", *pin));
    }
    rows.extend(fingerprint(5, "Shown now", shown.fingerprint));
    rows.push(line(7, "Certificate of", shown.subject.clone()));
    rows.push(line(8, "", "If the node was given a new one, take the old one out"));
    rows.push(line(9, "", "of pins or servers.toml in ~/.config/pve-tui."));
    rows.push(button(Entry::Refuse, "[ Back ]", ""));
    rows
}

fn server(sheet: &Sheet) -> Row<'_, Entry> {
    let kind = if sheet.known_choices.is_empty() {
        Kind::Text(sheet.server.clone())
    } else {
        Kind::Choice {
            chosen: &sheet.server,
            choices: &sheet.known_choices,
            none: None,
            free: true,
        }
    };
    let mut row = Row::new(Entry::Server, "Server", kind).showing(sheet.server.clone());
    let said = |text: &'static str| vec![Cow::Borrowed(text)];
    match &sheet.connection {
        Connection::None => {
            row.notes = said(
                "host, host:port or the address of the web UI; several nodes of one cluster with commas between them. The port is 8006 if not said",
            );
            if sheet.server.is_empty() {
                "(not said yet)".clone_into(&mut row.shown);
            }
        }
        Connection::Probing => row.state = State::Loading,
        Connection::Failed(reason) => {
            row.word = "failed";
            let again = keys::shown(Action::Reload);
            row.problems = vec![Cow::Owned(format!("{reason} ({again} tries again)"))];
        }
        Connection::Refused => row.problems = said("its certificate was refused; nothing was sent"),
        Connection::Trusted(_) => {
            row.word = "trusted";
            row.notes =
                sheet.unreached.iter().map(|reason| Cow::Borrowed(reason.as_str())).collect();
        }
        Connection::Asking(_) | Connection::Changed(..) => {}
    }
    row
}

fn credentials(sheet: &Sheet) -> Vec<Row<'_, Entry>> {
    let way = Kind::Choice { chosen: &sheet.way, choices: &sheet.ways, none: None, free: false };
    let is_token = sheet.way == "token";
    let shown = if is_token { "API token" } else { "User and password" };
    let mut rows = vec![server(sheet), Row::new(Entry::Way, "Log in with", way).showing(shown)];
    if is_token {
        let row = Row::new(Entry::Token, "Token", Kind::Secret);
        let mut row = row.showing(hidden(sheet.token.is_some()));
        row.notes = vec![Cow::Borrowed("user@realm!name=secret")];
        rows.push(row);
    } else {
        rows.push(realm(sheet));
        let user = Row::new(Entry::User, "User", Kind::Text(sheet.user.clone()));
        rows.push(user.showing(sheet.user.clone()));
        let password = Row::new(Entry::Password, "Password", Kind::Secret);
        rows.push(password.showing(hidden(sheet.password.is_some())));
    }
    rows.push(button(Entry::LogIn, "[ Log in ]", ""));
    rows
}

fn realm(sheet: &Sheet) -> Row<'_, Entry> {
    // Without a list somebody may still know it.
    let free = matches!(sheet.realms_state, State::Failed(_) | State::Empty);
    let kind = Kind::Choice { chosen: &sheet.realm, choices: &sheet.realms, none: None, free };
    let label = sheet.realms.iter().find(|realm| realm.value == sheet.realm);
    let shown = label.map_or_else(|| sheet.realm.clone(), |realm| realm.label.clone());
    let row = Row::new(Entry::Realm, "Realm", kind).showing(shown);
    let state = match &sheet.connection {
        Connection::Trusted(_) => sheet.realms_state.clone(),
        Connection::Probing => State::Loading,
        _ => State::Ready,
    };
    Row { state, ..row }
}

fn second_factor(sheet: &Sheet) -> Vec<Row<'_, Entry>> {
    let mut rows =
        vec![line(0, "Account", format!("{}@{} at {}", sheet.user, sheet.realm, sheet.server))];
    if !sheet.factor_choices.is_empty() {
        let choices = &sheet.factor_choices;
        let label = choices.iter().find(|choice| choice.value == sheet.factor);
        let label = label.map(|choice| choice.label.clone()).unwrap_or_default();
        let kind = Kind::Choice { chosen: &sheet.factor, choices, none: None, free: false };
        rows.push(Row::new(Entry::Factor, "Second factor", kind).showing(label));
        let mut code = Row::new(Entry::Code, "Code", Kind::Secret);
        code.notes = vec![Cow::Borrowed("a few wrong codes in a row lock this factor")];
        rows.push(code.showing(hidden(sheet.code.is_some())));
        rows.push(button(Entry::Answer, "[ Go on ]", ""));
    }
    rows.push(button(Entry::StartOver, "[ Start over ]", "with user and password"));
    rows
}

/// That something was typed, and not how much.
fn hidden(there: bool) -> &'static str {
    if there { "(typed)" } else { "" }
}
