//! Watching the VM being made: steps, the task's log, and then one of the ends with its offers.

use crossterm::event::KeyEvent;
use pve_api::Vmid;
use pve_provision::Event;
use pve_provision::Kind as EventKind;
use pve_provision::Step;
use pve_provision::create::End;
use pve_provision::create::Failure;
use pve_provision::create::Key;
use pve_provision::create::Plan;
use pve_provision::create::Remedy;
use pve_provision::create::Stage;

use crate::drawn::Part;
use crate::form::Change;
use crate::form::Form;
use crate::form::Kind;
use crate::form::Row;
use crate::keys::Action;
use crate::keys::action;

/// What can be done once it has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Offer {
    Another,
    Retry(Stage),
    TakeNumber(Vmid),
    LogIn,
    GoTo(Key),
    Back,
    Leave,
}

/// How a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Title,
    Good,
    Bad,
}

/// A VM being made.
pub(crate) struct Progress {
    pub(crate) plan: Plan,
    /// The server, for the address of the web console.
    server: String,
    name: String,
    pub(crate) log: Vec<(Tone, String)>,
    step: Option<Step>,
    pub(crate) end: Option<End>,
    pub(crate) form: Form<Offer>,
    /// The first line that is shown; where nobody scrolled, the newest ones are, or the verdict.
    pub(crate) first: Option<usize>,
}

impl Progress {
    pub(crate) fn new(plan: Plan, server: String, name: String) -> Self {
        Self {
            plan,
            server,
            name,
            log: Vec::new(),
            step: None,
            end: None,
            form: Form::new(Offer::Leave),
            first: None,
        }
    }

    /// Goes on after an end; what was said so far stays to be read.
    pub(crate) fn resume(&mut self) {
        (self.end, self.step, self.first) = (None, None, None);
    }

    pub(crate) fn heard(&mut self, event: &Event) {
        if self.step != Some(event.step) {
            self.step = Some(event.step);
            self.log.push((Tone::Title, event.step.name().to_owned()));
        }
        let tone = match &event.kind {
            EventKind::Done(_) => Tone::Good,
            EventKind::Failed { .. } => Tone::Bad,
            _ => Tone::Plain,
        };
        for line in event.wire().message.lines() {
            let line: String = line.chars().filter(|c| !c.is_control()).collect();
            // Of how far a copy is only the last word counts.
            if is_copying(&line) && self.log.last().is_some_and(|(_, last)| is_copying(last)) {
                self.log.pop();
            }
            self.log.push((tone, line));
        }
    }

    pub(crate) fn ended(&mut self, end: End) {
        let offers = offers(&end);
        self.form = Form::new(offers.into_iter().next().unwrap_or(Offer::Leave));
        self.end = Some(end);
        self.first = None;
    }

    /// Takes a key; gives what was chosen. What is shown of the text says how far it can go.
    pub(crate) fn key(&mut self, key: KeyEvent, shown: Part) -> Option<Offer> {
        let asked = action(key);
        let Some(end) = &self.end else {
            self.scroll(asked.and_then(|action| shown.after(action)), shown);
            return None;
        };
        match asked {
            Some(Action::PageUp | Action::PageDown) => {
                self.scroll(asked.and_then(|action| shown.after(action)), shown);
                None
            }
            _ => match self.form.key(key, &rows(end))? {
                Change::Pressed(offer) => Some(offer),
                _ => None,
            },
        }
    }

    /// Shows another part of the text; at its end what comes is followed again.
    pub(crate) fn scroll(&mut self, first: Option<usize>, shown: Part) {
        if let Some(first) = first {
            let follows = self.end.is_none() && first >= shown.most;
            self.first = (!follows).then_some(first);
        }
    }

    /// Takes a click on an offer.
    pub(crate) fn click(&mut self, index: usize) -> Option<Offer> {
        let rows = rows(self.end.as_ref()?);
        let offer = rows.get(index)?.key.clone();
        match self.form.click(&offer, &rows)? {
            Change::Pressed(offer) => Some(offer),
            _ => None,
        }
    }

    /// What there is to say about the end.
    pub(crate) fn verdict(&self, end: &End) -> Vec<(Tone, String)> {
        let mut lines = Vec::new();
        match end {
            End::Made { warnings } => {
                let runs = if self.plan.start { ", and it runs" } else { "" };
                lines.push((Tone::Good, format!("[+] The VM is made{runs}.")));
                self.whereabouts(&mut lines);
                lines.push((Tone::Plain, format!("Web console  {}", self.console())));
                let warning = |text: &String| (Tone::Bad, format!("Warning: {text}"));
                lines.extend(warnings.iter().map(warning));
            }
            End::NothingMade(failure) => {
                lines.push((Tone::Bad, "[-] Nothing was made.".to_owned()));
                explain(failure, &mut lines);
            }
            End::WithoutConsole(failure) => {
                let text = "[-] The VM exists, but its serial console could not be set up.";
                lines.push((Tone::Bad, text.to_owned()));
                self.whereabouts(&mut lines);
                explain(failure, &mut lines);
                lines.push((Tone::Plain, "It was not started and is not under HA.".to_owned()));
            }
            End::Incomplete(failures) => {
                let text = "[-] The VM exists and has its console, but not all was done.";
                lines.push((Tone::Bad, text.to_owned()));
                self.whereabouts(&mut lines);
                for failure in failures {
                    explain(failure, &mut lines);
                }
            }
            End::Unknown { failure, .. } => {
                let text = "[-] It could not be found out whether the VM was made.";
                lines.push((Tone::Bad, text.to_owned()));
                self.whereabouts(&mut lines);
                explain(failure, &mut lines);
                let text = "Do not create it again before somebody has looked.";
                lines.push((Tone::Plain, text.to_owned()));
            }
        }
        lines
    }

