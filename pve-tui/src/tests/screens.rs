//! Every screen of the wizard in each of its states.

use std::collections::BTreeMap;

use pve_provision::create::Field;
use pve_provision::create::Key;
use pve_provision::create::Value;
use serde_json::json;

use super::pilot::Pilot;
use super::world::World;
use super::world::granted;

/// A state of a screen: its name, the world, and the keys that lead to it from General.
type State = (&'static str, fn() -> World, &'static str);

/// Every state that there is; the snapshots are named after them.
const STATES: &[State] = &[
    ("template-default", World::default, "PgUp"),
    ("general-default", World::default, ""),
    ("general-loading", || World::silent(ALL), ""),
    ("general-empty", || World { nodes: json!([]), pools: json!([]), ..World::default() }, ""),
    ("general-error", || World::failing(ALL), ""),
    ("os-default", World::default, "PgDn"),
    ("os-loading", || World::silent(&["Storages"]), "PgDn Down Down"),
    ("os-empty", || World { isos: Vec::new(), ..World::default() }, "PgDn Down Down"),
    ("os-error", || World::failing(&["Isos"]), "PgDn Down Down"),
    ("system-default", World::default, "PgDn PgDn"),
    ("system-loading", || World::silent(&["Storages"]), "PgDn PgDn Down Down Down Down"),
    ("system-empty", World::bare, "PgDn PgDn Down Down Down Down"),
    ("system-error", || World::failing(&["Storages"]), "PgDn PgDn Down Down Down Down"),
    ("disks-default", World::default, "PgDn PgDn PgDn"),
    ("disks-loading", || World::silent(&["Storages"]), "PgDn PgDn PgDn"),
    ("disks-empty", World::bare, "PgDn PgDn PgDn"),
    ("disks-error", || World::failing(&["Storages"]), "PgDn PgDn PgDn"),
    ("disks-none", World::default, "PgDn PgDn PgDn Delete"),
    ("disk-default", World::default, "PgDn PgDn PgDn Enter"),
    ("disk-loading", || World::silent(&["Storages"]), "PgDn PgDn PgDn Enter Down Down"),
    ("disk-empty", World::bare, "PgDn PgDn PgDn Enter Down Down"),
    ("disk-error", || World::failing(&["Storages"]), "PgDn PgDn PgDn Enter Down Down"),
    ("cpu-default", World::default, "PgDn PgDn PgDn PgDn"),
    ("cpu-loading", || World::silent(&["CpuModels"]), "PgDn PgDn PgDn PgDn Down Down"),
    (
        "cpu-empty",
        || World { cpu_models: json!([]), ..World::default() },
        "PgDn PgDn PgDn PgDn Down Down",
    ),
    ("cpu-error", || World::failing(&["CpuModels"]), "PgDn PgDn PgDn PgDn Down Down"),
    ("memory-default", World::default, "PgDn PgDn PgDn PgDn PgDn"),
    ("memory-without-ballooning", World::default, "PgDn PgDn PgDn PgDn PgDn Down Down Space"),
    ("network-default", World::default, "PgDn PgDn PgDn PgDn PgDn PgDn"),
    ("network-loading", || World::silent(&["Bridges"]), "PgDn PgDn PgDn PgDn PgDn PgDn Down"),
    ("network-empty", World::bare, "PgDn PgDn PgDn PgDn PgDn PgDn Down"),
    ("network-error", || World::failing(&["Bridges"]), "PgDn PgDn PgDn PgDn PgDn PgDn Down"),
    ("network-none", World::default, "PgDn PgDn PgDn PgDn PgDn PgDn Space"),
    ("confirm-default", World::default, "PgDn PgDn PgDn PgDn PgDn PgDn PgDn"),
    ("confirm-loading", || World::silent(&["Storages"]), "PgDn PgDn PgDn PgDn PgDn PgDn PgDn"),
    ("confirm-problems", World::bare, "PgDn PgDn PgDn PgDn PgDn PgDn PgDn Down Down Down"),
    (
        "confirm-not-permitted",
        || World { permissions: granted(&["VM.Allocate", "SDN.Use"]), ..World::default() },
        "PgDn PgDn PgDn PgDn PgDn PgDn PgDn Down Down Down Down Down",
    ),
];

