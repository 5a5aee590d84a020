//! What is printed: lines for people, or one JSON document a line.

use std::fmt::Display;
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
use pve_provision::create::Query;
use pve_provision::create::Remedy;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::Exit;

/// Where everything is printed. A reader that has gone away is not told any more, and changes
/// nothing: what happens in the cluster counts.
pub(super) struct Printer<'a, O, E> {
    json: bool,
    out: &'a mut O,
    err: &'a mut E,
}

impl<'a, O: Write, E: Write> Printer<'a, O, E> {
    pub(super) fn new(json: bool, out: &'a mut O, err: &'a mut E) -> Self {
        Self { json, out, err }
    }

    fn out(&mut self, line: impl Display) {
        let _ = writeln!(self.out, "{line}");
    }

    fn err(&mut self, line: impl Display) {
        let _ = writeln!(self.err, "{line}");
    }

    /// Why it ends before anything was sent.
    pub(super) fn stopped(&mut self, text: &str, exit: Exit) -> Exit {
        if self.json {
            let result = if exit == Exit::Input { "input" } else { "refused" };
            self.out(json!({ "result": result, "reason": text }));
        } else {
            self.err(text);
        }
        exit
    }

    /// What is wrong with the input, and what could not be found out.
    pub(super) fn problems(&mut self, answers: &Answers, facts: &Facts, refused: &NotReady) {
        let failures = failure_lines(facts);
        let notes = note_lines(answers);
        if self.json {
            let mut problems: Map<String, Value> = Map::new();
            for (key, text) in &refused.problems {
                let said = problems.entry(key.to_string()).or_insert_with(|| json!([]));
                if let Some(said) = said.as_array_mut() {
                    said.push(json!(text));
                }
            }
            self.out(json!({
                "result": "input", "problems": problems, "notes": notes, "failures": failures,
            }));
            return;
        }
        for note in notes.iter().chain(&failures) {
            self.err(format_args!("note: {note}"));
        }
        self.err(refused);
    }

    /// Everything that would be done; without `privileges` it is not known what is missing.
    pub(super) fn dry_run(
        &mut self,
        plan: &Plan,
        answers: &Answers,
        facts: &Facts,
        privileges: Option<&Privileges>,
    ) {
        let missing = privileges.map(|privileges| &privileges.missing);
        let missing: Option<Vec<String>> =
            missing.map(|missing| missing.iter().map(ToString::to_string).collect());
        let grants = privileges.map(|privileges| privileges.grants.clone()).unwrap_or_default();
        let failures = failure_lines(facts);
        if self.json {
            let parameters: Map<String, Value> =
                plan.parameters().into_iter().map(|(name, value)| (name, json!(value))).collect();
            self.out(json!({
                "result": "dry run", "node": plan.node, "vmid": plan.vmid(),
                "request": format!("POST /nodes/{}/qemu", plan.node), "parameters": parameters,
                "ha": plan.ha, "start": plan.start, "pvesh": plan.pvesh_lines(),
                "qm": plan.qm_lines(), "missing": missing, "grants": grants,
                "notes": note_lines(answers), "failures": failures,
            }));
            return;
        }
        self.out(format_args!("POST /nodes/{}/qemu", plan.node));
        for (name, value) in plan.parameters() {
            self.out(format_args!("  {name}={value}"));
        }
        self.section("On any node:", &plan.pvesh_lines());
        self.section("The same on this node:", &plan.qm_lines());
        self.section("Notes:", &note_lines(answers));
        self.section("Not known:", &failures);
        self.section("Missing privileges:", &missing.unwrap_or_default());
        self.section("An administrator grants them by:", &grants);
    }

    fn section(&mut self, title: &str, lines: &[String]) {
        if !lines.is_empty() {
            self.out(title);
        }
        for line in lines {
            self.out(format_args!("  {line}"));
        }
    }