    fn whereabouts(&self, lines: &mut Vec<(Tone, String)>) {
        let name = if self.name.is_empty() { String::new() } else { format!("  {}", self.name) };
        let (node, vmid) = (&self.plan.node, self.plan.vmid());
        lines.push((Tone::Plain, format!("Node {node}, VM ID {vmid}{name}")));
    }

    /// The page of the web UI that shows the VM's terminal.
    fn console(&self) -> String {
        format!(
            "https://{}/?console=kvm&xtermjs=1&vmid={}&node={}",
            self.server,
            self.plan.vmid(),
            self.plan.node
        )
    }

    /// What goes on without us when somebody leaves now.
    pub(crate) fn farewell(&self) -> String {
        let (node, vmid) = (&self.plan.node, self.plan.vmid());
        let rest = match (self.plan.start, self.plan.ha) {
            (true, true) => "its serial console, its start and HA are",
            (true, false) => "its serial console and its start are",
            (false, true) => "its serial console and HA are",
            (false, false) => "its serial console is",
        };
        format!(
            "VM {vmid} on {node} is being made. The server finishes the task that it is at without \
             us; but {rest} set up from here, so what is not done yet stays undone."
        )
    }
}

/// Whether a line of a task says how far a copy is.
fn is_copying(line: &str) -> bool {
    line.trim_start().starts_with("transferred ") && line.ends_with("%)")
}

fn explain(failure: &Failure, lines: &mut Vec<(Tone, String)>) {
    lines.push((Tone::Plain, format!("{}: {}", failure.step.name(), failure.reason)));
    for (key, text) in &failure.fields {
        lines.push((Tone::Plain, format!("{}: {text}", key.label())));
    }
    match &failure.remedy {
        Remedy::Grant(grants) => {
            lines.push((Tone::Plain, "An administrator grants what is missing by:".to_owned()));
            lines.extend(grants.iter().map(|line| (Tone::Plain, format!("  {line}"))));
        }
        Remedy::Command(line) => {
            lines.push((Tone::Plain, format!("By hand, on the node: {line}")));
        }
        Remedy::TakeNumber(Some(vmid)) => {
            lines.push((Tone::Plain, format!("VM ID {vmid} is free.")));
        }
        Remedy::None | Remedy::LogIn | Remedy::TakeNumber(None) => {}
    }
}

fn offers(end: &End) -> Vec<Offer> {
    let mut offers = Vec::new();
    let mut of_failure = |failure: &Failure| match failure.remedy {
        Remedy::LogIn => offers.push(Offer::LogIn),
        Remedy::TakeNumber(Some(vmid)) => offers.push(Offer::TakeNumber(vmid)),
        _ => {}
    };
    match end {
        End::Made { .. } => offers.push(Offer::Another),
        End::NothingMade(failure) => {
            of_failure(failure);
            offers.extend(failure.fields.iter().map(|(key, _)| Offer::GoTo(*key)));
            offers.push(Offer::Retry(Stage::Create));
            offers.push(Offer::Back);
        }
        End::WithoutConsole(failure) => {
            of_failure(failure);
            offers.push(Offer::Retry(Stage::Finish));
            offers.push(Offer::Another);
        }
        End::Incomplete(failures) => {
            failures.iter().for_each(of_failure);
            offers.push(Offer::Retry(Stage::Finish));
            offers.push(Offer::Another);
        }
        End::Unknown { failure, resume } => {
            of_failure(failure);
            // Beginning again might make a second VM: somebody has to look first.
            if *resume != Stage::Create {
                offers.push(Offer::Retry(resume.clone()));
            }
            offers.push(Offer::Back);
        }
    }
    offers.push(Offer::Leave);
    offers.dedup();
    offers
}

/// The offers as rows of a form.
pub(crate) fn rows(end: &End) -> Vec<Row<'static, Offer>> {
    let row = |offer: Offer| {
        let (label, shown): (&'static str, String) = match &offer {
            Offer::Another => ("[ Another like this ]", "its answers, with a new VM ID".into()),
            Offer::Retry(Stage::Create) => ("[ Try again ]", "from the beginning".into()),
            Offer::Retry(Stage::Finish) => ("[ Try again ]", "what is not done yet".into()),
            Offer::Retry(Stage::Again(_)) => {
                ("[ Try again ]", "after a look for what came of it".into())
            }
            Offer::Retry(Stage::Follow(_)) => ("[ Look again ]", "what became of the task".into()),
            Offer::TakeNumber(vmid) => ("[ Take the free ID ]", format!("create VM {vmid}")),
            Offer::LogIn => ("[ Log in again ]", "nothing that was said is lost".into()),
            Offer::GoTo(key) => ("[ Go to the field ]", key.label()),
            Offer::Back => ("[ Back ]", "to the answers".into()),
            Offer::Leave => ("[ Leave ]", if made(end) { "" } else { "as it is" }.into()),
        };
        Row::new(offer, label, Kind::Button).showing(shown)
    };
    offers(end).into_iter().map(row).collect()
}

fn made(end: &End) -> bool {
    matches!(end, End::Made { .. })
}
