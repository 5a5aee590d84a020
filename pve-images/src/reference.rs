//! `docs/reference/images.md` says what the code says: this compares the two.

use std::io;
use std::time::Duration;

use reqwest::StatusCode;

use crate::Catalogue;
use crate::Error;
use crate::client::Limits;
use crate::error::bytes;

const PAGE: &str = include_str!("../../docs/reference/images.md");

/// The table under a heading of the page.
fn table(heading: &str) -> Vec<&'static str> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    section.lines().filter(|line| line.starts_with('|')).collect()
}

#[test]
fn the_catalogue_table_is_the_catalogue() {
    let mut rows = vec![
        "| os | version | user | least CPU level | image | checksum list |".to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    rows.extend(Catalogue::builtin().images().iter().map(|image| {
        format!(
            "| `{}` | `{}` | `{}` | {} | `{}` | `{}` |",
            image.os,
            image.version,
            image.user,
            image.cpu.as_deref().map_or_else(|| "any".to_owned(), |level| format!("`{level}`")),
            image.url,
            image.sums.as_ref().unwrap().path().rsplit('/').next().unwrap(),
        )
    }));
    assert_eq!(table("Catalogue"), rows, "the table should be:\n{}", rows.join("\n"));
}

/// One error of each kind, in the order of the page, with words in place of what changes.
fn errors() -> Vec<Error> {
    let (url, sums) = (|| "URL".to_owned(), || "LIST".to_owned());
    let path = || "FILE".into();
    let mut errors = vec![
        Error::Late { method: "HEAD", url: url(), limit: Limits::default().head },
        Error::Status { method: "HEAD", url: url(), status: StatusCode::NOT_FOUND },
        Error::Status { method: "HEAD", url: url(), status: StatusCode::FORBIDDEN },
        Error::Status { method: "HEAD", url: url(), status: StatusCode::SERVICE_UNAVAILABLE },
        Error::Trust { url: url(), source: rustls::Error::UnsupportedNameType },
        Error::NotListed { sums: sums(), name: "NAME".to_owned() },
        Error::NoRoom {
            directory: path(),
            name: "NAME".to_owned(),
            needed: Some(600 << 20),
            available: 100 << 20,
        },
        Error::Length { url: url(), expected: 600, got: 500 },
        Error::Unjudgeable { url: url() },
        Error::NotAnImage { url: url(), reason: "REASON" },
        Error::Checksum {
            url: url(),
            sums: sums(),
            expected: "sha512:LISTED".to_owned(),
            got: "sha512:FOUND".to_owned(),
        },
        Error::Refused { path: path(), reason: "is a symbolic link".to_owned() },
        Error::Disturbed { path: path() },
        Error::File { action: "write", path: path(), source: io::ErrorKind::Other.into() },
        Error::Elsewhere { reason: "REASON".to_owned() },
        Error::Name { url: url(), reason: "does not end in a file name" },
        Error::Setup(Box::new(io::Error::other("x"))),
    ];
    errors.sort_by_key(place);
    errors
}

/// The order of the page; a new kind of error does not compile until somebody has described it there.
fn place(error: &Error) -> u8 {
    match error {
        Error::Unreachable { .. } => 0,
        Error::Late { .. } => 1,
        Error::Status { .. } => 2,
        Error::Trust { .. } => 3,
        Error::NotListed { .. } => 4,
        Error::NoRoom { .. } => 5,
        Error::Interrupted { .. } => 6,
        Error::Length { .. } => 7,
        Error::Unjudgeable { .. } => 8,
        Error::NotAnImage { .. } => 9,
        Error::Checksum { .. } => 10,
        Error::Refused { .. } => 11,
        Error::Disturbed { .. } => 12,
        Error::File { .. } => 13,
        Error::Elsewhere { .. } => 14,
        Error::Name { .. } => 15,
        Error::Setup(_) => 16,
    }
}

/// These two carry an error that only a connection makes; their texts are looked at in the cache's own tests.
const FROM_A_CONNECTION: [&str; 2] = [
    "HEAD URL: no whole answer",
    "GET URL: broke off 4 times, the last time at 500 of 600 bytes; the next try goes on from there",
];

#[test]
fn the_failure_table_has_every_error_with_its_text_and_its_rest() {
    let mut said: Vec<(u8, String, bool)> = errors()
        .iter()
        .map(|error| (place(error), error.to_string(), error.spoils_the_part()))
        .collect();
    said.push((0, FROM_A_CONNECTION[0].to_owned(), false));
    said.push((6, FROM_A_CONNECTION[1].to_owned(), false));
    said.sort();
    let expected: Vec<String> = said
        .iter()
        .map(|(_, text, spoils)| {
            format!("| `{text}` | {} |", if *spoils { "removed" } else { "stays" })
        })
        .collect();
    // The third column explains, in free words.
    let rows: Vec<String> = table("When it fails")[2..]
        .iter()
        .map(|row| format!("{} |", row.trim_end_matches(" |").rsplit_once(" | ").unwrap().0))
        .collect();
    assert_eq!(rows, expected, "the first two columns should be:\n{}", expected.join("\n"));
}

#[test]
fn the_limits_of_the_page_are_those_of_the_code() {
    let Limits { head, connect, read, list, pause } = Limits::default();
    for (limit, words) in [
        (head, "`HEAD` must answer 200 within 15 s"),
        (connect, "a connection must stand within 10 s"),
        (read, "after 30 s without a byte"),
        (list, "its checksum list must be there within 60 s"),
    ] {
        let seconds = limit.as_secs();
        assert!(words.contains(&format!(" {seconds} s")), "{words}: {seconds} s");
        assert!(PAGE.contains(words), "missing: {words}");
    }
    assert_eq!(pause, Duration::from_millis(500));
    assert!(PAGE.contains("after half a second, one and two"));
    assert!(PAGE.contains("at most twice a second"));
    assert_eq!(bytes(600 << 20), "629145600 bytes (600.0 MiB)");
}
