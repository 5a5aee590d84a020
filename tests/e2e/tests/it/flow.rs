//! The table of faults of the wizard's flow: each row is one VM to be made, once on a cluster that
//! answers as 9.2 does and once on one that answers as 8.4 does.
//!
//! What must hold on every day is not in the texts but checked for each row, see [`day`].

mod day;
mod rows;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use day::Day;
use futures_util::StreamExt as _;
use futures_util::stream;
use pve_sim::schema::Release;

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_the_flow_ends_as_it_should_on_both_releases() {
    let days = AtomicUsize::new(0);
    let row = async |(name, day): Row| {
        let run = async |release| {
            days.fetch_add(1, Ordering::Relaxed);
            day().run(release).await
        };
        let (new, old) = tokio::join!(run(Release::V9_2), run(Release::V8_4));
        if new == old {
            format!("{name}\n{new}")
        } else {
            format!("{name}\n  on 9.2\n{new}\n  on 8.4\n{old}")
        }
    };
    let table: Vec<String> = stream::iter(rows::rows()).map(row).buffered(4).collect().await;
    insta::assert_snapshot!(table.join("\n"));
    assert_eq!(days.into_inner(), 2 * rows::COUNT, "every row was run on both");
}

/// How many rows there are; they may only become more.
#[test]
fn the_flows_table_has_all_its_rows() {
    let rows = rows::rows();
    assert_eq!(rows.len(), rows::COUNT);
    let names: BTreeSet<&str> = rows.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), rows.len());
}

/// A row: what it is about, and its day.
type Row = (&'static str, fn() -> Day);
