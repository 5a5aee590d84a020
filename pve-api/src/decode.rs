//! From the bytes of an answer to a value, and an honest word when that does not work.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::Call;
use crate::error::Error;
use crate::error::Result;

/// What stands around every answer.
#[derive(Deserialize)]
pub(crate) struct Envelope<T> {
    pub(crate) data: T,
}

/// The `data` of an answer.
pub(crate) fn decode<T: DeserializeOwned>(call: &Call, body: &[u8]) -> Result<T> {
    match serde_json::from_slice::<Envelope<T>>(body) {
        Ok(envelope) => Ok(envelope.data),
        Err(error) if error.is_data() => Err(with_path::<T>(call, body)),
        Err(error) => match repair(body) {
            Some(repaired) => decode(call, repaired.as_bytes()),
            None => Err(not_json(call, &error)),
        },
    }
}

pub(crate) fn not_json(call: &Call, error: &serde_json::Error) -> Error {
    Error::Decode { call: call.clone(), path: ".".to_owned(), problem: error.to_string() }
}

/// Decodes once more to find out where it fails: keeping the path costs time on every field.
fn with_path<T: DeserializeOwned>(call: &Call, body: &[u8]) -> Error {
    let mut decoder = serde_json::Deserializer::from_slice(body);
    let (path, problem) = match serde_path_to_error::deserialize::<_, Envelope<T>>(&mut decoder) {
        Ok(_) => (".".to_owned(), "unreadable".to_owned()),
        Err(error) => (error.path().to_string(), plain(error.inner())),
    };
    Error::Decode { call: call.clone(), path, problem }
}

/// The complaint without its position in a text that nobody sees.
pub(crate) fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((complaint, _)) => complaint.to_owned(),
        None => text,
    }
}

/// The text with a mark in place of what no JSON text may hold: bytes that are not UTF-8, and halves
/// of surrogate pairs. Perl lets both through, in the name of a guest for instance. `None` if there
/// is nothing of the kind.
pub(crate) fn repair(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let mut repaired = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        repaired.push_str(before);
        let length = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                repaired.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            _ => escape.chars().take(2).map(char::len_utf8).sum(),
        };
        repaired.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    repaired.push_str(rest);
    (repaired.as_bytes() != body).then_some(repaired)
}

/// The number of an escape such as `\ud800` at the beginning of the text.
fn unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_surrogate_pairs_and_bytes_that_are_no_text_are_marked() {
        let repaired = |body: &[u8]| repair(body);
        assert_eq!(repaired(br#"{"data":"a\ud83d\ude00\\ud800\n"}"#), None);
        assert_eq!(
            repaired(br#"{"data":"a\ud83db\ude00c\ud83d\ud83d\ude00"}"#).as_deref(),
            Some(r#"{"data":"a\ufffdb\ufffdc\ufffd\ud83d\ude00"}"#)
        );
        assert_eq!(repaired(b"\"a\xFFb\"").as_deref(), Some("\"a\u{FFFD}b\""));
        assert_eq!(repaired(br#""\ud8"#), None);
    }
}
