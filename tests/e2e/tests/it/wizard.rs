//! The wizard's requests against the fact table of the server, and its page of the documentation
//! against the specification's.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use pve_provision::create::*;
use pve_sim::call::Caller;
use pve_sim::call::Method;
use pve_sim::call::Step;
use pve_sim::call::call;
use pve_sim::schema;
use pve_sim::schema::Release;
use pve_sim::world::Pool;
use pve_sim::world::Storage;
use pve_sim::world::Volume;

#[path = "../../../../pve-provision/src/create/tests/world.rs"]
mod world;

use world::World;

/// Values that are likely to be right and values that are likely to be wrong.
const VALUES: [&str; 40] = [
    "",
    "yes",
    "no",
    "0",
    "1",
    "2",
    "3",
    "7",
    "32",
    "576",
    "1500",
    "4094",
    "4095",
    "2048",
    "0.5",
    "100",
    "105",
    "999999999",
    "iso",
    "drive",
    "none",
    "default",
    "local",
    "ceph-pool",
    "cephfs",
    "nosuch",
    "scsi",
    "virtio",
    "sata",
    "ide",
    "raw",
    "qcow2",
    "win11",
    "l24",
    "web",
    "a_b",
    "a;b-c",
    "q35",
    "ovmf",
    "vmbr0",
];

fn key() -> impl Strategy<Value = Key> {
    (select(Field::ALL), 0..3_usize, any::<bool>()).prop_map(|(field, disk, each)| {
        if field.is_of_disk() && !each { Key::disk(disk, field) } else { field.into() }
    })
}

/// A value for the field: one of its own choices, or anything.
fn assignment() -> impl Strategy<Value = (Key, prop::sample::Index, &'static str)> {
    (key(), any::<prop::sample::Index>(), select(&VALUES[..]))
}

fn draft(template: Template, facts: &Facts, said: &[(Key, prop::sample::Index, &str)]) -> Draft {
    let mut draft = Draft::new(template);
    if draft.template().name() == "server" {
        // It has no image of its own.
        draft.say(Field::Media, "none");
    }
    for (key, index, text) in said {
        let answers = resolve(&draft, facts);
        let choice = match answers.get(*key).map(|answer| &answer.choices) {
            Some(Choices::Of(choices)) if !choices.is_empty() => &index.get(choices).value,
            _ => *text,
        };
        // Sometimes what is said is not in the list.
        let text = if index.index(4) == 0 { text } else { choice };
        if let Ok(value) = Value::parse(key.field.row().input, text) {
            draft.say(*key, value);
        }
    }
    draft
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_resolves_without_problems_is_accepted_by_the_fact_table(
        server in any::<bool>(),
        old in any::<bool>(),
        said in prop::collection::vec(assignment(), 0..12),
    ) {
        let template = if server { Template::server() } else { Template::specification() };
        let world = World { version: if old { "8.4.9" } else { "9.2.3" }, ..World::default() };
        let facts = world.facts();
        let draft = draft(template, &facts, &said);
        let Ok(plan) = Plan::new(&resolve(&draft, &facts), &facts) else { return Ok(()) };
        let mut parameters: BTreeMap<String, String> = plan.parameters().into_iter().collect();
        parameters.insert("node".to_owned(), plan.node.to_string());
        let release = if old { Release::V8_4 } else { Release::V9_2 };
        let errors = schema::check(release, "POST /nodes/{node}/qemu", &parameters);
        prop_assert!(errors.is_empty(), "{errors:?} in {parameters:#?}");
        let refusal = made(release, &parameters);
        prop_assert!(refusal.is_none(), "{refusal:?} in {parameters:#?}");
    }
}

/// Lets the simulated cluster make the VM; gives its refusal.
fn made(release: Release, parameters: &BTreeMap<String, String>) -> Option<String> {
    let mut world = pve_sim::world::World::new(&[("pve1", Ipv4Addr::LOCALHOST)], 0);
    world.release = release;
    for (name, kind, content) in [
        ("ceph-pool", "rbd", "images"),
        ("cephfs", "cephfs", "iso"),
        ("local", "dir", "iso,images"),
    ] {
        let storage = Storage { total: 1 << 40, ..Storage::new(name, kind, content) };
        world.storages.insert(name.to_owned(), storage);
    }
    world.pools.insert("lab".to_owned(), Pool::default());
    for name in World::default().isos {
        world.volumes.push(Volume {
            storage: "cephfs".to_owned(),
            node: None,
            name: format!("iso/{name}"),
            content: "iso".to_owned(),
            format: "iso".to_owned(),
            size: 1 << 30,
            vmid: None,
            imported_from: None,
        });
    }
    let mut parameters = parameters.clone();
    parameters.remove("node");
    let caller = Caller::root("pve1");
    let answer = call(&mut world, &caller, Method::Post, "/nodes/pve1/qemu", &parameters);
    let Some(mut worker) = answer.worker else { return Some(answer.reason) };
    loop {
        match worker.run(&mut world) {
            Step::Ran(_) => {}
            Step::Ended(_, result) => return result.err().map(|died| died.text),
        }
    }
}

