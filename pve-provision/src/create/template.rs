//! Templates: answers to begin with, as TOML with the keys of the table.
//!
//! ```toml
//! title = "Small web server"
//! [general]
//! tags = ["web"]
//! [disk]          # every disk
//! storage = "fast"
//! [[disks]]       # the first disk
//! size = 20
//! ```

use std::collections::BTreeSet;

use thiserror::Error;

use super::draft::InvalidAnswer;
use super::draft::Table;
use super::field::Field;
use super::field::Key;
use super::value::Value;

/// Answers to begin with.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    name: String,
    title: String,
    table: Table,
    locked: BTreeSet<Field>,
}

/// Why a template cannot be used.
#[derive(Debug, Error)]
#[error("template '{name}': {problem}")]
pub struct InvalidTemplate {
    name: String,
    problem: String,
}

const SPECIFICATION: &str = include_str!("templates/default.toml");
const SERVER: &str = include_str!("templates/server.toml");

impl Template {
    /// The templates that need no file: the specification's, and the server's own defaults.
    pub fn builtin() -> Vec<Self> {
        vec![Self::specification(), Self::server()]
    }

    /// The defaults of the specification.
    pub fn specification() -> Self {
        Self::carried("default", SPECIFICATION)
    }

    /// The defaults of the web UI, which ask for nothing that a fresh node lacks.
    pub fn server() -> Self {
        Self::carried("server", SERVER)
    }

    /// A carried template; a test reads them all, so what is wrong in one does not get far.
    fn carried(name: &str, text: &str) -> Self {
        Self::parse(name, text).unwrap_or_else(|error| Self {
            name: name.to_owned(),
            title: error.to_string(),
            table: Table::new(),
            locked: BTreeSet::new(),
        })
    }

    /// Reads a template of a user.
    pub fn parse(name: &str, text: &str) -> Result<Self, InvalidTemplate> {
        let wrong = |problem: String| InvalidTemplate { name: name.to_owned(), problem };
        let mut file: toml::Table =
            text.parse().map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
        let title = match file.remove("title") {
            Some(toml::Value::String(title)) => title,
            Some(_) => return Err(wrong("title: not a text".to_owned())),
            None => name.to_owned(),
        };
        let locked = match file.remove("locked") {
            Some(value) => locked(&value).map_err(wrong)?,
            None => BTreeSet::new(),
        };
        let table = table(&file).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { name: name.to_owned(), title, table, locked })
    }

    /// The name by which it is chosen.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What stands in a list of templates.
    pub fn title(&self) -> &str {
        &self.title
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Whether the template leaves no choice here.
    pub(super) fn locks(&self, field: Field) -> bool {
        self.locked.contains(&field)
    }
}

fn locked(value: &toml::Value) -> Result<BTreeSet<Field>, String> {
    let toml::Value::Array(items) = value else {
        return Err("locked: not a list of keys".to_owned());
    };
    let fields = items.iter().map(|item| {
        let text = item.as_str().unwrap_or_default();
        text.parse::<Key>().map(|key| key.field).map_err(|error| format!("locked: {error}"))
    });
    fields.collect()
}

/// Flattens the file into keys.
fn table(file: &toml::Table) -> Result<Table, InvalidAnswer> {
    let mut table = Table::new();
    for (name, value) in file {
        match value {
            toml::Value::Table(fields) => {
                for (field, value) in fields {
                    take(&mut table, &format!("{name}.{field}"), value)?;
                }
            }
            toml::Value::Array(disks) if name == "disks" => {
                table.insert(Field::Disks.into(), Value::Number(disks.len() as u64));
                for (number, disk) in disks.iter().enumerate() {
                    for (field, value) in disk.as_table().into_iter().flatten() {
                        take(&mut table, &format!("disks.{number}.{field}"), value)?;
                    }
                }
            }
            other => take(&mut table, name, other)?,
        }
    }
    Ok(table)
}

fn take(table: &mut Table, key: &str, value: &toml::Value) -> Result<(), InvalidAnswer> {
    let key: Key = key.parse()?;
    let value = Value::from_toml(key.field.row().input, value)
        .map_err(|problem| InvalidAnswer::Value { key: key.to_string(), problem })?;
    table.insert(key, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::draft::Draft;

    #[test]
    fn the_carried_templates_are_read_whole() {
        for (name, text) in [("default", SPECIFICATION), ("server", SERVER)] {
            let template = Template::parse(name, text).unwrap();
            assert_eq!(template, Template::carried(name, text));
            assert_ne!(template.title(), name);
        }
    }

    #[test]
    fn a_template_names_the_key_that_is_wrong() {
        let said = |text: &str| Template::parse("mine", text).unwrap_err().to_string();
        insta::assert_snapshot!(said("[cpu]\ncore = 2"), @"template 'mine': there is no 'cpu.core'; there are cpu.cores, cpu.sockets, cpu.type");
        insta::assert_snapshot!(said("[cpu]\ncores = 'two'"), @"template 'mine': cpu.cores: 'two' is not a whole number from 1 to 256");
        insta::assert_snapshot!(said("[[disks]]\nsize = -1"), @"template 'mine': disks.0.size: '-1' is not a number from 0.001 to 131072");
        insta::assert_snapshot!(said("locked = ['x']"), @"template 'mine': locked: there is no 'x'");
    }

    #[test]
    fn a_template_may_have_no_disk_or_several() {
        let disks = |text: &str| Draft::new(Template::parse("mine", text).unwrap()).disks();
        assert_eq!(disks("disks = []"), 0);
        assert_eq!(disks("disks = 0"), 0);
        assert_eq!(disks("[[disks]]\n[[disks]]\nsize = 5"), 2);
        assert_eq!(disks("[disk]\nsize = 5"), 1);
    }
}
