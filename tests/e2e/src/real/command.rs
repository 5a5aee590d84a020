//! Programs that this one runs: quiet when all is well, with their own words when not.

use std::ffi::OsStr;
use std::io::Write;
use std::process;
use std::process::Output;
use std::process::Stdio;

use anyhow::Context;
use anyhow::bail;

/// A command line in the making.
pub(super) struct Command {
    inner: process::Command,
    program: String,
    input: Vec<u8>,
}

impl Command {
    pub(super) fn new(program: &str) -> Self {
        let mut command = process::Command::new(program);
        command.env("PATH", super::host::path()).env("LC_ALL", "C");
        Self { inner: command, program: program.to_owned(), input: Vec::new() }
    }

    pub(super) fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.inner.arg(argument);
        self
    }

    pub(super) fn args(&mut self, all: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.inner.args(all);
        self
    }

    pub(super) fn environment(&mut self, name: &str, value: impl AsRef<OsStr>) -> &mut Self {
        self.inner.env(name, value);
        self
    }

    pub(super) fn input(&mut self, text: impl Into<Vec<u8>>) -> &mut Self {
        self.input = text.into();
        self
    }

    pub(super) fn run(&mut self) -> anyhow::Result<()> {
        self.read().map(drop)
    }

    /// Runs it and gives its standard output.
    pub(super) fn read(&mut self) -> anyhow::Result<String> {
        let output = self.output().with_context(|| format!("cannot run {}", self.program))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n");
        bail!("{} failed, {}:\n{last}", self.program, output.status);
    }

    fn output(&mut self) -> std::io::Result<Output> {
        let pipes = self.inner.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // Small enough for the pipe; a program that does not read it may have ended already.
            let _ = stdin.write_all(&self.input);
        }
        child.wait_with_output()
    }
}