const ALL: &[&str] = &["Version", "Cluster", "Nodes", "NextId", "Pools", "Options", "Permissions"];

fn shown(state: &State) -> String {
    let mut pilot = Pilot::in_wizard(state.1());
    if !state.2.is_empty() {
        pilot.press(state.2);
    }
    pilot.screen()
}

#[test]
fn every_state_of_every_screen_looks_as_it_did() {
    for state in STATES {
        insta::assert_snapshot!(state.0, shown(state));
    }
}

#[test]
fn no_two_states_look_alike() {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for state in STATES {
        if let Some(other) = seen.insert(shown(state), state.0) {
            panic!("{} looks like {other}", state.0);
        }
    }
}

#[test]
fn a_choice_is_picked_by_typing_a_part_of_it() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("PgDn Down Down");
    pilot.type_text("deb");
    insta::assert_snapshot!("os-picking", pilot.screen());
    pilot.press("Enter");
    let wizard = pilot.model.wizard.as_ref().unwrap();
    let chosen = wizard.sheet.answers.text(Field::Iso);
    assert_eq!(chosen, "cephfs:iso/debian-13.1.0-amd64-netinst.iso");
}

#[test]
fn another_storage_asks_for_its_images_anew() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("PgDn Down Enter");
    pilot.type_text("local");
    pilot.press("Enter Down");
    insta::assert_snapshot!("os-other-storage", pilot.screen());
}

#[test]
fn a_choice_keeps_what_was_meant_when_the_list_changes() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("PgDn Down Down Enter Down");
    let before = highlighted(&pilot.screen());
    let query =
        pve_provision::create::Query::Isos("pve1".parse().unwrap(), "cephfs".parse().unwrap());
    pilot.world.isos.insert(0, "aaa.iso".to_owned());
    let found = pilot.world.answer(&query).unwrap();
    pilot.send(crate::app::Message::Found(query, found));
    assert_eq!(highlighted(&pilot.screen()), before);
}

/// The highlighted line of a list that is open.
fn highlighted(screen: &str) -> String {
    let line = screen.lines().find(|line| line.contains("│> ")).unwrap();
    line.to_owned()
}

#[test]
fn tags_are_added_one_by_one_and_removed() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("Down Down Down Down Enter");
    pilot.type_text("web");
    pilot.press("Enter");
    pilot.type_text("te");
    pilot.press("Down Enter");
    insta::assert_snapshot!("general-tags", pilot.screen());
    let tags = |pilot: &Pilot| {
        let wizard = pilot.model.wizard.as_ref().unwrap();
        wizard.sheet.answers.value(Field::Tags).clone()
    };
    assert_eq!(tags(&pilot), Value::List(vec!["web".into(), "test".into()]));
    pilot.type_text("web");
    pilot.press("Enter Esc");
    assert_eq!(tags(&pilot), Value::List(vec!["test".into()]));
}

#[test]
fn the_minimum_follows_the_memory_until_it_is_touched() {
    let mut pilot = Pilot::in_wizard(World::default());
    let minimum = |pilot: &Pilot| {
        let wizard = pilot.model.wizard.as_ref().unwrap();
        wizard.sheet.answers.number(Field::MemoryMinimum)
    };
    pilot.press("PgDn PgDn PgDn PgDn PgDn");
    pilot.type_text("4096");
    pilot.press("Enter");
    assert_eq!(minimum(&pilot), Some(4096));
    // Looking at it is not touching it.
    pilot.press("Enter Enter Home");
    pilot.type_text("8192");
    pilot.press("Enter");
    assert_eq!(minimum(&pilot), Some(8192));
    pilot.type_text("1024");
    pilot.press("Enter Home");
    pilot.type_text("2048");
    pilot.press("Enter");
    assert_eq!(minimum(&pilot), Some(1024));
    pilot.press("Delete");
    assert_eq!(minimum(&pilot), Some(2048));
}