#[test]
fn enough_of_the_drafts_of_the_property_can_be_made() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let facts = World::default().facts();
    let (mut made, mut said_much) = (0, 0);
    for _ in 0..200 {
        let said =
            prop::collection::vec(assignment(), 0..12).new_tree(&mut runner).unwrap().current();
        let draft = draft(Template::server(), &facts, &said);
        if Plan::new(&resolve(&draft, &facts), &facts).is_ok() {
            made += 1;
            said_much += usize::from(draft.answers().len() > 3);
        }
    }
    assert!(made > 30 && said_much > 5, "{made} {said_much}");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_field_stands_in_the_documentation() {
    let page = fs::read_to_string(repository().join("docs/reference/wizard.md")).unwrap();
    let rows: Vec<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.rsplit_once(" | "))
        .map(|(row, _)| row.replace('`', ""))
        .collect();
    for field in Field::ALL {
        let row = field.row();
        assert!(rows.contains(&format!("{} | {}", row.key, row.label)), "{}", row.key);
    }
}

/// The sentences and bullets of the specification's page, without the marks of lists.
fn sentences() -> Vec<String> {
    let page = repository().join("pve-provision/src/create/tests/specification/wizard.md");
    let page = fs::read_to_string(page).unwrap();
    let lines = page.lines().map(|line| line.trim().trim_start_matches("- ").trim());
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.flat_map(parted).collect()
}

/// A line by its sentences: each begins with a capital after a full stop.
fn parted(line: &str) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for part in line.split_inclusive(". ") {
        match sentences.last_mut() {
            Some(last)
                if last.ends_with("e.g. ")
                    || !part.starts_with(|first: char| first.is_ascii_uppercase()) =>
            {
                last.push_str(part);
            }
            _ => sentences.push(part.to_owned()),
        }
    }
    sentences.iter().map(|sentence| sentence.trim_end().to_owned()).collect()
}

#[test]
fn a_line_is_parted_at_its_full_stops() {
    let parts = |line| parted(line).join("|");
    assert_eq!(
        parts("One. Two e.g. SCSI0, 2.6 Kernel. Three"),
        "One.|Two e.g. SCSI0, 2.6 Kernel.|Three"
    );
    assert_eq!(parts("ruff check .., and format .. . x"), "ruff check .., and format .. . x");
}

/// The rows of the table: the sentence of the page, and what shows it.
fn rows() -> Vec<(String, String)> {
    let page = fs::read_to_string(repository().join("docs/reference/wizard.md")).unwrap();
    let table =
        page.lines().skip_while(|line| !line.starts_with("| Sentence of the specification"));
    let rows = table.skip(2).take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 2, "{line}");
        (cells[0].to_owned(), cells[1].to_owned())
    });
    rows.collect()
}

#[test]
fn every_sentence_of_the_wizards_page_is_mapped_in_its_order() {
    let mapped: Vec<String> = rows().into_iter().map(|(line, _)| line).collect();
    assert_eq!(mapped, sentences());
}

#[test]
fn what_the_map_names_is_there() {
    let mut sources = String::new();
    for directory in ["pve-api", "pve-provision", "pve-tui", "tests/e2e/tests"] {
        collect(&repository().join(directory), &mut sources);
    }
    let screens: Vec<String> =
        Screen::ALL.iter().map(|screen| format!("screen {}", screen.title())).collect();
    let mut tests = 0;
    for (line, shown) in rows() {
        assert!(!shown.is_empty(), "{line}");
        for name in shown.split(", ") {
            if let Some(test) = name.strip_prefix('`') {
                let test = format!("fn {}()", test.trim_end_matches('`'));
                assert!(sources.contains(&test), "{line}: {name}");
                tests += 1;
            } else {
                let known = ["screen Login", "screen Template", "documentation", "not taken over"];
                let is_known = known.contains(&name) || screens.iter().any(|screen| screen == name);
                assert!(is_known, "{line}: {name}");
            }
        }
    }
    assert!(tests > 60, "{tests}");
}

fn collect(directory: &Path, sources: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}
