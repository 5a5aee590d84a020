//! The specification's page against the resolver, and what both come to.

use serde_json::Value as Json;
use serde_json::json;

use super::*;

mod differences;
mod names;
mod recorded;
mod specification;
mod world;

use world::World;
use world::all_privileges;
use world::read;
use world::storage;

/// A draft in which these assignments were said.
pub(super) fn draft(assignments: &[&str]) -> Draft {
    let mut draft = Draft::default();
    for assignment in assignments {
        draft.set(assignment).unwrap();
    }
    draft
}

pub(super) fn problems(answers: &Answers) -> Vec<String> {
    answers.problems().map(|(key, text)| format!("{key}: {text}")).collect()
}

pub(super) fn parameters(plan: &Plan) -> String {
    let lines: Vec<String> =
        plan.parameters().iter().map(|(name, value)| format!("{name}={value}")).collect();
    lines.join("\n")
}

pub(super) fn world(change: impl FnOnce(&mut World)) -> Facts {
    let mut world = World::default();
    change(&mut world);
    world.facts()
}

pub(super) fn answers(assignments: &[&str], facts: &Facts) -> Answers {
    resolve(&draft(assignments), facts)
}

pub(super) fn notes(answers: &Answers) -> String {
    answers.notes().map(|(key, text)| format!("{key}: {text}")).collect::<Vec<_>>().join("\n")
}

pub(super) fn value(answers: &Answers, key: &str) -> String {
    answers.value(key.parse::<Key>().unwrap()).to_string()
}

/// One parameter of the request that these answers come to.
pub(super) fn sent(assignments: &[&str], facts: &Facts, name: &str) -> Option<String> {
    let plan = Plan::new(&answers(assignments, facts), facts).unwrap();
    plan.parameters().into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
}