#[test]
fn a_wrong_number_stays_to_be_mended() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("PgDn PgDn PgDn PgDn");
    pilot.type_text("0");
    pilot.press("Enter");
    insta::assert_snapshot!("cpu-refused", pilot.screen());
    pilot.press("Backspace 4 Enter");
    let wizard = pilot.model.wizard.as_ref().unwrap();
    assert_eq!(wizard.sheet.answers.number(Field::Cores), Some(4));
}

#[test]
fn disks_are_added_changed_and_removed() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("PgDn PgDn PgDn Down Enter Down Down Down");
    pilot.type_text("64");
    pilot.press("Enter Esc");
    insta::assert_snapshot!("disks-two", pilot.screen());
    let sizes = |pilot: &Pilot| {
        let sheet = &pilot.model.wizard.as_ref().unwrap().sheet;
        let disks = 0..sheet.answers.disks();
        disks
            .map(|disk| sheet.answers.value(Key::disk(disk, Field::DiskSize)).to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(sizes(&pilot), ["32", "64"]);
    pilot.press("Home Delete");
    assert_eq!(sizes(&pilot), ["64"]);
    pilot.press("Ctrl-u");
    assert_eq!(sizes(&pilot), ["32", "64"]);
}

#[test]
fn another_template_keeps_what_was_said() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("Down Down");
    pilot.type_text("web");
    pilot.press("Enter PgUp Down Enter");
    let sheet = &pilot.model.wizard.as_ref().unwrap().sheet;
    assert_eq!(sheet.draft.template().name(), "server");
    assert_eq!(sheet.answers.text(Field::Name), "web");
    assert_eq!(sheet.answers.text(Field::Bios), "seabios");
}

#[test]
fn what_failed_is_asked_for_again_by_a_key() {
    let mut pilot = Pilot::in_wizard(World::failing(&["Pools"]));
    pilot.press("Down Down Down");
    assert!(pilot.screen().contains("no route to host"));
    pilot.world.failing.clear();
    pilot.press("Ctrl-r");
    assert!(!pilot.screen().contains("no route to host"));
    assert!(pilot.screen().contains("(none)"));
}

#[test]
fn a_locked_field_says_why() {
    let world = World { permissions: granted(&["Sys.Modify"]), ..World::default() };
    let mut pilot = Pilot::in_wizard(world);
    pilot.press("End Enter");
    insta::assert_snapshot!("general-locked", pilot.screen());
}

#[test]
fn a_problem_on_confirm_leads_to_its_field() {
    let mut pilot = Pilot::in_wizard(World::bare());
    pilot.press("PgDn PgDn PgDn PgDn PgDn PgDn PgDn Down Down Enter");
    let wizard = pilot.model.wizard.as_ref().unwrap();
    assert_eq!(*wizard.form.focus(), crate::wizard::Place::Key(Field::IsoStorage.into()));
    assert!(pilot.creates.is_empty());
}

#[test]
fn the_request_can_be_read_as_text() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("Ctrl-t");
    insta::assert_snapshot!("request", pilot.screen());
    pilot.press("PgDn PgDn");
    insta::assert_snapshot!("request-end", pilot.screen());
}

/// Every picture that the tests keep, of whatever part: a second one of the same is of no use, and
/// two states that cannot be told apart are a fault.
#[test]
fn no_two_pictures_are_the_same() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/snapshots");
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let picture = text.splitn(3, "---\n").nth(2).unwrap().to_owned();
        let name = path.display().to_string();
        if let Some(other) = seen.insert(picture, name.clone()) {
            panic!("{name} looks like {other}");
        }
    }
    assert!(seen.len() > STATES.len());
}
