//! Takes variables out one by one and collects what is wrong with them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use super::variables::Variable;
use super::variables::Variables;

/// What is wrong with a variable, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    variable: String,
    text: String,
}

impl Problem {
    pub(super) fn new(variable: &str, text: impl Into<String>) -> Self {
        Self { variable: variable.to_owned(), text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.variable, self.text)
    }
}

pub(super) struct Reader {
    variables: Variables,
    known: BTreeSet<&'static str>,
    pub(super) problems: Vec<Problem>,
}

impl Reader {
    pub(super) fn new(mut variables: Variables) -> Self {
        let problems = std::mem::take(&mut variables.problems);
        Self { variables, known: BTreeSet::new(), problems }
    }

    /// The value without the blanks around it; an empty one counts as not set.
    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.insert(name);
        let text = self.variables.values.get(name)?.value.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The value as it is written; it must not stand in a problem.
    pub(super) fn secret(&mut self, name: &'static str) -> Option<String> {
        self.known.insert(name);
        let text = &self.variables.values.get(name)?.value;
        (!text.is_empty()).then(|| text.clone())
    }

    /// The value, when it is set and `parse` takes it.
    pub(super) fn optional<T>(
        &mut self,
        name: &'static str,
        wanted: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(name)?;
        let value = parse(&text);
        if value.is_none() {
            self.problem(name, format!("is '{text}'; it must be {wanted}"));
        }
        value
    }

    /// As `optional`, for a value that must be set.
    pub(super) fn required<T>(
        &mut self,
        name: &'static str,
        wanted: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        if self.text(name).is_none() {
            self.problem(name, format!("is not set; it must be {wanted}"));
            return None;
        }
        self.optional(name, wanted, parse)
    }

    /// The items of a comma separated list.
    pub(super) fn list<T>(
        &mut self,
        name: &'static str,
        wanted: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        let text = self.text(name).unwrap_or_default();
        let mut items = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match parse(item) {
                Some(value) => items.push(value),
                None => self.problem(name, format!("has '{item}'; it must be {wanted}")),
            }
        }
        items
    }

    /// An absolute path, or one below `~`.
    pub(super) fn path(&mut self, name: &'static str, home: &std::path::Path) -> Option<PathBuf> {
        self.optional(name, "an absolute path, or one that begins with ~/", |text| {
            let path = match text.strip_prefix("~/") {
                Some(rest) => home.join(rest),
                None => PathBuf::from(text),
            };
            path.is_absolute().then_some(path)
        })
    }

    /// The variables whose names begin with `prefix`, less the prefix.
    pub(super) fn with_prefix(&self, prefix: &str) -> Vec<(String, String, bool)> {
        let ours = self.variables.values.iter().filter_map(|(name, variable)| {
            let rest = name.strip_prefix(prefix).filter(|rest| !rest.is_empty())?;
            Some((rest.to_owned(), variable.value.trim().to_owned(), variable.in_file))
        });
        ours.collect()
    }

    /// Names in `.env` that nobody asked for and that do not begin with `prefix`.
    pub(super) fn unknown(&self, prefix: &str) -> Vec<String> {
        let in_file = |variable: &Variable| variable.in_file;
        let unknown = self.variables.values.iter().filter_map(|(name, variable)| {
            let known = self.known.contains(name.as_str()) || name.starts_with(prefix);
            (in_file(variable) && !known).then(|| name.clone())
        });
        unknown.collect()
    }

    pub(super) fn problem(&mut self, variable: &str, text: impl Into<String>) {
        self.problems.push(Problem::new(variable, text));
    }
}
