//! The screen Network.

use super::Choice;
use super::Choices;
use super::Resolver;
use super::Rule;
use super::grammar;
use super::os::template_fits;
use crate::create::facts::Fact;
use crate::create::field::Field;
use crate::create::render::node_name;
use crate::create::value::Value;

const MODELS: [(&str, &str); 5] = [
    ("virtio", "VirtIO (paravirtualized)"),
    ("e1000", "Intel E1000"),
    ("e1000e", "Intel E1000E"),
    ("rtl8139", "Realtek RTL8139"),
    ("vmxnet3", "VMware vmxnet3"),
];

/// The smallest packet that every network passes on.
const LEAST_MTU: u64 = 576;

pub(super) fn resolve(cx: &mut Resolver<'_>) {
    cx.settle(Field::NoNetwork, Rule::of(false));
    let there = !cx.answers.is_on(Field::NoNetwork);
    bridge(cx, there);
    cx.settle(Field::Vlan, Rule::of(Value::Empty).shown(there));
    let own = match cx.answers.text(Field::OsVersion) {
        "l26" => "virtio",
        "w2k" | "wxp" => "rtl8139",
        _ => "e1000",
    };
    let model = Rule::choice(own, Choices::fixed(&MODELS)).preset(template_fits(cx));
    cx.settle(Field::Model, model.shown(there));
    cx.settle(Field::Mac, Rule::of(Value::Empty).shown(there));
    cx.check(Field::Mac, grammar::mac);
    cx.settle(Field::Firewall, Rule::of(true).shown(there));
    cx.settle(Field::Disconnected, Rule::of(false).shown(there));
    mtu(cx, there);
    cx.settle(Field::Rate, Rule::of(Value::Empty).shown(there));
    cx.settle(Field::Multiqueue, Rule::of(Value::Empty).shown(there));
}

fn bridge(cx: &mut Resolver<'_>, there: bool) {
    let fact = match node_name(&cx.answers) {
        Some(node) => cx.facts.bridges(&node),
        None => match cx.facts.nodes() {
            Fact::Loading => Fact::Loading,
            _ => Fact::Empty,
        },
    };
    let choices = Choices::from_fact(fact, |network| {
        let mut choice = Choice::named(&network.name);
        let words = [network.cidr.as_deref(), network.comments.as_deref().map(str::trim)];
        choice.detail = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
        Some(choice)
    });
    let first = choices.first_usable().map_or(Value::Empty, |choice| Value::from(&*choice.value));
    let rule = Rule::choice(first, choices).shown(there);
    cx.settle(
        Field::Bridge,
        rule.required("the node has no bridge: make one, or no network device"),
    );
}

fn mtu(cx: &mut Resolver<'_>, there: bool) {
    let is_virtio = cx.answers.text(Field::Model) == "virtio";
    cx.settle(Field::Mtu, Rule::of(Value::Empty).shown(there && is_virtio));
    let Some(mtu) = cx.answers.number(Field::Mtu) else { return };
    if mtu != 1 && mtu < LEAST_MTU {
        cx.problem(Field::Mtu, format!("at least {LEAST_MTU}, or 1 for the bridge's own"));
    }
    let Some(node) = node_name(&cx.answers) else { return };
    let bridge = cx.answers.text(Field::Bridge);
    let limit = cx
        .facts
        .bridges(&node)
        .there()
        .and_then(|networks| networks.iter().find(|network| network.name == bridge))
        .and_then(|network| network.mtu);
    if let Some(limit) = limit
        && mtu > limit
    {
        cx.problem(Field::Mtu, format!("the bridge passes on {limit} at most"));
    }
}
