//! The parts of `docs` that follow from the code.
//!
//! A page has them between `<!-- generated: NAME -->` and `<!-- end -->`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::ensure;
use jiff::Timestamp;
use pve_provision::Event;
use pve_provision::Interruptible;
use pve_provision::Kind;
use pve_provision::Left;
use pve_provision::OnFailure;
use pve_provision::Step;
use pve_provision::Stream;

use crate::programs::repository;

/// A page below `docs`, the name of a part of it, and what writes that part.
type Part = (&'static str, &'static str, fn() -> String);

const PARTS: [Part; 3] = [
    ("reference/failure-table.md", "failure-table", failure_table),
    ("reference/events.md", "events", events),
    ("reference/events.md", "final-events", final_events),
];

/// The pages whose parts are screens of the wizard, or pieces and outputs of the examples.
const PICTURED: [&str; 3] = ["guide/pve-api.md", "guide/wizard.md", "zh-TW/wizard.md"];

/// Writes the generated parts into the pages; names the parts that were changed.
pub fn write() -> anyhow::Result<Vec<String>> {
    let mut changed = Vec::new();
    for (page, name, part) in PARTS {
        let path = docs().join(page);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {page}"))?;
        let fresh =
            replaced(&text, name, &part()).with_context(|| format!("{page} has no part {name}"))?;
        if fresh != text {
            fs::write(&path, fresh)?;
            changed.push(format!("{page}: {name}"));
        }
    }
    for page in PICTURED {
        let (path, text, fresh) = pictures(page)?;
        if fresh != text {
            fs::write(&path, fresh)?;
            changed.push(format!("{page}: pictures"));
        }
    }
    Ok(changed)
}

/// The pages whose generated parts are not what the code says.
pub fn stale() -> anyhow::Result<Vec<String>> {
    let mut stale = Vec::new();
    for (page, name, part) in PARTS {
        let text = fs::read_to_string(docs().join(page))?;
        if replaced(&text, name, &part()).as_deref() != Some(text.as_str()) {
            stale.push(format!("{page}: {name}"));
        }
    }
    for page in PICTURED {
        let (_, text, fresh) = pictures(page)?;
        if fresh != text {
            stale.push(format!("{page}: pictures"));
        }
    }
    Ok(stale)
}

/// A guide, as it is and with its pictures made anew from what the tests hold the programs to.
fn pictures(page: &str) -> anyhow::Result<(PathBuf, String, String)> {
    let path = docs().join(page);
    let text = fs::read_to_string(&path)?;
    let mut fresh = text.clone();
    for part in text.split("<!-- generated: ").skip(1) {
        let name = part.split(" -->").next().unwrap_or_default();
        let picture = match name.split_once(' ') {
            Some(("example", piece)) => example(piece)?,
            Some(("printed", sentence)) => {
                let name = sentence.replace(' ', "_");
                picture("tests/e2e/tests/it/snapshots", &format!("it__examples__{name}.snap"))?
            }
            _ => {
                let name = name.replace(' ', "__");
                picture("pve-tui/src/tests/snapshots", &format!("pve_tui__tests__{name}.snap"))?
            }
        };
        fresh = replaced(&fresh, name, &picture).with_context(|| format!("{name} has no end"))?;
    }
    Ok((path, text, fresh))
}

/// What a test has seen.
fn picture(directory: &str, file: &str) -> anyhow::Result<String> {
    let snapshot = fs::read_to_string(repository().join(directory).join(file))
        .with_context(|| format!("there is no {file}"))?;
    let screen = snapshot.splitn(3, "---\n").nth(2).context("a snapshot has a head")?;
    Ok(format!("```text\n{}\n```\n", screen.trim_end()))
}

/// A piece of an example of the API client: its file, how many lines, and how the first one begins.
fn example(piece: &str) -> anyhow::Result<String> {
    let mut words = piece.splitn(3, ' ');
    let mut word = || words.next().context("a piece has a file, a number and a beginning");
    let (file, count, beginning) = (word()?, word()?.parse()?, word()?);
    let source = fs::read_to_string(repository().join("pve-api/examples").join(file))?;
    let begins = |line: &&str| line.trim_start().starts_with(beginning);
    ensure!(source.lines().filter(begins).count() == 1, "{file}: not one line `{beginning}`");
    let lines: Vec<&str> = source.lines().skip_while(|line| !begins(line)).take(count).collect();
    let blanks = |line: &&str| line.len() - line.trim_start().len();
    let indent = lines.iter().filter(|line| !line.is_empty()).map(blanks).min().unwrap_or(0);
    let lines: Vec<&str> = lines.iter().map(|line| line.get(indent..).unwrap_or(line)).collect();
    Ok(format!("```rust\n// examples/{file}\n{}\n```\n", lines.join("\n")))
}

