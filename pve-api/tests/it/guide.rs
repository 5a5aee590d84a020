//! The guide knows every error.

use std::path::Path;

#[test]
fn the_guide_names_every_error() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(root.join("../docs/guide/pve-api.md")).unwrap();
    let source = std::fs::read_to_string(root.join("src/error.rs")).unwrap();
    let variants: Vec<&str> = source
        .split("pub enum Error {")
        .nth(1)
        .and_then(|rest| rest.split("\n}").next())
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.strip_suffix(" {"))
        .filter(|name| name.starts_with(char::is_uppercase))
        .collect();
    assert!(variants.len() > 15, "{variants:?}");
    for variant in variants {
        assert!(guide.contains(&format!("| `{variant}` |")), "{variant} is missing");
    }
}
