//! The steps and their failure rules against the specification's own tables.

use pve_provision::OnFailure;
use pve_provision::Step;

const TABLES: &str = include_str!("specification.md");

/// The cells of the table whose first column is headed `head`, without their code marks.
pub(crate) fn table(head: &str) -> Vec<Vec<String>> {
    let head = format!("| {head} |");
    TABLES
        .lines()
        .skip_while(|line| !line.starts_with(&head))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
        })
        .collect()
}

#[test]
fn the_steps_are_those_of_the_specification_in_their_order() {
    let mut stage = String::new();
    let specified: Vec<String> = table("Stage")
        .iter()
        .map(|row| {
            if !row[0].is_empty() {
                stage.clone_from(&row[0]);
            }
            format!("{stage} > {}", row[1])
        })
        .collect();
    let ours: Vec<&str> = Step::ALL
        .iter()
        .filter(|step| **step != Step::UsingOsImage)
        .map(|step| step.name())
        .collect();
    assert_eq!(specified.len(), 18);
    assert_eq!(specified, ours);
}

#[test]
fn a_failure_leaves_what_the_specification_says() {
    let rows = table("Failure point");
    assert_eq!(rows.len(), 4);
    let destroyed = |step: &str| rows[1][0].contains(step);
    for step in Step::ALL {
        let name = step.name();
        let (stage, short) = name.split_once(" > ").unwrap();
        let specified = match (stage, short) {
            // Nothing is left either way: what carries this job's mark is destroyed.
            ("VM creation", "creating VM") => OnFailure::Destroy,
            ("preparation" | "OS preparation" | "SSH preparation", _) => OnFailure::Nothing,
            (_, short) if destroyed(short) => OnFailure::Destroy,
            ("VM initialization", "migrating VM" | "waiting for ready" | "rebooting VM") => {
                OnFailure::Keep
            }
            // The specification has no failure here; the VM is finished.
            ("VM initialization", "finalizing") => OnFailure::Keep,
            other => panic!("{other:?} is in no row"),
        };
        assert_eq!(step.on_failure(), specified, "{name}");
    }
}
