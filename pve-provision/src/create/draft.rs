//! What the user said, and only that.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

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
    /// The template's disks that were removed; the others keep what it says of them.
    removed: BTreeSet<usize>,
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
        Self { template, said: Table::new(), removed: BTreeSet::new() }
    }

    /// The template that answers what was not said.
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Chooses another template; what was said stays.
    pub fn set_template(&mut self, template: Template) {
        if self.template != template {
            self.template = template;
            self.removed.clear();
        }
    }

    /// What was said under the key; of a disk's field also what was said of all disks.
    pub fn said(&self, key: Key) -> Option<&Value> {
        find(&self.said, key)
    }

    /// What the template says under the key.
    pub(super) fn preset(&self, key: Key) -> Option<&Value> {
        let disk = key.disk.map(|disk| self.in_template(disk));
        find(self.template.table(), Key { disk, ..key })
    }

    /// The template's number of a disk: those that were removed do not count.
    fn in_template(&self, disk: usize) -> usize {
        self.removed.iter().fold(disk, |number, removed| number + usize::from(*removed <= number))
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
            let count = number(&value);
            self.said.retain(|key, _| key.disk.is_none_or(|disk| count.is_none_or(|c| disk < c)));
        }
        self.said.insert(key, value);
    }

    /// Takes back what was said.
    pub fn unsay(&mut self, key: impl Into<Key>) {
        let key = key.into();
        self.said.remove(&key);
        if key.field == Field::Disks {
            self.removed.clear();
        }
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

    /// How many disks there are: as many as were said, else as many as the template has, and no
    /// less than were named.
    pub(super) fn disks(&self) -> usize {
        let said = self.said.get(&Field::Disks.into()).and_then(number);
        let all = said.or_else(|| count(self.template.table())).unwrap_or(1);
        all.max(named(&self.said)).min(MAX_DISKS)
    }

    /// Adds a disk to the `there` disks that there are, and gives its number.
    pub fn add_disk(&mut self, there: usize) -> usize {
        self.said.insert(Field::Disks.into(), Value::Number(there as u64 + 1));
        there
    }

    /// Removes a disk of the `there` disks that there are; those behind it move up with what was
    /// said of them and what the template says of them.
    pub fn remove_disk(&mut self, disk: usize, there: usize) {
        self.removed.insert(self.in_template(disk));
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
fn count(table: &Table) -> Option<usize> {
    let said = table.get(&Field::Disks.into()).and_then(number);
    let named = Some(named(table)).filter(|named| *named > 0);
    said.max(named).map(|count| count.min(MAX_DISKS))
}

/// How many disks there must be, since one of them is named.
fn named(table: &Table) -> usize {
    table.keys().filter_map(|key| key.disk).max().map_or(0, |last| last + 1)
}

fn number(value: &Value) -> Option<usize> {
    value.number().and_then(|number| usize::try_from(number).ok())
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

    /// Sizes and caches of a draft's disks: said, or of the template.
    fn disks(draft: &Draft) -> String {
        let value = |key| draft.said(key).or_else(|| draft.preset(key)).map(ToString::to_string);
        let one = |disk| {
            let value = |field| value(Key::disk(disk, field)).unwrap_or_else(|| "-".to_owned());
            format!("{} {}", value(Field::DiskSize), value(Field::DiskCache))
        };
        (0..draft.disks()).map(one).collect::<Vec<_>>().join(", ")
    }

    const THREE: &str = "[disk]\ncache = 'none'\n\
        [[disks]]\nsize = 1\ncache = 'unsafe'\n[[disks]]\nsize = 2\n[[disks]]\nsize = 3\n";

    fn of_three() -> Draft {
        Draft::new(Template::parse("three", THREE).unwrap())
    }

    #[test]
    fn what_is_said_of_one_disk_of_a_template_leaves_the_others() {
        let mut draft = of_three();
        assert_eq!(disks(&draft), "1 unsafe, 2 none, 3 none");
        draft.set("disks.1.size=20").unwrap();
        assert_eq!(disks(&draft), "1 unsafe, 20 none, 3 none");
        draft.set("disks.3.size=40").unwrap();
        assert_eq!(disks(&draft), "1 unsafe, 20 none, 3 none, 40 none");
        draft.set("disks=2").unwrap();
        assert_eq!(disks(&draft), "1 unsafe, 20 none", "as many as were said");
        draft.unsay(Field::Disks);
        assert_eq!(disks(&draft), "1 unsafe, 20 none, 3 none");
        let mut none = Draft::new(Template::parse("none", "disks = 0").unwrap());
        assert_eq!(none.disks(), 0);
        none.set("disks.0.size=5").unwrap();
        assert_eq!(disks(&none), "5 -");
    }

    #[test]
    fn a_removed_disk_takes_only_its_own_answers_along() {
        let mut draft = Draft::default();
        for text in ["disks.0.size=1", "disks.1.size=2", "disks.2.size=3", "disk.cache=none"] {
            draft.set(text).unwrap();
        }
        draft.remove_disk(1, 3);
        assert_eq!(disks(&draft), "1 none, 3 none");
        assert_eq!(draft.said(Key::disk(7, Field::DiskCache)), Some(&Value::from("none")));
    }

    #[test]
    fn the_neighbours_of_a_removed_disk_keep_what_was_theirs() {
        let mut draft = of_three();
        draft.remove_disk(0, 3);
        assert_eq!(disks(&draft), "2 none, 3 none", "the cache of the first one is not inherited");
        assert!(draft.said(Key::disk(0, Field::DiskSize)).is_none(), "nobody said it");
        assert_eq!(draft.add_disk(2), 2);
        assert_eq!(disks(&draft), "2 none, 3 none, - none", "a new one is like every disk");
        draft.remove_disk(1, 3);
        assert_eq!(disks(&draft), "2 none, - none");
        draft.unsay(Field::Disks);
        assert_eq!(disks(&draft), "1 unsafe, 2 none, 3 none", "the template's own again");
        let mut each = of_three();
        each.set("disk.size=10").unwrap();
        each.set("disks.2.cache=unsafe").unwrap();
        each.remove_disk(0, 3);
        assert_eq!(disks(&each), "10 none, 10 unsafe", "what was said of all stays so");
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
