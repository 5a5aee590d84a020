//! The screen Memory.

use super::Resolver;
use super::Rule;
use crate::create::field::Field;
use crate::create::value::Value;

pub(super) fn resolve(cx: &mut Resolver<'_>) {
    let is_win11 = cx.answers.text(Field::OsVersion) == "win11";
    let own: u64 = if is_win11 { 4096 } else { 2048 };
    cx.settle(Field::MemorySize, Rule::of(own).required("a size is needed"));
    cx.settle(Field::Ballooning, Rule::of(true));
    let size = cx.answers.number(Field::MemorySize);
    let ballooning = cx.answers.is_on(Field::Ballooning);
    let minimum = Rule::of(size.map_or(Value::Empty, Value::Number)).shown(ballooning);
    cx.settle(Field::MemoryMinimum, minimum.required("a minimum is needed"));
    if let (Some(size), Some(minimum)) = (size, cx.answers.number(Field::MemoryMinimum))
        && minimum > size
    {
        cx.problem(Field::MemoryMinimum, format!("more than the memory size, {size} MiB"));
    }
    let node = cx.facts.node(cx.answers.text(Field::Node));
    let there = node.and_then(|node| node.max_memory).map(|bytes| bytes >> 20);
    if let (Some(size), Some(there)) = (size, there)
        && size > there
    {
        cx.note(Field::MemorySize, format!("the node has {there} MiB"));
    }
    let version = cx.facts.version().there();
    let has_ksm = version.is_none_or(pve_api::Version::has_allow_ksm);
    let old = "this version of Proxmox VE cannot switch it off for one VM, so it stays on";
    cx.settle(Field::Ksm, Rule::of(true).shown(has_ksm).left_out(true, old));
}
