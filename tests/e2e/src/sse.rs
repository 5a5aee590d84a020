//! Server-sent events as they arrive: a parser that keeps the raw bytes.

use anyhow::Context;
use serde_json::Value;

/// One message of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// The `event:` line; none for an ordinary message.
    pub event: Option<String>,
    /// The `id:` line.
    pub id: Option<String>,
    /// The `data:` lines.
    pub data: String,
}

impl Message {
    /// Whether this is the last message of a stream.
    pub fn is_close(&self) -> bool {
        self.event.as_deref() == Some("close")
    }

    /// The event in the message.
    pub fn told(&self) -> anyhow::Result<Told> {
        let value: Value =
            serde_json::from_str(&self.data).with_context(|| format!("not JSON: {}", self.data))?;
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let told = || {
            Some(Told { step: text("step")?, status: text("status")?, message: text("message")? })
        };
        told().with_context(|| format!("not an event: {}", self.data))
    }
}

/// What a message tells: the three keys of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// `<stage> > <step>`.
    pub step: String,
    /// `processing`, `success` or `error`.
    pub status: String,
    /// The text.
    pub message: String,
}

/// Takes a stream apart, in pieces of any size.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    message: Message,
    has_data: bool,
}

impl Parser {
    /// The messages that `bytes` complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                messages.extend(self.end_line(&String::from_utf8_lossy(&line)));
            } else {
                self.line.push(byte);
            }
        }
        messages
    }

    fn end_line(&mut self, line: &str) -> Option<Message> {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match field {
            "" if line.is_empty() => {
                let message = std::mem::take(&mut self.message);
                return std::mem::take(&mut self.has_data).then_some(message);
            }
            "data" if self.has_data => {
                self.message.data.push('\n');
                self.message.data.push_str(&value);
            }
            "data" => {
                self.message.data = value;
                self.has_data = true;
            }
            "event" => self.message.event = Some(value),
            "id" => self.message.id = Some(value),
            // A comment, which keeps the connection alive.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_parsed_alike_in_pieces_of_any_size() {
        let text = ": hello\n\nid: 3\ndata: {\"a\": 1}\n\ndata: x\r\ndata: y\r\n\r\nevent: close\ndata: {}\nid: 4\n\nid: 5\n\n";
        let whole = Parser::default().feed(text.as_bytes());
        let mut parser = Parser::default();
        let bytewise: Vec<Message> = text.bytes().flat_map(|byte| parser.feed(&[byte])).collect();
        assert_eq!(whole, bytewise);
        let data: Vec<&str> = whole.iter().map(|message| message.data.as_str()).collect();
        assert_eq!(data, ["{\"a\": 1}", "x\ny", "{}"]);
        assert_eq!(whole[0].id.as_deref(), Some("3"));
        assert!(whole[2].is_close() && whole[2].id.as_deref() == Some("4"));
    }
}
