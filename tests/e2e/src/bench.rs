//! The figures that `cargo xtask bench` prints, each against its goal.
//!
//! What is measured runs in a process of its own, so that its memory is its own too.

pub mod api;
pub mod download;
pub mod fanout;
pub mod installs;
pub mod start;
pub mod tui;

use std::fs;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;

/// One figure and the goal that it is held to.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What it is called.
    pub name: &'static str,
    /// The number that the goal speaks of.
    pub value: f64,
    /// The unit of that number.
    pub unit: &'static str,
    /// `<= 1.1`, `>= 1`.
    pub goal: &'static str,
}

impl Figure {
    /// The figure as one line of JSON.
    pub fn line(&self) -> String {
        let value = (self.value * 1000.0).round() / 1000.0;
        json!({"name": self.name, "value": value, "unit": self.unit, "goal": self.goal}).to_string()
    }
}

/// A number of kB of `/proc/<process>/status` as MiB: `VmRSS` for now, `VmHWM` for the most so far.
pub fn memory_mib(process: u32, entry: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(entry)?.strip_prefix(':'));
    let number = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    Ok(number.with_context(|| format!("there is no {entry}"))? / 1024.0)
}

/// A duration as milliseconds.
pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
