//! A program in a terminal of its own, whose screen can be read.

use std::ffi::OsStr;
use std::io::Read;
use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;

use portable_pty::Child;
use portable_pty::CommandBuilder;
use portable_pty::MasterPty;
use portable_pty::PtySize;
use portable_pty::native_pty_system;
use rustix::process::Pid;
use rustix::process::Signal;
use tempfile::TempDir;

/// How long to wait for what must come.
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Pty {
    screen: vt100::Parser,
    /// Everything that the program wrote.
    pub(crate) written: Vec<u8>,
    output: mpsc::Receiver<Vec<u8>>,
    keyboard: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    pub(crate) home: TempDir,
}

impl Pty {
    /// Starts `pve-tui` in a home of its own.
    pub(crate) fn start(
        program: impl AsRef<OsStr>,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let home = tempfile::tempdir().unwrap();
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env_clear();
        command.env("TERM", "xterm-256color");
        command.env("HOME", home.path());
        // For the shells among them.
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for (name, value) in environment {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let keyboard = pair.master.take_writer().unwrap();
        let screen = vt100::Parser::default();
        let written = Vec::new();
        Self { screen, written, output, keyboard, child, master: pair.master, home }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    pub(crate) fn screen(&self) -> &vt100::Screen {
        self.screen.screen()
    }

    /// Reads what the program writes until the screen is as it should be.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&vt100::Screen) -> bool) {
        let end = Instant::now() + LIMIT;
        while !is_so(self.screen.screen()) {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.output.recv_timeout(left) else {
                panic!("no {what} in:\n{}", self.screen.screen().contents())
            };
            self.screen.process(&bytes);
            self.written.extend(bytes);
        }
    }

    /// Reads until a text is on the screen.
    pub(crate) fn until_text(&mut self, text: &str) {
        self.until(text, |screen| screen.contents().contains(text));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.process(), signal);
    }

    /// The process that was started.
    pub(crate) fn process(&self) -> i32 {
        self.child.process_id().unwrap().cast_signed()
    }

    /// Reads what is written until something else is so.
    pub(crate) fn until_so(&mut self, what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + LIMIT;
        while !is_so() {
            assert!(Instant::now() < end, "no {what}; {}", self.screen.screen().contents());
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(10)) {
                self.screen.process(&bytes);
                self.written.extend(bytes);
            }
        }
    }

    pub(crate) fn resize(&self, rows: u16, cols: u16) {
        self.master.resize(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).unwrap();
    }

    /// Waits for the program's end; gives its exit code.
    pub(crate) fn end(&mut self) -> u32 {
        let code = self.child.wait().unwrap().exit_code();
        while let Ok(bytes) = self.output.recv_timeout(LIMIT) {
            self.screen.process(&bytes);
            self.written.extend(bytes);
        }
        code
    }
}

pub(crate) fn send(process: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(process).unwrap(), signal).unwrap();
}

/// Name, state and parent of a process, if it is there.
fn status(process: i32) -> Option<(String, char, i32)> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // A name may hold anything, so count from its end.
    let (head, rest) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let mut fields = rest.split_whitespace();
    Some((name, fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// The state of a process as the system names it: `T` is stopped.
pub(crate) fn state(process: i32) -> Option<char> {
    status(process).map(|(_, state, _)| state)
}

/// The child of that name.
pub(crate) fn child(parent: i32, name: &str) -> Option<i32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .into_iter()
        .find(|process| status(*process).is_some_and(|(own, _, of)| of == parent && own == name))
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// Whether the terminal is as the shell had it.
pub(crate) fn is_given_back(screen: &vt100::Screen) -> bool {
    !screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor()
}
