//! The body of `POST /api/vm/install`, read field by field so that an error can name the field.

use std::fmt;
use std::io;

use secrecy::SecretString;
use serde_json::Map;
use serde_json::Number;
use serde_json::Value;
use thiserror::Error;

/// Why a request cannot be carried out; nothing has been done for it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Invalid(pub(crate) String);

impl Invalid {
    /// An invalid field: what it is, without the value of a secret one, and what would be right.
    pub(crate) fn field(name: &str, what: impl fmt::Display) -> Self {
        Self(format!("{name} {what}"))
    }
}

/// Why there is no plan.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The request cannot be carried out as it is.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The cluster's file system (`PVE_DIR`) does not tell which nodes there are.
    #[error("the cluster's nodes cannot be read (PVE_DIR)")]
    Nodes(#[source] io::Error),
}

/// What was asked for, as it was said: nothing is filled in or clamped yet.
#[derive(Debug, Clone)]
pub struct Request {
    pub(crate) os: String,
    pub(crate) version: String,
    /// As it was said, whatever it is: what would be right depends on the network.
    pub(crate) id: Option<Value>,
    pub(crate) name: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) cpu: Option<i64>,
    pub(crate) ram: Option<i64>,
    pub(crate) disk: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<SecretString>,
    pub(crate) public_keys: Option<String>,
    /// Keys that have no effect.
    pub(crate) ignored: Vec<String>,
}

const FIELDS: [&str; 11] =
    ["os", "version", "id", "name", "node", "cpu", "ram", "disk", "user", "passwd", "pubkey"];

impl Request {
    /// Reads a JSON body. `null`, the empty text and the number 0 as `id` count as left out.
    ///
    /// # Errors
    ///
    /// Names the field and what would be right; never the value of `passwd`.
    pub fn parse(body: &[u8]) -> Result<Self, Invalid> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(Invalid(
                "the body is empty: send a JSON object with os and version".to_owned(),
            ));
        }
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| Invalid(format!("the body is not JSON: {error}")))?;
        let Value::Object(fields) = value else {
            return Err(Invalid("the body is not a JSON object".to_owned()));
        };
        Ok(Self {
            os: required(&fields, "os")?,
            version: required(&fields, "version")?,
            id: fields.get("id").filter(|id| !is_left_out(id)).cloned(),
            name: text(&fields, "name")?,
            node: text(&fields, "node")?,
            cpu: integer(&fields, "cpu")?,
            ram: integer(&fields, "ram")?,
            disk: text(&fields, "disk")?,
            user: text(&fields, "user")?,
            password: text(&fields, "passwd")?.map(SecretString::from),
            public_keys: text(&fields, "pubkey")?,
            ignored: fields.keys().filter(|key| !FIELDS.contains(&key.as_str())).cloned().collect(),
        })
    }
}

fn required(fields: &Map<String, Value>, name: &str) -> Result<String, Invalid> {
    text(fields, name)?.ok_or_else(|| Invalid::field(name, "is missing"))
}

fn text(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, Invalid> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(Invalid::field(name, format!("is {}, not a text", kind(other)))),
    }
}

fn integer(fields: &Map<String, Value>, name: &str) -> Result<Option<i64>, Invalid> {
    let wanted = "a whole number";
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::Number(number)) => match clamped(number) {
            Some(number) => Ok(Some(number)),
            None => Err(Invalid::field(name, format!("is {number}, not {wanted}"))),
        },
        Some(other) => Err(Invalid::field(name, format!("is {}, not {wanted}", kind(other)))),
    }
}

/// The whole number, with what is beyond 64 bits at the end of their range.
fn clamped(number: &Number) -> Option<i64> {
    if let Some(number) = number.as_i64() {
        return Some(number);
    }
    let float = number.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a float beyond the range saturates, which is the rule"
    )]
    (float.fract() == 0.0).then_some(float as i64)
}

/// Whether an `id` counts as left out.
fn is_left_out(id: &Value) -> bool {
    id.is_null() || id.as_str() == Some("") || id.as_f64() == Some(0.0)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(body: &str) -> String {
        Request::parse(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_body_that_does_not_parse_is_told_without_repeating_it() {
        let errors = [
            "",
            " ",
            "[]",
            "{\"os\":\"debian\"",
            "{}",
            r#"{"os":"debian"}"#,
            r#"{"os":7,"version":"12"}"#,
            r#"{"os":"debian","version":"12","cpu":"2"}"#,
            r#"{"os":"debian","version":"12","cpu":2.5}"#,
            r#"{"os":"debian","version":"12","passwd":{"a":"s3cret"}}"#,
            r#"{"os":"debian","version":"12","passwd":"s3cret}"#,
        ]
        .map(error);
        insta::assert_snapshot!(errors.join("\n"), @"
        the body is empty: send a JSON object with os and version
        the body is empty: send a JSON object with os and version
        the body is not a JSON object
        the body is not JSON: EOF while parsing an object at line 1 column 14
        os is missing
        version is missing
        os is a number, not a text
        cpu is a text, not a whole number
        cpu is 2.5, not a whole number
        passwd is an object, not a text
        the body is not JSON: EOF while parsing a string at line 1 column 47
        ");
        assert!(!errors.concat().contains("s3cret"));
    }

    #[test]
    fn null_empty_and_zero_count_as_left_out() {
        let body = br#"{"os":"debian","version":"12","id":0,"name":"","node":null,"cpu":null,"user":"","passwd":""}"#;
        let request = Request::parse(body).unwrap();
        assert_eq!((request.id, request.name, request.node, request.cpu), (None, None, None, None));
        assert!(request.user.is_none() && request.password.is_none());
    }

    #[test]
    fn numbers_beyond_64_bits_are_clamped() {
        let body = br#"{"os":"debian","version":"12","cpu":1e30,"ram":-99999999999999999999}"#;
        let request = Request::parse(body).unwrap();
        assert_eq!((request.cpu, request.ram), (Some(i64::MAX), Some(i64::MIN)));
    }

    #[test]
    fn unknown_keys_are_kept_by_name() {
        let body = br#"{"os":"debian","version":"12","ip":"1.2.3.4","colour":1}"#;
        assert_eq!(Request::parse(body).unwrap().ignored, ["ip", "colour"]);
    }
}
