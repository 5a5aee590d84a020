//! What the user said, and only that.

use std::collections::BTreeMap;

use super::field::Field;
use super::field::Key;
use super::field::MAX_DISKS;
use super::field::UnknownKey;
use super::template::Template;
use super::value::InvalidValue;
use super::value::Value;

use thiserror::Error;

/// Answers by their keys; what is not there was not said.
pub type Table = BTreeMap<Key, Value>;

/// A VM to be made, as far as somebody said what it is to be.
///
/// It is sparse: defaults, and what follows from other answers, come from
/// [`resolve`](super::resolve) alone. Its template answers what was not said.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    template: Template,
    said: Table,
}

impl Default for Draft {
    fn default() -> Self {
        Self::new(Template::specification())
    }
}

/// Why `key=value` cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidAnswer {
    /// It is not of the form `key=value`.
    #[error("'{0}' is not of the form key=value")]
    NoValue(String),
    /// There is no such key.
    #[error(transparent)]
    Key(#[from] UnknownKey),
    /// The value is none for this key.
    #[error("{key}: {problem}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong.
        problem: InvalidValue,
    },
}

impl Draft {
    /// A draft in which nothing was said yet.
    pub fn new(template: Template) -> Self {
        Self { template, said: Table::new() }
    }

    /// The template that answers what was not said.
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Chooses another template; what was said stays.
    pub fn set_template(&mut self, template: Template) {
        self.template = template;
    }

    /// What was said under the key; of a disk's field also what was said of all disks.
    pub fn said(&self, key: Key) -> Option<&Value> {
        find(&self.said, key)
    }

    /// What the template says under the key.
    pub(super) fn preset(&self, key: Key) -> Option<&Value> {
        find(self.template.table(), key)
    }

    /// All that was said.
    pub fn answers(&self) -> &Table {
        &self.said
    }

    /// Says something. What hangs on it and was chosen from its choices is asked anew: an ISO is of
    /// a storage, a version of a guest type.
    pub fn say(&mut self, key: impl Into<Key>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        if self.said.get(&key) == Some(&value) {
            return;
        }
        match key.field {
            Field::IsoStorage => drop(self.said.remove(&Field::Iso.into())),
            Field::OsType => drop(self.said.remove(&Field::OsVersion.into())),
            _ => {}
        }
        if key.field == Field::Disks {
            let count = value.number().and_then(|count| usize::try_from(count).ok());
            self.said.retain(|key, _| key.disk.is_none_or(|disk| count.is_none_or(|c| disk < c)));
        }
        self.said.insert(key, value);
    }

    /// Takes back what was said.
    pub fn unsay(&mut self, key: impl Into<Key>) {
        self.said.remove(&key.into());
    }

    /// Says `key=value`, as on a command line.
    pub fn set(&mut self, assignment: &str) -> Result<(), InvalidAnswer> {
        let (key, value) = assignment
            .split_once('=')
            .ok_or_else(|| InvalidAnswer::NoValue(assignment.to_owned()))?;
        let key: Key = key.trim().parse()?;
        self.say(key, read(key, value)?);
        Ok(())
    }

    /// How many disks were said, if any word was said about that.
    pub(super) fn disks(&self) -> Option<usize> {
        count(&self.said)
    }

    /// Adds a disk to the `there` disks that there are, and gives its number.
    pub fn add_disk(&mut self, there: usize) -> usize {
        self.said.insert(Field::Disks.into(), Value::Number(there as u64 + 1));
        there
    }

    /// Removes a disk of the `there` disks that there are; those behind it move up.
    pub fn remove_disk(&mut self, disk: usize, there: usize) {
        // What the template says of a disk stays with that disk, so it has to be said now.
        for (key, value) in self.template.table() {
            if key.disk.is_some_and(|number| number < there) {
                self.said.entry(*key).or_insert_with(|| value.clone());
            }
        }
        let said = std::mem::take(&mut self.said);
        let moved = said.into_iter().filter_map(|(key, value)| match key.disk {
            Some(number) if number == disk => None,
            Some(number) if number > disk => Some((Key::disk(number - 1, key.field), value)),
            _ => Some((key, value)),
        });
        self.said = moved.collect();
        self.said.insert(Field::Disks.into(), Value::Number(there.saturating_sub(1) as u64));
    }
}

/// Reads a text for a key.
pub(super) fn read(key: Key, text: &str) -> Result<Value, InvalidAnswer> {
    Value::parse(key.field.row().input, text)
        .map_err(|problem| InvalidAnswer::Value { key: key.to_string(), problem })
}

fn find(table: &Table, key: Key) -> Option<&Value> {
    table.get(&key).or_else(|| table.get(&key.of_each_disk()))
}

/// How many disks a table speaks of: what it says, and no less than the disks that it names.
pub(super) fn count(table: &Table) -> Option<usize> {
    let said = table.get(&Field::Disks.into()).and_then(Value::number);
    let said = said.and_then(|count| usize::try_from(count).ok());
    let named = table.keys().filter_map(|key| key.disk).max().map(|last| last + 1);
    said.max(named).map(|count| count.min(MAX_DISKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_names_what_is_wrong_with_it() {
        let mut draft = Draft::default();
        let mut said = |text: &str| draft.set(text).unwrap_err().to_string();
        insta::assert_snapshot!(said("cpu.cores"), @"'cpu.cores' is not of the form key=value");
        insta::assert_snapshot!(said("cpu.cores=0"), @"cpu.cores: '0' is not a whole number from 1 to 256");
        insta::assert_snapshot!(said("cpu.cups=2"), @"there is no 'cpu.cups'; there are cpu.cores, cpu.sockets, cpu.type");
    }

    #[test]
    fn a_removed_disk_takes_only_its_own_answers_along() {
        let mut draft = Draft::default();
        for text in ["disks.0.size=1", "disks.1.size=2", "disks.2.size=3", "disk.storage=fast"] {
            draft.set(text).unwrap();
        }
        assert_eq!(draft.disks(), Some(3));
        draft.remove_disk(1, 3);
        let size = |disk| draft.said(Key::disk(disk, Field::DiskSize)).map(ToString::to_string);
        assert_eq!((size(0), size(1), size(2)), (Some("1".into()), Some("3".into()), None));
        assert_eq!(draft.disks(), Some(2));
        assert_eq!(draft.said(Key::disk(7, Field::DiskStorage)), Some(&Value::from("fast")));
    }

    #[test]
    fn what_hangs_on_an_answer_is_asked_anew() {
        let mut draft = Draft::default();
        for text in ["os.storage=a", "os.iso=a:iso/x.iso", "os.storage=a"] {
            draft.set(text).unwrap();
        }
        assert!(draft.said(Field::Iso.into()).is_some(), "the same again changes nothing");
        draft.set("os.storage=b").unwrap();
        assert!(draft.said(Field::Iso.into()).is_none());
    }
}
