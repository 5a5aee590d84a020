//! From answers to rows: every screen is its fields of the table, and nothing else.

use std::borrow::Cow;

use pve_provision::create::Answer;
use pve_provision::create::Answers;
use pve_provision::create::Choice;
use pve_provision::create::Choices;
use pve_provision::create::Field;
use pve_provision::create::Input;
use pve_provision::create::Key;
use pve_provision::create::MAX_DISKS;
use pve_provision::create::Origin;
use pve_provision::create::Screen;
use pve_provision::create::Template;
use pve_provision::create::Value;

use super::Place;
use crate::form::Kind;
use crate::form::Row;
use crate::form::State;

/// The fields of a disk in their order.
pub(super) fn disk_fields() -> impl Iterator<Item = Field> {
    Screen::Disks.fields().filter(|field| field.is_of_disk())
}

/// The rows of a screen that has nothing but fields.
pub(super) fn of_screen<'a>(
    screen: Screen,
    answers: &'a Answers,
    complaints: &'a [(Key, String)],
) -> Vec<Row<'a, Place>> {
    let rows = screen.fields().filter_map(|field| row(field.into(), answers, complaints));
    rows.chain((screen == Screen::Cpu).then(|| cores(answers)).flatten()).collect()
}

/// What the guest sees of both numbers.
fn cores(answers: &Answers) -> Option<Row<'static, Place>> {
    let product = answers.number(Field::Cores)?.checked_mul(answers.number(Field::Sockets)?)?;
    let row = Row::new(Place::Cores, "Total cores", Kind::Line);
    Some(row.showing(product.to_string()))
}

/// The rows of one disk.
pub(super) fn of_disk<'a>(
    disk: usize,
    answers: &'a Answers,
    complaints: &'a [(Key, String)],
) -> Vec<Row<'a, Place>> {
    disk_fields().filter_map(|field| row(Key::disk(disk, field), answers, complaints)).collect()
}

/// The list of the disks.
pub(super) fn of_disks<'a>(
    answers: &'a Answers,
    complaints: &'a [(Key, String)],
) -> Vec<Row<'a, Place>> {
    let mut rows: Vec<Row<'a, Place>> = (0..answers.disks())
        .map(|disk| {
            let mut row = Row::new(Place::Disk(disk), format!("Disk {disk}"), Kind::Button)
                .showing(disk_line(disk, answers));
            for field in of_disk(disk, answers, complaints) {
                let said = |text: &Cow<'a, str>| Cow::Owned(format!("{}: {text}", field.label));
                row.problems.extend(field.problems.iter().map(said));
                row.notes.extend(field.notes.iter().map(said));
                if field.state != State::Ready {
                    row.state = field.state;
                }
            }
            row
        })
        .collect();
    if rows.len() < MAX_DISKS {
        let hint = if rows.is_empty() { "there is no disk; one can be added" } else { "" };
        rows.push(Row::new(Place::AddDisk, "Add a disk", Kind::Button).showing(hint));
    }
    rows
}

fn disk_line(disk: usize, answers: &Answers) -> String {
    let shown =
        |field| answers.get(Key::disk(disk, field)).map(Answer::shown_value).unwrap_or_default();
    let place = format!(
        "{}{}",
        answers.value(Key::disk(disk, Field::DiskBus)),
        answers.value(Key::disk(disk, Field::DiskDevice))
    );
    let storage = match shown(Field::DiskStorage) {
        empty if empty.is_empty() => "no storage".to_owned(),
        storage => storage,
    };
    let size = shown(Field::DiskSize);
    let format = answers.text(Key::disk(disk, Field::DiskFormat));
    format!("{place:<7} {storage}  {size} GiB  {format}")
}

/// The templates to choose from.
pub(super) fn of_templates<'a>(
    templates: &'a [Template],
    chosen: &Template,
) -> Vec<Row<'a, Place>> {
    let row = |template: &'a Template| {
        let mark = if template.name() == chosen.name() { "(*)" } else { "( )" };
        let label = format!("{mark} {}", template.name());
        Row::new(Place::Template(template.name().to_owned()), label, Kind::Button)
            .showing(template.title())
    };
    templates.iter().map(row).collect()
}

/// The row of a field; none if the question does not arise.
pub(super) fn row<'a>(
    key: Key,
    answers: &'a Answers,
    complaints: &'a [(Key, String)],
) -> Option<Row<'a, Place>> {
    let answer = answers.get(key)?;
    let spoken = !answer.notes.is_empty() || !answer.problems.is_empty();
    if !answer.shown && !spoken {
        return None;
    }
    let table = key.field.row();
    let said = complaints.iter().filter(|(at, _)| *at == key);
    let said = said.map(|(_, text)| Cow::Owned(format!("the server says: {text}")));
    let problems = answer.problems.iter().map(|text| Cow::Borrowed(text.as_str()));
    Some(Row {
        key: Place::Key(key),
        label: Cow::Borrowed(table.label),
        kind: kind(key, answer),
        shown: shown(key, answer),
        word: match answer.origin {
            Origin::Said => "set",
            Origin::Default => "",
            Origin::Fallback => "fallback",
        },
        state: state(key, answer),
        lock: answer.lock.as_deref(),
        notes: answer.notes.iter().map(|text| Cow::Borrowed(text.as_str())).collect(),
        problems: problems.chain(said).collect(),
    })
}

fn kind(key: Key, answer: &Answer) -> Kind<'_> {
    let table = key.field.row();
    let choices: &[Choice] = match &answer.choices {
        Choices::Of(choices) => choices,
        _ => &[],
    };
    match (table.input, &answer.value) {
        (Input::Flag, value) => Kind::Flag(value.is_on()),
        (Input::List, Value::List(items)) => Kind::List { items, offered: choices },
        (Input::List, _) => Kind::List { items: &[], offered: choices },
        (Input::Choice, value) => Kind::Choice {
            chosen: value.text(),
            choices,
            none: (!table.empty.is_empty()).then_some(table.empty),
            free: matches!(answer.choices, Choices::Failed(_)),
        },
        (Input::Text | Input::Number(..) | Input::Decimal(..), value) => {
            Kind::Text(value.to_string())
        }
    }
}

fn shown(key: Key, answer: &Answer) -> String {
    let table = key.field.row();
    if table.input == Input::Flag {
        return String::new();
    }
    match answer.shown_value() {
        empty if empty.is_empty() && table.empty.is_empty() => String::new(),
        // What an empty answer means is known only once the list is.
        empty if empty.is_empty() && answer.choices == Choices::Loading => String::new(),
        empty if empty.is_empty() => format!("({})", table.empty),
        value if table.unit.is_empty() => value,
        value => format!("{value} {}", table.unit),
    }
}

fn state(key: Key, answer: &Answer) -> State {
    match &answer.choices {
        Choices::Loading => State::Loading,
        Choices::Failed(reason) => State::Failed(reason.clone()),
        Choices::Of(choices) if choices.is_empty() && key.field != Field::Tags => State::Empty,
        Choices::Of(_) | Choices::Free => State::Ready,
    }
}
