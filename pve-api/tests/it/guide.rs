//! The guide shows only code that stands in an example.

use std::path::Path;

#[test]
fn every_piece_of_code_in_the_guide_stands_in_its_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(root.join("../docs/guide/pve-api.md")).unwrap();
    let mut count = 0;
    for piece in guide.split("```rust\n").skip(1) {
        let code = piece.split("```").next().unwrap();
        let (first, code) = code.split_once('\n').unwrap();
        let example = first.strip_prefix("// ").unwrap();
        let whole = std::fs::read_to_string(root.join(example)).unwrap();
        assert!(whole.contains(code), "not in {example}:\n{code}");
        count += 1;
    }
    assert!(count > 8, "{count} pieces");
}

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
