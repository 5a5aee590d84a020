//! A request as a value: which endpoint, which path, which parameters. No I/O.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Display;

use http::Method;
use percent_encoding::AsciiSet;
use percent_encoding::NON_ALPHANUMERIC;
use percent_encoding::utf8_percent_encode;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use url::form_urlencoded;

use crate::error::Call;

/// Everything but the unreserved characters of RFC 3986.
pub(crate) const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A call that this crate knows: one row of the table in the crate's documentation.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) method: Method,
    /// The path below `/api2/json`, with `{name}` for each argument.
    pub(crate) path: &'static str,
    /// Whether the work is done by a task.
    pub(crate) starts_task: bool,
    /// The method of this crate that makes the call.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the documentation reads it"))]
    pub(crate) function: &'static str,
    /// What the account needs.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the documentation reads it"))]
    pub(crate) privilege: &'static str,
    /// The first release that offers it, if that is later than 8.0.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the documentation reads it"))]
    pub(crate) since: &'static str,
}

/// A request, ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) endpoint: &'static Endpoint,
    pub(crate) call: Call,
    /// The path as it goes on the wire.
    pub(crate) path: String,
    pub(crate) parameters: Parameters,
}

impl Request {
    /// A request to `endpoint`, whose `{name}`s are replaced by `arguments` in their order.
    pub(crate) fn new(endpoint: &'static Endpoint, arguments: &[&(dyn Display + Sync)]) -> Self {
        let mut shown = String::new();
        let mut path = "/api2/json".to_owned();
        let mut arguments = arguments.iter();
        for segment in endpoint.path.split('/').skip(1) {
            let text = match arguments.as_slice().first() {
                Some(_) if segment.starts_with('{') => {
                    arguments.next().map(ToString::to_string).unwrap_or_default()
                }
                _ => segment.to_owned(),
            };
            shown.push('/');
            shown.push_str(&text);
            path.push('/');
            path.extend(utf8_percent_encode(&text, RESERVED));
        }
        debug_assert!(arguments.next().is_none() && !path.contains('{'), "{}", endpoint.path);
        let method = endpoint.method.clone();
        let call = Call { method, path: shown, starts_task: endpoint.starts_task };
        Self { endpoint, call, path, parameters: Parameters::default() }
    }

    pub(crate) fn with(mut self, parameters: Parameters) -> Self {
        self.parameters = parameters;
        self
    }

    /// The path with the query: where the parameters of a GET or DELETE go, since Proxmox VE
    /// refuses a body there.
    pub(crate) fn target(&self) -> String {
        if self.has_body() || self.parameters.is_empty() {
            self.path.clone()
        } else {
            format!("{}?{}", self.path, self.parameters.encode())
        }
    }

    pub(crate) fn has_body(&self) -> bool {
        matches!(self.endpoint.method, Method::POST | Method::PUT)
    }
}

/// The parameters of a request, in the order in which they are sent.
///
/// `Debug` shows secret values as `…`.
#[derive(Clone, Default)]
pub struct Parameters(Vec<(Cow<'static, str>, Value)>);

#[derive(Clone)]
enum Value {
    Plain(String),
    Secret(SecretString),
}

impl Value {
    fn expose(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Secret(text) => text.expose_secret(),
        }
    }
}

impl Parameters {
    /// Adds a parameter.
    pub(crate) fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Display) {
        self.0.push((name.into(), Value::Plain(value.to_string())));
    }

    /// Adds a parameter if there is a value.
    pub(crate) fn maybe(&mut self, name: &'static str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Adds a boolean, which the server takes as `0` or `1` only.
    pub(crate) fn flag(&mut self, name: &'static str, value: Option<bool>) {
        self.maybe(name, value.map(u8::from));
    }

    /// Adds `1` if `value` holds, and nothing otherwise.
    pub(crate) fn switch(&mut self, name: &'static str, value: bool) {
        self.flag(name, value.then_some(true));
    }

    /// Adds a value that nobody may see.
    pub(crate) fn secret(&mut self, name: &'static str, value: &SecretString) {
        self.0.push((name.into(), Value::Secret(value.clone())));
    }

    /// The names and values, as they are before encoding; `None` stands for a secret.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(name, value)| match value {
            Value::Plain(text) => (name.as_ref(), Some(text.as_str())),
            Value::Secret(_) => (name.as_ref(), None),
        })
    }

    /// The values that nobody may see.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|(_, value)| match value {
            Value::Plain(_) => None,
            Value::Secret(text) => Some(text.expose_secret()),
        })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The parameters as a form.
    pub(crate) fn encode(&self) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        for (name, value) in &self.0 {
            form.append_pair(name, value.expose());
        }
        form.finish()
    }

    #[cfg(test)]
    pub(crate) fn exposed(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.expose())).collect()
    }
}

impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.iter().map(|(name, value)| (name, value.unwrap_or("…")));
        f.debug_map().entries(shown).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: Endpoint = Endpoint {
        method: Method::DELETE,
        path: "/nodes/{node}/storage/{storage}/content/{volume}",
        starts_task: true,
        function: "",
        privilege: "",
        since: "",
    };

    #[test]
    fn arguments_are_escaped_on_the_wire_and_plain_in_messages() {
        static ENDPOINT: Endpoint = VOLUME;
        let request = Request::new(&ENDPOINT, &[&"pve1", &"local", &"local:iso/a b.iso"]);
        assert_eq!(
            request.target(),
            "/api2/json/nodes/pve1/storage/local/content/local%3Aiso%2Fa%20b.iso"
        );
        assert_eq!(
            request.call.to_string(),
            "DELETE /nodes/pve1/storage/local/content/local:iso/a b.iso"
        );
    }

    #[test]
    fn a_secret_parameter_is_sent_but_not_shown() {
        let mut parameters = Parameters::default();
        parameters.set("username", "root@pam");
        parameters.secret("password", &SecretString::from("päss word&".to_owned()));
        parameters.flag("onboot", Some(false));
        assert_eq!(parameters.encode(), "username=root%40pam&password=p%C3%A4ss+word%26&onboot=0");
        insta::assert_snapshot!(format!("{parameters:?}"), @r#"{"username": "root@pam", "password": "…", "onboot": "0"}"#);
    }
}
