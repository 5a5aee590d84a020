//! Somebody interferes at every step: cancels, leaves, kills the server, asks it to stop.

use super::table::Row;

pub(super) fn rows() -> Vec<Row> { Vec::new() }
