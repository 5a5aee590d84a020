//! The table of covered calls in the crate's documentation.

use std::fmt::Write as _;
use std::path::Path;

use crate::endpoint::ALL;

fn table() -> String {
    let mut text = "# Calls\n\n\
        | call | path below `/api2/json` | what the account needs | since |\n\
        |---|---|---|---|\n"
        .to_owned();
    for endpoint in ALL {
        let functions: Vec<String> =
            endpoint.function.split(", ").map(|name| format!("[`{name}`]")).collect();
        let (method, path) = (&endpoint.method, endpoint.path);
        writeln!(
            text,
            "| {} | `{method} {path}` | {} | {} |",
            functions.join(", "),
            endpoint.privilege,
            endpoint.since
        )
        .unwrap();
    }
    text
}

#[test]
fn the_table_of_calls_in_the_documentation_is_the_one_that_requests_are_built_from() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/endpoints.md");
    let written = std::fs::read_to_string(&path).unwrap();
    if written != table() {
        // Like a snapshot: left beside the file for whoever changed the calls.
        std::fs::write(path.with_extension("md.new"), table()).unwrap();
    }
    assert_eq!(written, table(), "the right text is in src/endpoints.md.new");
}

#[test]
fn every_call_stands_in_the_table_once() {
    for (index, one) in ALL.iter().enumerate() {
        for other in &ALL[index + 1..] {
            assert!((&one.method, one.path) != (&other.method, other.path), "{} twice", one.path);
        }
    }
}
