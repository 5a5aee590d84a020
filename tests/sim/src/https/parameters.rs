//! Parameters from query, form, JSON document or upload.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::Digest;

use super::message::Request;
use super::message::find;
use crate::schema::Parameters;

/// What stands between the values of a parameter that was given several times.
const BETWEEN: &str = "\0";

type Read = (Parameters, Option<(String, Vec<u8>)>);

/// The parameters of a request, and the file that came with them; the query wins.
pub(super) fn of(request: &Request, query: &str) -> Result<Read, (u16, String)> {
    let kind = request.header("Content-Type").unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let mut upload = None;
    let mut parameters = match essence.as_str() {
        _ if request.body.is_empty() => Parameters::new(),
        "" | "application/x-www-form-urlencoded" => form(&String::from_utf8_lossy(&request.body)),
        "application/json" => json(&request.body)?,
        "multipart/form-data" => {
            let (parameters, file) = multipart(kind, &request.body)?;
            upload = file;
            parameters
        }
        other => return Err((506, format!("upload 'Content-Type '{other}' not implemented"))),
    };
    parameters.extend(form(query));
    Ok((parameters, upload))
}

fn form(text: &str) -> Parameters {
    let mut parameters = Parameters::new();
    for (key, value) in url::form_urlencoded::parse(text.as_bytes()) {
        parameters
            .entry(key.into_owned())
            .and_modify(|held| {
                held.push_str(BETWEEN);
                held.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    parameters
}

/// Only a JSON document knows true and false.
fn json(body: &[u8]) -> Result<Parameters, (u16, String)> {
    let wrong = || (400, "unable to decode json".to_owned());
    let document: BTreeMap<String, Value> = serde_json::from_slice(body).ok().ok_or_else(wrong)?;
    let mut parameters = Parameters::new();
    for (key, value) in document {
        let value = match value {
            Value::Null => continue,
            Value::Array(values) => {
                let values: Option<Vec<String>> = values.iter().map(scalar).collect();
                values.ok_or_else(wrong)?.join(BETWEEN)
            }
            other => scalar(&other).ok_or_else(wrong)?,
        };
        parameters.insert(key, value);
    }
    Ok(parameters)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(u8::from(*value).to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// Fields, and the file under the temporary name that the API hands on.
fn multipart(kind: &str, body: &[u8]) -> Result<Read, (u16, String)> {
    let wrong = || (400, "unable to parse multipart form".to_owned());
    let boundary = kind.split_once("boundary=").ok_or_else(wrong)?.1.trim_matches('"');
    let delimiter = format!("--{boundary}");
    let mut parameters = Parameters::new();
    let mut file = None;
    let mut rest = body;
    while let Some(start) = find(rest, delimiter.as_bytes()) {
        rest = &rest[start + delimiter.len()..];
        if rest.starts_with(b"--") {
            break;
        }
        let head_end = find(rest, b"\r\n\r\n").ok_or_else(wrong)?;
        let head = String::from_utf8_lossy(&rest[..head_end]).into_owned();
        let content = &rest[head_end + 4..];
        let end = find(content, format!("\r\n{delimiter}").as_bytes()).ok_or_else(wrong)?;
        let name = quoted(&head, " name=").ok_or_else(wrong)?;
        let content = &content[..end];
        match quoted(&head, "filename=") {
            Some(filename) => {
                let hash = hex::encode(sha2::Sha256::digest(content));
                let temporary = format!("/var/tmp/pveupload-{}", &hash[..32]);
                parameters.insert("filename".to_owned(), filename);
                parameters.insert("tmpfilename".to_owned(), temporary.clone());
                file = Some((temporary, content.to_vec()));
            }
            None => {
                parameters.insert(name, String::from_utf8_lossy(content).into_owned());
            }
        }
        rest = &rest[head_end + 4 + end..];
    }
    Ok((parameters, file))
}

fn quoted(head: &str, key: &str) -> Option<String> {
    let rest = head.split_once(key)?.1.strip_prefix('"')?;
    Some(rest.split('"').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::Request;
    use super::of;

    fn request(kind: &str, body: &str) -> Request {
        Request {
            headers: vec![("Content-Type".to_owned(), kind.to_owned())],
            body: body.as_bytes().to_vec(),
            ..Request::default()
        }
    }

    #[test]
    fn every_way_to_give_parameters_is_read() {
        let (form, _) =
            of(&request("application/x-www-form-urlencoded", "a=1+2&b=%2520"), "a=3").unwrap();
        assert_eq!(form["a"], "3");
        assert_eq!(form["b"], "%20");
        let (json, _) =
            of(&request("application/json", r#"{"a":true,"b":[1,"2"],"c":null}"#), "").unwrap();
        assert_eq!((json["a"].as_str(), json["b"].as_str(), json.len()), ("1", "1\u{0}2", 2));
        let body = "--x\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n--x\r\n\
                    Content-Disposition: form-data; name=\"filename\"; filename=\"a.iso\"\r\n\
                    Content-Type: application/octet-stream\r\n\r\nby\r\ntes\r\n--x--\r\n";
        let (upload, file) = of(&request("multipart/form-data; boundary=x", body), "").unwrap();
        assert_eq!((upload["content"].as_str(), upload["filename"].as_str()), ("iso", "a.iso"));
        let (name, bytes) = file.unwrap();
        assert_eq!(
            (upload["tmpfilename"].as_str(), bytes.as_slice()),
            (name.as_str(), &b"by\r\ntes"[..])
        );
    }
}
