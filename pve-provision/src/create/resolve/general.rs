//! The screen General.

use pve_api::NodeState;

use super::Choice;
use super::Choices;
use super::Origin;
use super::Resolver;
use super::Rule;
use super::grammar;
use crate::create::facts::Fact;
use crate::create::field::Field;
use crate::create::field::Key;
use crate::create::render::node_name;
use crate::create::value::Value;

pub(super) fn resolve(cx: &mut Resolver<'_>) {
    node(cx);
    vmid(cx);
    cx.settle(Field::Name, Rule::of(Value::Empty));
    cx.check(Field::Name, grammar::name);
    pool(cx);
    tags(cx);
    ha(cx);
    cx.settle(Field::StartAtBoot, Rule::of(false));
    let lock =
        cx.facts.lacks("Sys.Modify", "/").then(|| "the account lacks Sys.Modify on /".to_owned());
    for field in [Field::StartOrder, Field::StartupDelay, Field::ShutdownTimeout] {
        cx.settle(field, Rule::of(Value::Empty).lock(Value::Empty, lock.clone()));
    }
}

fn node(cx: &mut Resolver<'_>) {
    let choices = Choices::from_fact(cx.facts.nodes(), |node| {
        let mut choice = Choice::named(node.name.as_str());
        if let (Some(cpus), Some(memory)) = (node.max_cpu, node.max_memory) {
            choice.detail = format!("{cpus} CPUs, {} GiB", memory >> 30);
        }
        match &node.status {
            Some(NodeState::Online) => {}
            Some(NodeState::Offline) => choice.unusable = Some("not online".to_owned()),
            _ => choice.unusable = Some("not known to be online".to_owned()),
        }
        Some(choice)
    });
    let first = choices.first_usable().map_or(Value::Empty, |choice| Value::from(&*choice.value));
    cx.settle(Field::Node, Rule::choice(first, choices).required("no node is online"));
    if cx.facts.lacks_quorum() {
        cx.problem(Field::Node, "the cluster has no quorum, so nothing can be made");
    }
}

fn vmid(cx: &mut Resolver<'_>) {
    let (next, choices) = match cx.facts.next_id() {
        Fact::There(vmid) => (Value::Number(vmid.get().into()), Choices::Free),
        Fact::Loading => (Value::Empty, Choices::Loading),
        Fact::Empty => (Value::Empty, Choices::Free),
        Fact::Failed(reason) => (Value::Empty, Choices::Failed(reason)),
    };
    let choices = if cx.draft.said(Field::Vmid.into()).is_some() { Choices::Free } else { choices };
    cx.settle(Field::Vmid, Rule::choice(next, choices).required("a number is needed"));
    let vmid = cx.answers.number(Field::Vmid).and_then(|number| u32::try_from(number).ok());
    let Some(vmid) = vmid.and_then(|number| pve_api::Vmid::try_from(number).ok()) else { return };
    match cx.facts.is_free(vmid) {
        Fact::There(false) => {
            let next = match cx.facts.next_id() {
                Fact::There(next) if *next != vmid => format!("; {next} is free"),
                _ => String::new(),
            };
            cx.problem(Field::Vmid, format!("{vmid} is taken by another VM or container{next}"));
        }
        Fact::Failed(reason) => {
            cx.note(Field::Vmid, format!("could not be checked: {reason}"));
        }
        _ => {}
    }
}

fn pool(cx: &mut Resolver<'_>) {
    let choices = Choices::from_fact(cx.facts.pools(), |pool| {
        let mut choice = Choice::named(pool.id.as_str());
        choice.detail = pool.comment.clone().unwrap_or_default();
        Some(choice)
    });
    cx.settle(Field::Pool, Rule::choice(Value::Empty, choices));
}

fn tags(cx: &mut Resolver<'_>) {
    let options = cx.facts.options();
    let known = match &options {
        Fact::There(options) => options.allowed_tags.clone().unwrap_or_default(),
        _ => Vec::new(),
    };
    let choices = match options {
        Fact::Loading => Choices::Loading,
        Fact::Failed(reason) => Choices::Failed(reason),
        Fact::There(_) | Fact::Empty => {
            Choices::Of(known.iter().map(|tag| Choice::named(tag)).collect())
        }
    };
    let none = Value::List(Vec::new());
    cx.settle(Field::Tags, Rule::choice(none, choices));
    let Value::List(tags) = cx.answers.value(Field::Tags).clone() else { return };
    for tag in &tags {
        if let Err(problem) = grammar::tag(tag) {
            cx.problem(Field::Tags, problem);
        } else if let Some(problem) = may_set(cx, tag, &known) {
            cx.problem(Field::Tags, problem);
        }
    }
}

/// Which tags an account may set that cannot change the datacenter. What the server does not show
/// is left to the server.
fn may_set(cx: &Resolver<'_>, tag: &str, known: &[String]) -> Option<String> {
    let options = cx.facts.options().there()?;
    if !cx.facts.lacks("Sys.Modify", "/") {
        return None;
    }
    let is_known = known.iter().any(|known| known.eq_ignore_ascii_case(tag));
    let registered = options.registered_tags.iter().flatten();
    if registered.into_iter().any(|registered| registered.eq_ignore_ascii_case(tag)) {
        return Some(format!("'{tag}' is a registered tag, for which Sys.Modify on / is needed"));
    }
    let access = options.user_tag_access.as_ref()?.get("user-allow")?.as_str()?;
    match access {
        "none" => Some("this account may set no tags".to_owned()),
        "existing" | "list" if !is_known => Some(format!("this account may not set '{tag}'")),
        _ => None,
    }
}

fn ha(cx: &mut Resolver<'_>) {
    let lock = cx
        .facts
        .lacks("Sys.Console", "/")
        .then(|| "the account lacks Sys.Console on /, which HA needs".to_owned());
    let choices = match cx.facts.is_cluster() {
        Fact::Loading => Choices::Loading,
        _ => Choices::Free,
    };
    let stands_alone = cx.facts.is_cluster() == Fact::There(false);
    let wanted = cx.draft.preset(Field::Ha.into()).is_some_and(Value::is_on);
    cx.settle(Field::Ha, Rule::choice(false, choices).lock(false, lock.clone()));
    if !stands_alone || lock.is_some() {
        return;
    }
    let key = Key::from(Field::Ha);
    if cx.draft.said(key).is_none() && wanted {
        if let Some(answer) = cx.answers.0.get_mut(&key) {
            answer.value = Value::Flag(false);
            answer.origin = Origin::Fallback;
        }
        cx.note(key, "this node stands alone, where HA has no effect, so it is off");
    } else if cx.answers.is_on(key) {
        cx.note(key, "this node stands alone, where HA has no effect");
    }
}

/// What HA makes of the disks, once these are known.
pub(super) fn judge_ha(cx: &mut Resolver<'_>) {
    if !cx.answers.is_on(Field::Ha) {
        return;
    }
    let Some(node) = node_name(&cx.answers) else { return };
    let disks = (0..cx.answers.disks()).map(|disk| Key::disk(disk, Field::DiskStorage));
    let places = disks.chain([Field::EfiStorage.into(), Field::TpmStorage.into()]);
    let mut local: Vec<String> = places
        .filter_map(|place| cx.facts.storage(&node, cx.answers.text(place)))
        .filter(|storage| storage.shared == Some(false))
        .map(|storage| storage.id.to_string())
        .collect();
    local.sort();
    local.dedup();
    if !local.is_empty() {
        let local = local.join(", ");
        cx.note(Field::Ha, format!("{local}: not shared, so HA cannot move the VM elsewhere"));
    }
}
