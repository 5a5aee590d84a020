//! The table of inputs and days: what is sent or broken, and what comes of it.
//!
//! A row is one day of one server: what is sent and what is broken; its text is what was answered, what was
//! told beyond a plain install, what is left, and which commands were run. What must hold on every day is
//! not in the texts but checked for each row, see [`day`].

mod cancel;
mod day;
mod deed;
mod failures;
mod hold;
mod left;
mod table;
mod told;

/// How many rows there are; they may only become more.
#[test]
fn the_table_has_all_its_rows() {
    let counts = [("failures", failures::rows().len()), ("cancel", cancel::rows().len())];
    insta::assert_debug_snapshot!(counts, @"");
}
