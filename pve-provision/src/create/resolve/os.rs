//! The screen OS.

use pve_api::Content;
use pve_api::NodeName;
use pve_api::StorageId;
use pve_api::Volume;

use super::Choice;
use super::Choices;
use super::Origin;
use super::Resolver;
use super::Rule;
use super::grammar;
use super::iso;
use crate::create::facts::Fact;
use crate::create::field::Field;
use crate::create::field::Key;
use crate::create::render::node_name;
use crate::create::value::Value;

/// A value and what it is called.
type Named = (&'static str, &'static str);

/// Guest types, their names, and their versions, the newest first.
const TYPES: [(&str, &str, &[Named]); 4] = [
    ("linux", "Linux", &[("l26", "7.x - 2.6 Kernel"), ("l24", "2.4 Kernel")]),
    (
        "windows",
        "Microsoft Windows",
        &[
            ("win11", "11/2022/2025"),
            ("win10", "10/2016/2019"),
            ("win8", "8.x/2012/2012r2"),
            ("win7", "7/2008r2"),
            ("w2k8", "Vista/2008"),
            ("wxp", "XP/2003"),
            ("w2k", "2000"),
        ],
    ),
    ("solaris", "Solaris Kernel", &[("solaris", "-")]),
    ("other", "Other", &[("other", "-")]),
];

pub(super) fn resolve(cx: &mut Resolver<'_>) {
    media(cx);
    storage(cx);
    image(cx);
    guest(cx);
}

fn media(cx: &mut Resolver<'_>) {
    let mut drive = Choice::new("drive", "Physical disc drive");
    if cx.facts.lacks("Sys.Console", "/") {
        drive.unusable = Some("needs Sys.Console on /".to_owned());
    }
    let choices = vec![Choice::new("iso", "ISO image"), drive, Choice::new("none", "No media")];
    cx.settle(Field::Media, Rule::choice("iso", Choices::Of(choices)));
}

/// The storages of the node that may hold `content`, with what is left on them.
pub(super) fn storages(cx: &Resolver<'_>, content: &Content) -> Choices {
    let Some(node) = node_name(&cx.answers) else {
        return match cx.facts.nodes() {
            Fact::Loading => Choices::Loading,
            _ => Choices::Of(Vec::new()),
        };
    };
    Choices::from_fact(cx.facts.storages(&node), |storage| {
        if !storage.holds(content) {
            return None;
        }
        let mut choice = Choice::named(storage.id.as_str());
        let kind = storage.kind.as_deref().unwrap_or("?");
        choice.detail = match storage.available {
            Some(free) => format!("{kind}, {} GiB free", free >> 30),
            None => kind.to_owned(),
        };
        if storage.active == Some(false) {
            choice.unusable = Some("not active".to_owned());
        } else if storage.enabled == Some(false) {
            choice.unusable = Some("not enabled".to_owned());
        } else if *content == Content::Images && storage.select_existing == Some(true) {
            choice.unusable = Some("offers only volumes that are there already".to_owned());
        }
        Some(choice)
    })
}

fn first(choices: &Choices) -> Value {
    choices.first_usable().map_or(Value::Empty, |choice| Value::from(&*choice.value))
}

/// Settles a field that names a storage; the web UI takes the first one.
pub(super) fn settle_storage(
    cx: &mut Resolver<'_>,
    key: impl Into<Key>,
    content: &Content,
    shown: bool,
) {
    let choices = storages(cx, content);
    let rule = Rule::choice(first(&choices), choices).shown(shown);
    let problem = match content {
        Content::Iso => "no storage of this node has ISO images",
        _ => "no storage of this node can hold disks",
    };
    cx.settle(key, rule.required(problem));
}

fn storage(cx: &mut Resolver<'_>) {
    let wanted = cx.answers.text(Field::Media) == "iso";
    settle_storage(cx, Field::IsoStorage, &Content::Iso, wanted);
    // Whoever says a volume has said its storage.
    let key = Key::from(Field::IsoStorage);
    let said = cx.draft.said(Field::Iso.into()).and_then(|said| grammar::volume(said.text()).ok());
    if let Some(volume) = said
        && cx.draft.said(key).is_none()
        && let Some(answer) = cx.answers.0.get_mut(&key)
        && wanted
        && (answer.choices.find(volume.storage()).is_some_and(|choice| choice.unusable.is_none())
            || matches!(answer.choices, Choices::Failed(_)))
    {
        (answer.value, answer.origin) = (Value::from(volume.storage()), Origin::Default);
        answer.notes.clear();
    }
}

