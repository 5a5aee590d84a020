//! The reference pages that no generator writes, against the code and the running server.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use pve_e2e::programs::repository;
use pve_e2e::programs::sources;
use pve_e2e::rig::Rig;
use pve_provision::OnFailure;
use pve_sim::Config;

fn page(name: &str) -> String {
    fs::read_to_string(repository().join("docs/reference").join(name)).unwrap()
}

/// The first cells of all tables, without their code marks.
fn first_cells(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once('`')).map(|(cell, _)| cell.to_owned()).collect()
}

/// The names of variables that stand as literals in the server's settings.
fn variables_in_code() -> BTreeSet<String> {
    let source = repository().join("pve-server/src");
    let mut files = vec![source.join("settings.rs"), source.join("main.rs")];
    files.extend(fs::read_dir(source.join("settings")).unwrap().map(|entry| entry.unwrap().path()));
    let is_test = |path: &PathBuf| path.file_name().is_some_and(|name| name == "tests.rs");
    let text: String = files
        .iter()
        .filter(|path| !is_test(path))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let is_variable = |word: &str| {
        word.len() > 3 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    text.split('"').filter(|word| is_variable(word)).map(str::to_owned).collect()
}

#[test]
fn the_settings_page_has_the_variables_of_the_code_and_no_others() {
    let mut told = first_cells(&page("settings.md"));
    // The prefix stands for all of its names; the logging library reads its own.
    assert!(told.remove("NODE_<name>") && told.remove("RUST_LOG"));
    told.insert("NODE_".to_owned());
    assert_eq!(told, variables_in_code());
}

#[test]
fn the_endpoint_page_has_the_routes_of_the_code_and_no_others() {
    let source = fs::read_to_string(repository().join("pve-server/src/routes.rs")).unwrap();
    let mut routes: BTreeSet<String> = BTreeSet::new();
    for route in source.split(".route(").skip(1) {
        let line = route.lines().next().unwrap();
        let (path, methods) = line.split_once(", ").unwrap();
        let path = path.trim_matches('"').replace("INSTALL", "/api/vm/install");
        for (method, call) in [("GET", "get("), ("POST", "post("), ("DELETE", "delete(")] {
            if methods.contains(call) {
                routes.insert(format!("{method} {path}"));
            }
        }
    }
    assert!(routes.len() > 10);
    let told: BTreeSet<String> = first_cells(&page("endpoint.md"))
        .into_iter()
        .filter(|cell| cell.contains(" /"))
        .chain(["POST /api/vm/install".to_owned()])
        .collect();
    assert_eq!(told, routes);
}

#[test]
fn every_difference_is_shown_by_a_test_that_exists() {
    let text = page("differences.md");
    let rows: Vec<&str> =
        text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what")).collect();
    assert!(rows.len() > 10);
    let code: String =
        sources().unwrap().iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    for row in rows {
        let name = row.trim_end_matches(" |").rsplit("| ").next().unwrap().trim_matches('`');
        assert!(code.contains(&format!("fn {name}(")), "there is no test {name}");
    }
}

/// The members in the first cells of the table "What is refused".
fn refused_in_the_reference() -> Vec<String> {
    let page = page("endpoint.md");
    let (_, table) = page.split_once("| members | why |").unwrap();
    let rows = table.lines().take_while(|line| line.is_empty() || line.starts_with('|'));
    rows.filter_map(|row| row.strip_prefix("| `")?.split_once("` |"))
        .map(|(members, _)| members.to_owned())
        .collect()
}

#[tokio::test]
async fn what_the_reference_calls_refused_is_refused() {
    let rig = Rig::start(Config::default(), &[]).await.unwrap();
    let rows = refused_in_the_reference();
    assert!(rows.len() > 10);
    for members in rows {
        let body = format!(r#"{{"os":"debian","version":"12",{members}}}"#);
        let request = rig.server.client().post(rig.server.url("/api/vm/install"));
        let response =
            request.header("Content-Type", "application/json").body(body).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 400, "{members}");
    }
    assert_eq!(rig.foreground(), Vec::<String>::new());
}

#[test]
fn the_translated_pages_have_the_same_fields_routes_and_steps() {
    let translated =
        |name: &str| fs::read_to_string(repository().join("docs/zh-TW").join(name)).unwrap();
    let mut original = first_cells(&page("endpoint.md"));
    // What is refused is told in English alone.
    original.retain(|cell| !cell.starts_with('"'));
    assert_eq!(first_cells(&translated("endpoint.md")), original);
    let text = translated("pipeline.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let told: Vec<String> =
        rows.map(|row| row.split('`').step_by(2).take(2).collect::<Vec<_>>().join(" > ")).collect();
    let steps: Vec<&str> = pve_provision::Step::ALL
        .iter()
        .filter(|step| **step != pve_provision::Step::UsingOsImage)
        .map(|step| step.name())
        .collect();
    assert_eq!(told, steps);
    for step in pve_provision::Step::ALL {
        let left = match step.on_failure() {
            OnFailure::Nothing => "不留下任何東西",
            OnFailure::Destroy => "刪除 VM",
            OnFailure::Keep => "保留 VM",
        };
        let short = format!("`{}`", step.name().split_once(" > ").unwrap().1);
        let rows = text.lines().filter(|line| line.starts_with("| ") && line.contains(&short));
        for row in rows {
            assert!(row.ends_with(&format!("| {left} |")), "{row}");
        }
    }
}
