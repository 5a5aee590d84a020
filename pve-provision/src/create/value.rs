//! Values of fields: read from text or TOML by what the table says, shown as text.

use std::fmt;

use thiserror::Error;

use super::field::Input;

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Left empty.
    Empty,
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Number(u64),
    /// A number with decimals.
    Decimal(f64),
    /// A text, or the value of a choice.
    Text(String),
    /// Texts.
    List(Vec<String>),
}

/// A text that does not answer the question.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{text}' is not {wanted}")]
pub struct InvalidValue {
    text: String,
    wanted: String,
}

impl Value {
    /// Reads what a person typed; an empty text is an empty answer.
    pub fn parse(input: Input, text: &str) -> Result<Self, InvalidValue> {
        let text = text.trim();
        match input {
            Input::List if text.is_empty() => return Ok(Self::List(Vec::new())),
            Input::Flag => {}
            _ if text.is_empty() => return Ok(Self::Empty),
            _ => {}
        }
        let wrong = |wanted: String| Err(InvalidValue { text: text.to_owned(), wanted });
        match input {
            Input::Text | Input::Choice => Ok(Self::Text(text.to_owned())),
            Input::List => {
                let parts = text.split([',', ';', ' ']).filter(|part| !part.is_empty());
                Ok(Self::List(parts.map(str::to_owned).collect()))
            }
            Input::Flag => match text.to_ascii_lowercase().as_str() {
                "1" | "on" | "yes" | "true" | "enabled" => Ok(Self::Flag(true)),
                "0" | "off" | "no" | "false" | "disabled" => Ok(Self::Flag(false)),
                _ => wrong("yes or no".to_owned()),
            },
            Input::Number(least, most) => match text.parse() {
                Ok(number) if (least..=most).contains(&number) && is_plain(text) => {
                    Ok(Self::Number(number))
                }
                _ => wrong(format!("a whole number from {least} to {most}")),
            },
            Input::Decimal(least, most) => match text.parse::<f64>() {
                Ok(number) if (least..=most).contains(&number) && is_plain(text) => {
                    Ok(Self::Decimal(number))
                }
                _ => wrong(format!("a number from {least} to {most}")),
            },
        }
    }

    /// Reads a value of a TOML file.
    pub fn from_toml(input: Input, value: &toml::Value) -> Result<Self, InvalidValue> {
        match (input, value) {
            (Input::List, toml::Value::Array(items)) => {
                let texts = items.iter().map(|item| match item {
                    toml::Value::String(text) => Ok(text.clone()),
                    other => {
                        let wanted = "a text".to_owned();
                        Err(InvalidValue { text: shown(other), wanted })
                    }
                });
                texts.collect::<Result<_, _>>().map(Self::List)
            }
            (_, toml::Value::String(text)) => Self::parse(input, text),
            (_, other) => Self::parse(input, &shown(other)),
        }
    }

    /// The text of a text or a choice; empty otherwise.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    /// Whether it is a yes.
    pub fn is_on(&self) -> bool {
        *self == Self::Flag(true)
    }

    /// Whether nothing was answered.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::List(items) => items.is_empty(),
            _ => false,
        }
    }

    /// The whole number, if it is one.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// A value of a TOML file as text.
fn shown(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(flag) => flag.to_string(),
        other => other.type_str().to_owned(),
    }
}

/// Whether the server reads the number, too: digits, perhaps a point and digits.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && !text.starts_with('.')
        && !text.ends_with('.')
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => Ok(()),
            Self::Flag(flag) => f.write_str(if *flag { "yes" } else { "no" }),
            Self::Number(number) => number.fmt(f),
            Self::Decimal(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::List(items) => f.write_str(&items.join(", ")),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_value_is_answered_with_what_would_be_right() {
        let said = |input, text| Value::parse(input, text).unwrap_err().to_string();
        insta::assert_snapshot!(said(Input::Flag, "maybe"), @"'maybe' is not yes or no");
        insta::assert_snapshot!(said(Input::Number(1, 4094), "4095"), @"'4095' is not a whole number from 1 to 4094");
        insta::assert_snapshot!(said(Input::Decimal(0.001, 131_072.0), "1e3"), @"'1e3' is not a number from 0.001 to 131072");
        for bad in ["-1", "1.5", "0x10", "+3", "NaN"] {
            assert!(Value::parse(Input::Number(1, 10), bad).is_err(), "{bad}");
            assert!(Value::parse(Input::Decimal(0.0, 1.0), bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn empty_is_an_answer() {
        assert!(Value::parse(Input::Flag, "").is_err());
        assert_eq!(Value::parse(Input::Number(1, 2), " "), Ok(Value::Empty));
        assert_eq!(Value::parse(Input::List, ""), Ok(Value::List(Vec::new())));
        assert_eq!(
            Value::parse(Input::List, "a;b, c"),
            Ok(Value::List(vec!["a".into(), "b".into(), "c".into()]))
        );
    }
}