fn docs() -> PathBuf {
    repository().join("docs")
}

/// `text` with the part of that name replaced, or `None` when it has no such part.
fn replaced(text: &str, name: &str, part: &str) -> Option<String> {
    let start = format!("<!-- generated: {name} -->\n");
    let (before, rest) = text.split_once(&start)?;
    let (_, after) = rest.split_once("<!-- end -->")?;
    Some(format!("{before}{start}{part}<!-- end -->{after}"))
}

fn failure_table() -> String {
    let is_install = |step: &&Step| Step::ALL.contains(step);
    let is_operation = |step: &&Step| step.name().starts_with("VM operation");
    let wizard = Step::EVERY.iter().filter(|step| !is_install(step) && !is_operation(step));
    [
        ("An install", rows(Step::ALL.iter())),
        ("The wizard", rows(wizard)),
        ("An operation on a VM that exists", rows(Step::EVERY.iter().filter(is_operation))),
    ]
    .map(|(flow, rows)| {
        let head = "| stage | step | when it fails | can be cancelled |\n|---|---|---|---|\n";
        format!("\n## {flow}\n\n{head}{rows}\n")
    })
    .concat()
}

fn rows<'a>(steps: impl Iterator<Item = &'a Step>) -> String {
    let rows = steps.map(|step| {
        let (stage, name) = step.name().split_once(" > ").unwrap_or_default();
        let left = match step.on_failure() {
            OnFailure::Nothing => "nothing is left",
            OnFailure::Destroy => "VM destroyed",
            OnFailure::Keep => "VM stays",
        };
        let cancelled = match step.interruptible() {
            Interruptible::Yes => "at once",
            Interruptible::No => "not",
            Interruptible::AfterItsCommand => "after its command",
        };
        format!("| `{stage}` | `{name}` | {left} | {cancelled} |\n")
    });
    rows.collect()
}

fn events() -> String {
    let log = "Setting up qemu-guest-agent (1:7.2+dfsg-7) ...".to_owned();
    let failed = "VMID 120 is in use by another guest".to_owned();
    let samples = [
        (Step::CreatingVm, Kind::Started("creating VM 120 (web-120)".to_owned())),
        (Step::ValidatingCpuAndRam, Kind::Notice("cpu 64 → 16 (VM_MAX_CPU)".to_owned())),
        (
            Step::DownloadingOsImage,
            Kind::Progress { done: 211 << 20, total: Some(424 << 20), rate: 61 << 20 },
        ),
        (Step::SshInitialization, Kind::Line { stream: Stream::Stdout, text: log }),
        (Step::CreatingVm, Kind::Done("created VM 120".to_owned())),
        (Step::CreatingVm, Kind::Failed { text: failed, left: Left::Nothing }),
    ];
    fenced(&samples)
}

fn final_events() -> String {
    let done = Kind::Done("VM installation completed in 182.41s".to_owned());
    let report = |text: &str| (Step::Finalizing, Kind::Report(text.to_owned()));
    let samples = [
        (Step::Finalizing, done),
        report("VMID: 120"),
        report("IP: 192.0.2.120"),
        report("User: ubuntu"),
    ];
    fenced(&samples)
}

/// The events as they stand in a stream.
fn fenced(samples: &[(Step, Kind)]) -> String {
    let lines = (0..).zip(samples).map(|(number, (step, kind))| {
        let event = Event { number, time: Timestamp::UNIX_EPOCH, step: *step, kind: kind.clone() };
        format!("data: {}", serde_json::to_string(&event.wire()).unwrap_or_default())
    });
    format!("\n```text\n{}\n```\n\n", lines.collect::<Vec<_>>().join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_says_what_the_code_says() {
        let stale = stale().unwrap();
        assert!(stale.is_empty(), "run `cargo xtask docs`; stale: {stale:?}");
    }

    #[test]
    fn a_stale_part_is_seen() {
        let page = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n";
        let fresh = replaced(page, "x", "new\n").unwrap();
        assert_eq!(fresh, "a\n<!-- generated: x -->\nnew\n<!-- end -->\nb\n");
        assert_eq!(replaced(page, "y", "new\n"), None);
    }
}