fn image(cx: &mut Resolver<'_>) {
    let wanted = cx.answers.text(Field::Media) == "iso";
    let node = node_name(&cx.answers);
    let storage = cx.answers.text(Field::IsoStorage).parse::<StorageId>().ok();
    let isos = isos(cx, node.as_ref(), storage.as_ref());
    let volumes: &[Volume] = match &isos {
        Fact::There(volumes) => volumes,
        _ => &[],
    };
    let meant =
        |value: &Value| iso::find(volumes, value.text()).map(|volume| volume.id.to_string());
    let preset = cx.draft.preset(Field::Iso.into()).cloned();
    let own = preset.as_ref().and_then(meant).map_or(Value::Empty, Value::Text);
    let choices = Choices::from_fact(isos.clone(), |volume| {
        let mut choice = Choice::new(volume.id.as_str(), iso::file_name(volume));
        choice.detail = volume.size.map_or_else(String::new, |size| format!("{} MiB", size >> 20));
        Some(choice)
    });
    let said = cx.draft.said(Field::Iso.into()).cloned();
    let rule = Rule::choice(own, choices).shown(wanted).preset(false);
    cx.settle(Field::Iso, rule);
    // A name without a version was said: it means the newest of them.
    if let Some(said) = said.as_ref().and_then(meant)
        && let Some(answer) = cx.answers.0.get_mut(&Field::Iso.into())
        && wanted
        && answer.value.text() != said
    {
        answer.value = Value::Text(said);
        answer.problems.clear();
    }
    if let (Fact::Failed(_), true) = (&isos, wanted) {
        check_unlisted(cx);
    }
    let is_missing = wanted && cx.answers.text(Field::Iso).is_empty();
    if is_missing && !matches!(isos, Fact::Loading) {
        let storage = cx.answers.text(Field::IsoStorage).to_owned();
        let problem = match (&isos, preset) {
            (Fact::Failed(reason), _) => format!("the images cannot be listed: {reason}"),
            _ if storage.is_empty() => "there is no storage to choose it from".to_owned(),
            (Fact::Empty, _) => {
                format!("there is no ISO image on '{storage}': choose another storage, or no media")
            }
            (_, Some(preset)) => {
                format!("there is no '{preset}-…' on '{storage}': choose an image")
            }
            (_, None) => "choose an image, or no media".to_owned(),
        };
        cx.problem(Field::Iso, problem);
    }
}

/// An image that is said although the images cannot be listed must be named as the server does.
fn check_unlisted(cx: &mut Resolver<'_>) {
    let text = cx.answers.text(Field::Iso).to_owned();
    let storage = cx.answers.text(Field::IsoStorage).to_owned();
    match grammar::volume(&text) {
        _ if text.is_empty() => {}
        Ok(volume) if volume.storage() == storage => {}
        Ok(volume) => {
            let problem = format!("is on '{}', and not on '{storage}'", volume.storage());
            cx.problem(Field::Iso, problem);
        }
        Err(problem) => {
            let problem = format!("{problem}, and without a list nothing else can be found");
            cx.problem(Field::Iso, problem);
        }
    }
}

fn isos<'a>(
    cx: &Resolver<'a>,
    node: Option<&NodeName>,
    storage: Option<&StorageId>,
) -> Fact<&'a [Volume]> {
    match (node, storage) {
        (Some(node), Some(storage)) if cx.facts.storage(node, storage.as_str()).is_some() => {
            cx.facts.isos(node, storage)
        }
        (Some(node), _) => match cx.facts.storages(node) {
            Fact::Loading => Fact::Loading,
            Fact::Failed(reason) => Fact::Failed(reason),
            Fact::There(_) | Fact::Empty => Fact::Empty,
        },
        (None, _) => match cx.facts.nodes() {
            Fact::Loading => Fact::Loading,
            _ => Fact::Empty,
        },
    }
}

/// The type to which a version belongs.
fn type_of(version: &str) -> Option<&'static str> {
    let has = |versions: &[Named]| versions.iter().any(|(value, _)| *value == version);
    TYPES.iter().find(|(_, _, versions)| has(versions)).map(|(value, _, _)| *value)
}

fn guest(cx: &mut Resolver<'_>) {
    let types: Vec<Named> = TYPES.iter().map(|(value, label, _)| (*value, *label)).collect();
    // Whoever says a version has said its type.
    let implied = cx.draft.said(Field::OsVersion.into()).and_then(|said| type_of(said.text()));
    let rule = Rule::choice(implied.unwrap_or("linux"), Choices::fixed(&types));
    cx.settle(Field::OsType, rule.preset(implied.is_none()));
    let chosen = cx.answers.text(Field::OsType).to_owned();
    let versions = TYPES.iter().find(|(value, _, _)| *value == chosen).map_or(&[][..], |t| t.2);
    let mut choices = Choices::fixed(versions);
    if let (Choices::Of(choices), true) = (&mut choices, is_before_label_7(cx)) {
        for choice in choices.iter_mut().filter(|choice| choice.value == "l26") {
            "6.x - 2.6 Kernel".clone_into(&mut choice.label);
        }
    }
    let own = versions.first().map_or(Value::Empty, |(value, _)| Value::from(*value));
    // The template's version is of the template's type.
    let preset = cx
        .draft
        .preset(Field::OsVersion.into())
        .is_some_and(|preset| versions.iter().any(|(value, _)| *value == preset.text()));
    cx.settle(Field::OsVersion, Rule::choice(own, choices).preset(preset));
}

/// Until 9.1.9 the web UI called it "6.x - 2.6 Kernel".
fn is_before_label_7(cx: &Resolver<'_>) -> bool {
    let Some(version) = cx.facts.version().there() else { return false };
    let patch = version.text.split('.').nth(2).and_then(|part| part.parse::<u32>().ok());
    version.release() < (9, 1) || version.release() == (9, 1) && patch.unwrap_or(0) < 10
}

/// Whether the template's word about buses and network cards holds: for Linux always; for other
/// systems, which need drivers that are there, only if the template is made for them.
pub(super) fn template_fits(cx: &Resolver<'_>) -> bool {
    let chosen = cx.answers.text(Field::OsType);
    let preset = cx.draft.preset(Field::OsType.into()).map_or("linux", Value::text);
    chosen == "linux" || chosen == preset
}
