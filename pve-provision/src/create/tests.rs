//! The specification's page against the resolver, and what both come to.

use serde_json::Value as Json;
use serde_json::json;

use super::*;

mod differences;
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
