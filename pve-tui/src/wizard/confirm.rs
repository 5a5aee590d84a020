//! The last screen: what would be made, what keeps it from being made, and the button.

use std::borrow::Cow;

use pve_provision::create::Answer;
use pve_provision::create::Field;
use pve_provision::create::summary;

use super::Place;
use super::Sheet;
use super::rows;
use crate::form::Kind;
use crate::form::Row;
use crate::form::State;

pub(super) fn rows(sheet: &Sheet) -> Vec<Row<'_, Place>> {
    let flags = [Field::StartAtBoot, Field::Start];
    let field = |field: Field| rows::row(field.into(), &sheet.answers, &[]);
    let mut list: Vec<Row<'_, Place>> = flags.into_iter().filter_map(field).collect();
    list.push(button(sheet));
    problems(sheet, &mut list);
    missing(sheet, &mut list);
    list.push(console(sheet));
    for (index, (key, text)) in sheet.answers.notes().enumerate() {
        let note = Row::new(Place::Note(key, index), "Note", Kind::Line);
        list.push(said(note, format!("{}: {text}", key.label()), false));
    }
    for line in summary(&sheet.answers) {
        let row = Row::new(Place::Line(line.key), line.label, Kind::Button).showing(line.value);
        list.push(Row { word: line.screen.title(), ..row });
    }
    list
}

/// A row whose text is repeated in full below the form, as a problem or as a note.
fn said(row: Row<'_, Place>, text: String, bad: bool) -> Row<'_, Place> {
    let full = vec![Cow::Owned(text.clone())];
    let row = row.showing(text);
    if bad { Row { problems: full, ..row } } else { Row { notes: full, ..row } }
}

fn button(sheet: &Sheet) -> Row<'_, Place> {
    let row = Row::new(Place::Create, "[ Create VM ]", Kind::Button);
    match &sheet.plan {
        Ok(plan) => {
            let name = sheet.answers.text(Field::Name);
            let name = if name.is_empty() { String::new() } else { format!(" '{name}'") };
            let lacking = match sheet.privileges.missing.len() {
                0 => String::new(),
                1 => ", but a privilege is missing".to_owned(),
                count => format!(", but {count} privileges are missing"),
            };
            row.showing(format!("VM {}{name} on {}{lacking}", plan.vmid(), plan.node))
        }
        Err(not_ready) => {
            let (problems, loading) = (not_ready.problems.len(), not_ready.loading.len());
            let mut parts = Vec::new();
            if problems > 0 {
                parts.push(format!("{problems} problem{}", if problems == 1 { "" } else { "s" }));
            }
            if loading > 0 {
                parts.push(format!("{loading} still loading"));
            }
            let state = if loading > 0 { State::Loading } else { State::Ready };
            Row { state, ..row.showing(format!("not yet: {}", parts.join(", "))) }
        }
    }
}

fn problems<'a>(sheet: &'a Sheet, list: &mut Vec<Row<'a, Place>>) {
    let own = sheet.answers.problems();
    let servers = sheet.complaints.iter().map(|(key, text)| (*key, text.as_str()));
    for (index, (key, text)) in own.chain(servers).enumerate() {
        let row = Row::new(Place::Problem(key, index), "Problem", Kind::Line);
        list.push(said(row, format!("{}: {text}", key.label()), true));
    }
}

fn missing<'a>(sheet: &'a Sheet, list: &mut Vec<Row<'a, Place>>) {
    for (index, need) in sheet.privileges.missing.iter().enumerate() {
        let row = Row::new(Place::Missing(index), "Missing privilege", Kind::Line);
        list.push(said(row, need.to_string(), true));
    }
    for (index, grant) in sheet.privileges.grants.iter().enumerate() {
        let row = Row::new(Place::Grant(index), "An admin grants it by", Kind::Line);
        list.push(said(row, grant.clone(), false));
    }
}

fn console(sheet: &Sheet) -> Row<'_, Place> {
    let display = sheet.answers.get(Field::Display).map(Answer::shown_value).unwrap_or_default();
    let row = Row::new(Place::Console, "Console", Kind::Line);
    let row = row.showing("display becomes serial0 once the VM is made");
    let text = format!(
        "Once the VM is made it gets serial0=socket, and its display '{display}' becomes serial0, \
         so that the web console is the serial terminal."
    );
    Row { notes: vec![Cow::Owned(text)], ..row }
}
