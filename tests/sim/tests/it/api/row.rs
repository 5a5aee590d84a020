//! One recorded call.

use percent_encoding::NON_ALPHANUMERIC;
use percent_encoding::utf8_percent_encode;
use pve_sim::https::Request;
use serde::Deserialize;
use serde_json::Value;

/// A recorded call and its answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) call: String,
    #[serde(rename = "as")]
    pub(crate) caller: Option<String>,
    pub(crate) request: Option<String>,
    pub(crate) form: Option<serde_json::Map<String, Value>>,
    pub(crate) size: Option<usize>,
    /// The names of the headers that were sent.
    pub(crate) with: Vec<String>,
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) connection: Option<Vec<String>>,
    #[serde(rename = "type")]
    pub(crate) content_type: Option<String>,
    pub(crate) time: Option<u64>,
    pub(crate) body: Value,
    pub(crate) exit: Option<String>,
    pub(crate) log: Option<Vec<String>>,
}

/// The rows of a session.
pub(crate) fn rows(recorded: &str) -> Vec<Row> {
    recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Row {
    /// Whether a header of this name was sent.
    pub(crate) fn sent(&self, name: &str) -> bool {
        self.with.iter().any(|known| known == name)
    }

    /// The pairs of the form, if it is one.
    pub(crate) fn form(&self) -> Vec<(String, String)> {
        let text = self.request.as_deref().unwrap_or_default();
        if text.starts_with('{') {
            let document: Value = serde_json::from_str(text).unwrap();
            let pairs = document.as_object().unwrap().iter();
            return pairs
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect();
        }
        url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
    }

    /// The request without what shows who makes it.
    pub(crate) fn request(&self, replace: impl Fn(&str) -> String) -> Request {
        let (method, target) = self.call.split_once(' ').unwrap();
        let mut request =
            Request { method: method.to_owned(), target: replace(target), ..Request::default() };
        if let Some(form) = &self.form {
            self.multipart(form, &mut request);
        } else if let Some(text) = &self.request {
            let json = text.starts_with('{');
            let kind = if json { "application/json" } else { "application/x-www-form-urlencoded" };
            request.headers.push(("Content-Type".to_owned(), kind.to_owned()));
            request.body = replace(text).into_bytes();
        }
        request
    }

    /// The bytes of an uploaded file were not recorded: a qcow2 begins as one, the rest is empty.
    fn multipart(&self, form: &serde_json::Map<String, Value>, request: &mut Request) {
        const BOUNDARY: &str = "--------boundary";
        let mut bytes = vec![0; self.size.unwrap_or_default()];
        let filename = form["filename"].as_str().unwrap();
        if filename.split('.').next_back() == Some("qcow2") && bytes.len() > 32 {
            bytes[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
            bytes[24..32].copy_from_slice(&(64_u64 << 20).to_be_bytes());
        }
        let mut body = Vec::new();
        for (key, value) in form.iter().filter(|(key, _)| *key != "filename") {
            let value = value.as_str().unwrap();
            let head = format!("Content-Disposition: form-data; name=\"{key}\"");
            body.extend(format!("--{BOUNDARY}\r\n{head}\r\n\r\n{value}\r\n").into_bytes());
        }
        let head =
            format!("Content-Disposition: form-data; name=\"filename\"; filename=\"{filename}\"");
        body.extend(format!("--{BOUNDARY}\r\n{head}\r\n\r\n").into_bytes());
        body.extend(bytes);
        body.extend(format!("\r\n--{BOUNDARY}--\r\n").into_bytes());
        request.body = body;
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        request.headers.push(("Content-Type".to_owned(), kind));
    }
}

/// Percent-encoded as the recording client did.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
