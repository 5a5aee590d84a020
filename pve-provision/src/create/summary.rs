//! The summary: what was answered, as a person reads it, screen by screen.

use super::field::Key;
use super::field::Screen;
use super::resolve::Answers;
use super::resolve::Origin;

/// One line of the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where it was answered.
    pub screen: Screen,
    /// The place of the answer.
    pub key: Key,
    /// The label.
    pub label: String,
    /// The value in words; what an empty answer means stands in brackets.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// Everything that was answered, less what does not arise.
pub fn summary(answers: &Answers) -> Vec<Line> {
    let shown = answers.iter().filter(|(_, answer)| answer.shown);
    let lines = shown.map(|(key, answer)| {
        let row = key.field.row();
        let value = match answer.shown_value() {
            empty if empty.is_empty() && row.empty.is_empty() => "-".to_owned(),
            empty if empty.is_empty() => format!("({})", row.empty),
            value if row.unit.is_empty() => value,
            value => format!("{value} {}", row.unit),
        };
        Line { screen: row.screen, key, label: key.label(), value, origin: answer.origin }
    });
    lines.collect()
}