    /// What a person should know before it is made.
    pub(super) fn notes(&mut self, answers: &Answers, facts: &Facts) {
        for note in note_lines(answers).into_iter().chain(failure_lines(facts)) {
            self.err(format_args!("note: {note}"));
        }
    }

    pub(super) fn summary(&mut self, answers: &Answers) {
        let mut screen = None;
        for line in create::summary(answers) {
            if screen != Some(line.screen) {
                screen = Some(line.screen);
                self.err(line.screen.title());
            }
            self.err(format_args!("  {:28} {}", line.label, line.value));
        }
    }

    /// An event as it happens.
    pub(super) fn event(&mut self, event: &Event) {
        if self.json {
            match serde_json::to_string(event) {
                Ok(document) => self.out(document),
                Err(error) => self.err(format_args!("an event cannot be told: {error}")),
            }
            return;
        }
        let wire = event.wire();
        self.out(format_args!("{}: {}", wire.step, wire.message));
    }

    /// How it ended, and what can be done.
    pub(super) fn end(&mut self, plan: &Plan, end: &End) {
        let (result, failures): (&str, Vec<&Failure>) = match end {
            End::Made { .. } => ("made", Vec::new()),
            End::NothingMade(failure) => ("nothing made", vec![failure]),
            End::WithoutConsole(failure) => ("made without console", vec![failure]),
            End::Incomplete(failures) => ("incomplete", failures.iter().collect()),
            End::Unknown { failure, .. } => ("unknown", vec![failure]),
        };
        if self.json {
            let failures: Vec<Value> =
                failures.iter().map(|failure| failure_json(failure)).collect();
            self.out(json!({
                "result": result, "node": plan.node, "vmid": plan.vmid(), "failures": failures,
            }));
            return;
        }
        let vm = format!("VM {} on {}", plan.vmid(), plan.node);
        match end {
            End::Made { .. } if plan.start => self.out(format_args!("{vm} is made and runs.")),
            End::Made { .. } => self.out(format_args!("{vm} is made.")),
            End::NothingMade(_) => self.err("Nothing was made."),
            End::WithoutConsole(_) => self.err(format_args!(
                "{vm} is made, but its serial console could not be set up, so it was not started \
                 or put under HA."
            )),
            End::Incomplete(_) => {
                self.err(format_args!("{vm} is made, but not all that was asked for."));
            }
            End::Unknown { .. } => self.err(format_args!(
                "It is not known whether {vm} was made: look before making it again."
            )),
        }
        for failure in failures {
            self.failure(failure);
        }
    }

    fn failure(&mut self, failure: &Failure) {
        self.err(format_args!("  {}", failure.reason));
        for (key, text) in &failure.fields {
            self.err(format_args!("  {key}: {text}"));
        }
        let what = match &failure.remedy {
            Remedy::Grant(_) => "An administrator grants what is missing by:",
            Remedy::Command(_) => "On the node:",
            Remedy::None | Remedy::LogIn | Remedy::TakeNumber(_) => "",
        };
        if !what.is_empty() {
            self.err(format_args!("  {what}"));
        }
        for line in remedies(failure) {
            self.err(format_args!("    {line}"));
        }
    }
}

fn note_lines(answers: &Answers) -> Vec<String> {
    answers.notes().map(|(key, text)| format!("{key}: {text}")).collect()
}

/// What could not be found out, and why.
fn failure_lines(facts: &Facts) -> Vec<String> {
    let line = |(query, reason): (&Query, &str)| {
        let so = match query {
            Query::Permissions => ", so what the account lacks is not known",
            _ => "",
        };
        format!("{} could not be had: {reason}{so}", query.subject())
    };
    facts.failures().map(line).collect()
}

fn remedies(failure: &Failure) -> Vec<String> {
    match &failure.remedy {
        Remedy::None => Vec::new(),
        Remedy::LogIn => vec!["log in again and repeat it".to_owned()],
        Remedy::TakeNumber(Some(vmid)) => vec![format!("--set general.vmid={vmid} is free")],
        Remedy::TakeNumber(None) => vec!["take another number".to_owned()],
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
