//! The table of inputs and days: what is sent or broken, and what comes of it.
//!
//! A row is one day of one server: what is sent and what is broken; its text is what was answered, what was
//! told beyond a plain install, what is left, and which commands were run. What must hold on every day is
//! not in the texts but checked for each row, see [`day`].

mod booting;
mod cancel;
mod concurrency;
mod day;
mod deed;
mod failures;
mod hold;
mod images;
mod inputs;
mod left;
mod nodes;
mod output;
mod table;
mod told;

/// How many rows there are in each table; they may only become more.
#[test]
fn the_table_has_all_its_rows() {
    let counts = [
        ("failures", failures::rows().len()),
        ("cancel", cancel::rows().len()),
        ("concurrency", concurrency::rows().len()),
        ("images", images::rows().len()),
        ("inputs", inputs::rows().len()),
        ("nodes", nodes::rows().len()),
        ("output", output::rows().len()),
    ];
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    insta::assert_snapshot!(format!("{counts:?}, {all} in all"), @r#"[("failures", 48), ("cancel", 72), ("concurrency", 6), ("images", 25), ("inputs", 31), ("nodes", 41), ("output", 5)], 228 in all"#);
}
