//! Answers that name something which the server lists: what is known of those that are not listed.

use super::Answer;
use super::Choice;
use super::Choices;
use super::Origin;
use super::Resolver;
use super::grammar;
use crate::create::field::Field;
use crate::create::field::Input;
use crate::create::render::node_name;
use crate::create::value::Value;

/// A name that stands in no list that we have must at least be one; an image has its own rules.
pub(super) fn check_syntax(field: Field, answer: &mut Answer) {
    let is_listed = matches!(answer.choices, Choices::Of(_));
    if field.row().input == Input::Choice
        && field != Field::Iso
        && !is_listed
        && !answer.value.is_empty()
        && let Err(problem) = grammar::choice(field, answer.value.text())
    {
        answer.problems.push(problem);
    }
}

impl Resolver<'_> {
    /// What was said must be one of the choices, as far as these are known.
    pub(super) fn check_said(&self, field: Field, answer: &mut Answer) {
        if field.row().input != Input::Choice || answer.value.is_empty() {
            return;
        }
        match &answer.choices {
            Choices::Free | Choices::Loading => {}
            Choices::Failed(reason) => {
                answer.notes.push(format!("could not be checked: {reason}"));
            }
            Choices::Of(choices) => {
                let value = answer.value.text();
                let found = answer.choices.find(value).map(|choice| choice.unusable.clone());
                match (found, self.hidden_pool(field, value)) {
                    (None, Some(note)) => answer.notes.push(note),
                    (None, None) => answer.problems.push(self.unseen(field, value, choices)),
                    (Some(Some(reason)), _) => answer.problems.push(format!("'{value}': {reason}")),
                    (Some(None), _) => {}
                }
            }
        }
    }

    /// A default that is not to be had gives way to the first choice that is, or to none where
    /// there may be none, with a note.
    pub(super) fn take_default(&self, field: Field, answer: &mut Answer, default: &Value) {
        answer.value = default.clone();
        let wanted = default.text();
        if let (Choices::Failed(reason), false) = (&answer.choices, wanted.is_empty()) {
            answer.notes.push(format!("'{wanted}' could not be checked: {reason}"));
        }
        if !matches!(answer.choices, Choices::Of(_)) || wanted.is_empty() {
            return;
        }
        let why = match answer.choices.find(wanted) {
            Some(Choice { unusable: None, .. }) => return,
            Some(Choice { unusable: Some(reason), .. }) => reason.clone(),
            None => match self.hidden_pool(field, wanted) {
                Some(note) => return answer.notes.push(note),
                None => "not there".to_owned(),
            },
        };
        answer.origin = Origin::Fallback;
        let may_be_empty = !field.row().empty.is_empty();
        if let Some(first) = answer.choices.first_usable().filter(|_| !may_be_empty) {
            let note = format!("'{wanted}' {}, so '{}' was taken", verb(&why), first.value);
            answer.value = Value::Text(first.value.clone());
            answer.notes.push(note);
        } else {
            answer.notes.push(format!("'{wanted}' {}", verb(&why)));
            answer.value = Value::Empty;
        }
    }

    /// A pool may be used by an account that may not see it, so it is left to the server.
    fn hidden_pool(&self, field: Field, value: &str) -> Option<String> {
        let path = format!("/pool/{value}");
        let granted = self.facts.permissions().there()?;
        let is_hidden = field == Field::Pool
            && !granted.has("Pool.Audit", &path)
            && granted.has("VM.Allocate", &path)
            && grammar::choice(field, value).is_ok();
        is_hidden.then(|| {
            format!("could not be checked: the account may use it, but lacks Pool.Audit on {path}")
        })
    }

    /// What is known of a name that is not in its list.
    fn unseen(&self, field: Field, value: &str, choices: &[Choice]) -> String {
        let is_storage = field.is_storage();
        if is_storage
            && let Some(node) = node_name(&self.answers)
            && self.facts.storage(&node, value).is_some()
        {
            let content = if field == Field::IsoStorage { "ISO images" } else { "disks" };
            return format!("'{value}' holds no {content}; {}", there_is(choices));
        }
        let (path, privileges): (_, &[&str]) = match field {
            Field::Pool => (format!("/pool/{value}"), &["Pool.Audit"]),
            Field::Bridge => {
                (format!("/sdn/zones/localnetwork/{value}"), &["SDN.Audit", "SDN.Use"])
            }
            _ if is_storage => {
                (format!("/storage/{value}"), &["Datastore.Audit", "Datastore.AllocateSpace"])
            }
            _ => return not_offered(value, choices),
        };
        // What an account may not see is left out of the server's lists.
        if privileges.iter().all(|privilege| self.facts.lacks(privilege, &path)) {
            let lacking = privileges.join(" and ");
            return format!(
                "{}; or it is hidden from this account, which lacks {lacking} on {path}",
                not_offered(value, choices)
            );
        }
        not_offered(value, choices)
    }
}

fn not_offered(value: &str, choices: &[Choice]) -> String {
    let there = there_is(choices);
    let joint = if choices.iter().any(|choice| choice.unusable.is_none()) { ";" } else { ", and" };
    format!("'{value}' is not there{joint} {there}")
}

/// What could be taken instead.
fn there_is(choices: &[Choice]) -> String {
    const SHOWN: usize = 8;
    let usable: Vec<&str> = choices
        .iter()
        .filter(|choice| choice.unusable.is_none())
        .map(|choice| choice.value.as_str())
        .collect();
    match usable.as_slice() {
        [] => "nothing else is".to_owned(),
        some if some.len() <= SHOWN => format!("there is {}", some.join(", ")),
        many => format!("there is {}, …", many[..SHOWN].join(", ")),
    }
}

/// "not active" → "is not active"; a reason with its own verb stays.
fn verb(reason: &str) -> String {
    if reason.starts_with("not ") { format!("is {reason}") } else { reason.to_owned() }
}
