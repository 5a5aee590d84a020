//! The crate against what real servers said (`tests/recorded`) and what they take (`tests/facts`).

use serde::Deserialize;

use crate::endpoint::ALL;

mod answers;
mod covered;
mod errors;
mod facts;
mod requests;

/// A recorded call and its answer.
#[derive(Debug, Deserialize)]
struct Row {
    name: String,
    method: String,
    path: String,
    status: u16,
    reason: String,
    body: String,
    /// How the task ended that the call began.
    #[serde(default)]
    exit: Option<String>,
}

/// Every recorded call, with the release of the server.
fn recorded() -> Vec<(&'static str, Row)> {
    let releases = [
        ("9.2", include_str!("../tests/recorded/9.2.jsonl")),
        ("8.4", include_str!("../tests/recorded/8.4.jsonl")),
    ];
    let mut rows = Vec::new();
    for (release, lines) in releases {
        for line in lines.lines() {
            rows.push((release, serde_json::from_str(line).unwrap()));
        }
    }
    rows
}

impl Row {
    /// The path below `/api2/json` without the query, decoded; `None` for other formats.
    fn plain_path(&self) -> Option<String> {
        let path = self.path.strip_prefix("/api2/json")?.split('?').next()?;
        Some(path.trim_end_matches('/').to_owned())
    }

    /// Whether the call is one to this path, whose `{…}` stand for one segment each.
    fn is(&self, method: &str, template: &str) -> bool {
        let Some(path) = self.plain_path() else { return false };
        // A volume's name holds a slash that some recorded calls did not escape.
        let path = match path.split_once("/content/") {
            Some((before, volume)) => format!("{before}/content/{}", volume.replace('/', "%2F")),
            None => path,
        };
        let mut segments = path.split('/');
        self.method == method
            && template.split('/').all(|part| {
                segments.next().is_some_and(|segment| {
                    part == segment || part.starts_with('{') && !segment.is_empty()
                })
            })
            && segments.next().is_none()
    }

    fn call(&self) -> crate::Call {
        let endpoint = ALL.iter().find(|one| self.is(one.method.as_str(), one.path));
        crate::Call {
            method: self.method.parse().unwrap(),
            path: self.plain_path().unwrap_or_else(|| self.path.clone()),
            starts_task: endpoint.is_some_and(|endpoint| endpoint.starts_task),
        }
    }
}
