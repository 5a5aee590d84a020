//! Rows: what a form shows of each field. They are made anew from the answers, and hold nothing.

use std::borrow::Cow;

use pve_provision::create::Choice;

/// What a form shows of a field, and how it is changed.
#[derive(Debug, Clone)]
pub(crate) struct Row<'a, K> {
    /// Whose field it is.
    pub(crate) key: K,
    pub(crate) label: Cow<'static, str>,
    pub(crate) kind: Kind<'a>,
    /// The value as a person reads it.
    pub(crate) shown: String,
    /// A word at the end of the line: where the value comes from.
    pub(crate) word: &'static str,
    pub(crate) state: State,
    /// Why it cannot be changed.
    pub(crate) lock: Option<&'a str>,
    pub(crate) notes: Vec<Cow<'a, str>>,
    pub(crate) problems: Vec<Cow<'a, str>>,
}

/// How a field is changed.
#[derive(Debug, Clone)]
pub(crate) enum Kind<'a> {
    /// By typing; the text is what an editor begins with.
    Text(String),
    /// By typing what nobody may read.
    Secret,
    /// Yes or no.
    Flag(bool),
    /// One of several.
    Choice {
        /// The value of the one that is chosen.
        chosen: &'a str,
        /// What there is to choose from.
        choices: &'a [Choice],
        /// What to call no choice at all, where that is one.
        none: Option<&'static str>,
        /// Whether another value than those may be typed.
        free: bool,
    },
    /// Several texts.
    List {
        /// Those that are in.
        items: &'a [String],
        /// Those that are offered.
        offered: &'a [Choice],
    },
    /// By nothing: it does something.
    Button,
    /// Not at all: there is something to read.
    Line,
}

/// How far the server's part of a field is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// It is there, or there is none.
    Ready,
    /// It is being asked for.
    Loading,
    /// The server has none.
    Empty,
    /// It could not be had.
    Failed(String),
}

impl<K> Row<'_, K> {
    /// A row that is only read or pressed.
    pub(crate) fn new(key: K, label: impl Into<Cow<'static, str>>, kind: Kind<'_>) -> Row<'_, K> {
        Row {
            key,
            label: label.into(),
            kind,
            shown: String::new(),
            word: "",
            state: State::Ready,
            lock: None,
            notes: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// The same row with a value to read.
    pub(crate) fn showing(self, shown: impl Into<String>) -> Self {
        Self { shown: shown.into(), ..self }
    }
}
