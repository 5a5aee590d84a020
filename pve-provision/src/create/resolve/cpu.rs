//! The screen CPU.

use super::Choice;
use super::Choices;
use super::Resolver;
use super::Rule;
use crate::create::facts::Fact;
use crate::create::field::Field;
use crate::create::render::node_name;

pub(super) fn resolve(cx: &mut Resolver<'_>) {
    cx.settle(Field::Cores, Rule::of(1).required("at least one core is needed"));
    cx.settle(Field::Sockets, Rule::of(1).required("at least one socket is needed"));
    let cores = cx.answers.number(Field::Cores).unwrap_or(1);
    let all = cores * cx.answers.number(Field::Sockets).unwrap_or(1);
    let node = cx.facts.node(cx.answers.text(Field::Node));
    if let Some(there) = node.and_then(|node| node.max_cpu)
        && all > there
    {
        let problem =
            format!("{all} processors, but the node has {there}: such a VM does not start there");
        cx.problem(Field::Cores, problem);
    }
    cx.settle(Field::CpuType, Rule::choice("x86-64-v2-AES", models(cx)));
}

/// The models: `host` and those of QEMU first, since they run on every processor of their level.
fn models(cx: &Resolver<'_>) -> Choices {
    let fact = match node_name(&cx.answers) {
        Some(node) => cx.facts.cpu_models(&node),
        None => match cx.facts.nodes() {
            Fact::Loading => Fact::Loading,
            _ => Fact::Empty,
        },
    };
    let mut choices = Choices::from_fact(fact, |model| {
        let mut choice = Choice::named(&model.name);
        choice.detail = match model.vendor.as_deref() {
            _ if model.custom == Some(true) => "custom".to_owned(),
            Some("GenuineIntel") => "Intel".to_owned(),
            Some("AuthenticAMD") => "AMD".to_owned(),
            Some("default") | None => "QEMU".to_owned(),
            Some(other) => other.to_owned(),
        };
        Some(choice)
    });
    if let Choices::Of(choices) = &mut choices {
        choices.sort_by_key(|choice| match (choice.value.as_str(), choice.detail.as_str()) {
            ("host", _) => 0,
            (_, "custom") => 1,
            (_, "QEMU") => 2,
            _ => 3,
        });
    }
    choices
}
