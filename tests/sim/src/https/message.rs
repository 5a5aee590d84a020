//! HTTP/1.1 requests and responses, as far as the API needs them.

use std::fmt::Write;
use std::io;

use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;

/// Bytes that a head may have.
const HEAD_LIMIT: usize = 64 << 10;

/// Bytes that a body may have unless it is an upload.
const BODY_LIMIT: usize = 512 << 10;

/// Bytes that an upload may have here.
const UPLOAD_LIMIT: usize = 1 << 30;

/// A request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET`.
    pub method: String,
    /// Path and query, as they were sent.
    pub target: String,
    /// Names and values, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Whether some of the body came later than the head.
    pub in_pieces: bool,
}

impl Request {
    /// The first header of a name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// A cookie's value.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        self.header("Cookie")?
            .split(';')
            .filter_map(|part| part.trim().split_once('='))
            .find_map(|(known, value)| (known == name).then_some(value))
    }

    /// The API token that the request brings, if that is how its caller is known.
    pub fn token(&self) -> Option<&str> {
        self.header("Authorization").filter(|text| text.starts_with("PVEAPIToken"))
    }

    /// Whether the connection is to be closed after the answer.
    pub fn closes(&self) -> bool {
        self.header("Connection").is_some_and(|text| text.eq_ignore_ascii_case("close"))
    }
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The reason phrase: the message when the call failed.
    pub reason: String,
    /// The `Connection` headers, each on a line of its own.
    pub connection: Vec<&'static str>,
    /// The type of the body, if it has one.
    pub content_type: Option<&'static str>,
    /// Where else to look.
    pub location: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// A failure that is told by the reason phrase alone.
    pub fn bare(status: u16, reason: String) -> Self {
        Self {
            status,
            reason,
            connection: vec!["close"],
            content_type: None,
            location: None,
            body: Vec::new(),
        }
    }

    /// A failure with its text in the body too.
    pub fn text(status: u16, reason: &str) -> Self {
        Self { body: reason.as_bytes().to_vec(), ..Self::bare(status, reason.to_owned()) }
    }

    /// An answer of the API.
    pub fn json(status: u16, reason: &str, connection: &[&'static str], body: &Value) -> Self {
        Self {
            connection: connection.to_vec(),
            content_type: Some("application/json;charset=UTF-8"),
            body: body.to_string().into_bytes(),
            ..Self::bare(status, reason.to_owned())
        }
    }

    /// Whether the connection really ends: a lone `close` says so, one beside `Keep-Alive` not.
    pub fn closes(&self) -> bool {
        self.connection == ["close"]
    }

    /// The response as it is sent, at this time.
    pub fn bytes(&self, date: &str) -> Vec<u8> {
        let mut head =
            format!("HTTP/1.1 {} {}\r\nCache-Control: max-age=0\r\n", self.status, self.reason);
        for value in &self.connection {
            line(&mut head, "Connection", value);
        }
        line(&mut head, "Date", date);
        line(&mut head, "Pragma", "no-cache");
        if let Some(location) = &self.location {
            line(&mut head, "Location", location);
        }
        line(&mut head, "Server", "pve-api-daemon/3.0");
        line(&mut head, "Content-Length", &self.body.len().to_string());
        if let Some(kind) = self.content_type {
            line(&mut head, "Content-Type", kind);
        }
        line(&mut head, "Expires", date);
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend(&self.body);
        bytes
    }
}

fn line(head: &mut String, name: &str, value: &str) {
    // Writing to a text cannot fail.
    let _ = write!(head, "{name}: {value}\r\n");
}

/// What came instead of a request that can be answered by the API.
#[derive(Debug)]
pub enum Unread {
    /// The connection has ended.
    Closed,
    /// The request is refused at once.
    Refused(Response),
}

impl From<io::Error> for Unread {
    fn from(_: io::Error) -> Self {
        // Whatever broke, nobody is there to be told.
        Self::Closed
    }
}

/// Reads one request; `rest` keeps what has come of the next one.
pub async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    rest: &mut Vec<u8>,
) -> Result<Request, Unread> {
    let end = loop {
        if let Some(end) = find(rest, b"\r\n\r\n") {
            break end;
        }
        if rest.len() > HEAD_LIMIT {
            return Err(Unread::Refused(Response::bare(400, "bad request".to_owned())));
        }
        more(stream, rest).await?;
    };
    let head = String::from_utf8_lossy(&rest[..end]).into_owned();
    rest.drain(..end + 4);
    let mut request = parse(&head)?;
    if request.header("Transfer-Encoding").is_some() {
        let reason = "chunked transfer encoding not supported".to_owned();
        return Err(Unread::Refused(Response::bare(501, reason)));
    }
    let length: usize =
        request.header("Content-Length").and_then(|text| text.parse().ok()).unwrap_or_default();
    let form = request.header("Content-Type").is_some_and(|kind| kind.starts_with("multipart/"));
    if length > if form { UPLOAD_LIMIT } else { BODY_LIMIT } {
        return Err(Unread::Refused(Response::bare(501, "for data too large".to_owned())));
    }
    request.in_pieces = rest.len() < length;
    if request.in_pieces && request.header("Expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        stream.flush().await?;
    }
    while rest.len() < length {
        more(stream, rest).await?;
    }
    request.body = rest.drain(..length).collect();
    Ok(request)
}

async fn more<S: AsyncRead + Unpin>(stream: &mut S, rest: &mut Vec<u8>) -> Result<(), Unread> {
    match stream.read_buf(rest).await? {
        0 => Err(Unread::Closed),
        _ => Ok(()),
    }
}

/// Writes a response in one piece.
pub async fn write<S: AsyncWrite + Unpin>(
    stream: &mut S,
    response: &Response,
    date: &str,
) -> io::Result<()> {
    stream.write_all(&response.bytes(date)).await?;
    stream.flush().await
}

fn parse(head: &str) -> Result<Request, Unread> {
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next())
    else {
        return Err(Unread::Refused(Response::bare(400, "bad request".to_owned())));
    };
    if !version.starts_with("HTTP/1.") {
        let reason = format!("http protocol version {version} not supported");
        return Err(Unread::Refused(Response::bare(506, reason)));
    }
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    Ok(Request {
        method: method.to_owned(),
        target: target.to_owned(),
        headers,
        ..Request::default()
    })
}

/// Where a pattern begins.
pub(super) fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Response;

    #[test]
    fn a_response_is_written_as_it_was_recorded() {
        let date = "Mon, 30 Nov 2026 13:25:54 GMT";
        let response = Response::json(200, "OK", &["close", "Keep-Alive"], &json!({"data": null}));
        let text = String::from_utf8(response.bytes(date)).unwrap();
        insta::assert_snapshot!(text.replace("\r\n", "\n"), @r#"
        HTTP/1.1 200 OK
        Cache-Control: max-age=0
        Connection: close
        Connection: Keep-Alive
        Date: Mon, 30 Nov 2026 13:25:54 GMT
        Pragma: no-cache
        Server: pve-api-daemon/3.0
        Content-Length: 13
        Content-Type: application/json;charset=UTF-8
        Expires: Mon, 30 Nov 2026 13:25:54 GMT

        {"data":null}
        "#);
        assert!(!response.closes() && Response::bare(401, "No ticket".to_owned()).closes());
    }
}
