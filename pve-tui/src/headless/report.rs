//! What is printed: lines for people, or one JSON document a line.

use std::io;
use std::io::Write;

use pve_provision::Event;
use pve_provision::create;
use pve_provision::create::Answers;
use pve_provision::create::End;
use pve_provision::create::Facts;
use pve_provision::create::Failure;
use pve_provision::create::NotReady;
use pve_provision::create::Plan;
use pve_provision::create::Privileges;
use pve_provision::create::Remedy;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

/// What is wrong with the input, and what could not be found out.
pub(super) fn problems(
    as_json: bool,
    facts: &Facts,
    refused: &NotReady,
    out: &mut impl Write,
    err: &mut impl Write,
) -> io::Result<()> {
    let failures: Vec<String> = facts
        .failures()
        .map(|(query, reason)| format!("{} could not be had: {reason}", query.subject()))
        .collect();
    if as_json {
        let problems: Map<String, Value> =
            refused.problems.iter().map(|(key, text)| (key.to_string(), json!(text))).collect();
        let document = json!({ "result": "input", "problems": problems, "failures": failures });
        return writeln!(out, "{document}");
    }
    for failure in failures {
        writeln!(err, "note: {failure}")?;
    }
    writeln!(err, "{refused}")
}

/// Everything that would be done.
pub(super) fn dry_run(
    as_json: bool,
    plan: &Plan,
    answers: &Answers,
    privileges: &Privileges,
    out: &mut impl Write,
) -> io::Result<()> {
    let missing: Vec<String> = privileges.missing.iter().map(ToString::to_string).collect();
    if as_json {
        let parameters: Map<String, Value> =
            plan.parameters().into_iter().map(|(name, value)| (name, json!(value))).collect();
        let document = json!({
            "result": "dry run", "node": plan.node, "vmid": plan.vmid(),
            "request": format!("POST /nodes/{}/qemu", plan.node), "parameters": parameters,
            "ha": plan.ha, "start": plan.start, "pvesh": plan.pvesh_lines(), "qm": plan.qm_lines(),
            "missing": missing, "grants": privileges.grants, "notes": note_lines(answers),
        });
        return writeln!(out, "{document}");
    }
    writeln!(out, "POST /nodes/{}/qemu", plan.node)?;
    for (name, value) in plan.parameters() {
        writeln!(out, "  {name}={value}")?;
    }
    section(out, "On any node:", &plan.pvesh_lines())?;
    section(out, "The same on this node:", &plan.qm_lines())?;
    section(out, "Notes:", &note_lines(answers))?;
    section(out, "Missing privileges:", &missing)?;
    section(out, "An administrator grants them by:", &privileges.grants)
}

fn section(out: &mut impl Write, title: &str, lines: &[String]) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title}")?;
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

fn note_lines(answers: &Answers) -> Vec<String> {
    answers.notes().map(|(key, text)| format!("{key}: {text}")).collect()
}

pub(super) fn notes(answers: &Answers, err: &mut impl Write) -> io::Result<()> {
    note_lines(answers).iter().try_for_each(|note| writeln!(err, "note: {note}"))
}

pub(super) fn summary(answers: &Answers, err: &mut impl Write) -> io::Result<()> {
    let mut screen = None;
    for line in create::summary(answers) {
        if screen != Some(line.screen) {
            screen = Some(line.screen);
            writeln!(err, "{}", line.screen.title())?;
        }
        writeln!(err, "  {:28} {}", line.label, line.value)?;
    }
    Ok(())
}

/// An event as it happens.
pub(super) fn event(as_json: bool, event: &Event, out: &mut impl Write) -> io::Result<()> {
    if as_json {
        let document = serde_json::to_string(event)?;
        return writeln!(out, "{document}");
    }
    let wire = event.wire();
    writeln!(out, "{}: {}", wire.step, wire.message)
}

/// How it ended, and what can be done.
pub(super) fn end(
    as_json: bool,
    plan: &Plan,
    end: &End,
    out: &mut impl Write,
    err: &mut impl Write,
) -> io::Result<()> {
    let (result, failures): (&str, Vec<&Failure>) = match end {
        End::Made { .. } => ("made", Vec::new()),
        End::NothingMade(failure) => ("nothing made", vec![failure]),
        End::WithoutConsole(failure) => ("made without console", vec![failure]),
        End::Incomplete(failures) => ("incomplete", failures.iter().collect()),
        End::Unknown { failure, .. } => ("unknown", vec![failure]),
    };
    if as_json {
        let failures: Vec<Value> = failures.iter().map(|failure| failure_json(failure)).collect();
        let document = json!({
            "result": result, "node": plan.node, "vmid": plan.vmid(), "failures": failures,
        });
        return writeln!(out, "{document}");
    }
    let vm = format!("VM {} on {}", plan.vmid(), plan.node);
    match end {
        End::Made { .. } => writeln!(out, "{vm} is made.")?,
        End::NothingMade(_) => writeln!(err, "Nothing was made.")?,
        End::WithoutConsole(_) => {
            writeln!(err, "{vm} is made, but its serial console could not be set up.")?;
        }
        End::Incomplete(_) => writeln!(err, "{vm} is made, but not all that was asked for.")?,
        End::Unknown { .. } => writeln!(err, "It is not known whether {vm} was made.")?,
    }
    for failure in failures {
        writeln!(err, "  {}", failure.reason)?;
        for (key, text) in &failure.fields {
            writeln!(err, "  {key}: {text}")?;
        }
        remedies(failure).iter().try_for_each(|line| writeln!(err, "    {line}"))?;
    }
    Ok(())
}

fn remedies(failure: &Failure) -> Vec<String> {
    match &failure.remedy {
        Remedy::None | Remedy::TakeNumber(None) => Vec::new(),
        Remedy::LogIn => vec!["log in again and repeat it".to_owned()],
        Remedy::TakeNumber(Some(vmid)) => vec![format!("--set general.vmid={vmid} is free")],
        Remedy::Grant(lines) => lines.clone(),
        Remedy::Command(line) => vec![line.clone()],
    }
}

fn failure_json(failure: &Failure) -> Value {
    let fields: Map<String, Value> =
        failure.fields.iter().map(|(key, text)| (key.to_string(), json!(text))).collect();
    json!({
        "step": failure.step, "reason": failure.reason, "fields": fields,
        "remedies": remedies(failure),
    })
}
