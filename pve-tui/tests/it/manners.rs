//! Starting, leaving, signals, and what the terminal looks like afterwards.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;

use crate::pty::Pty;
use crate::pty::is_given_back;

fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Pty {
    Pty::start(env!("CARGO_BIN_EXE_pve-tui"), arguments, environment)
}

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";

#[test]
fn it_starts_leaves_and_gives_the_terminal_back() {
    let mut pty = start(&[], &[]);
    pty.until_text("[ Log in ]");
    assert!(pty.screen().alternate_screen() && pty.screen().bracketed_paste());
    pty.press("?");
    pty.until_text("Esc closes");
    pty.press("\x1b");
    pty.until("no help", |screen| !screen.contents().contains("Esc closes"));
    pty.press(CTRL_C);
    assert_eq!(pty.end(), 0);
    assert!(is_given_back(pty.screen()));
}

#[test]
fn a_signal_or_a_hang_up_gives_the_terminal_back() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut pty = start(&[], &[]);
        pty.until_text("[ Log in ]");
        pty.signal(signal);
        assert_eq!(pty.end(), 0, "{signal:?}");
        assert!(is_given_back(pty.screen()), "{signal:?}");
    }
}

#[test]
#[ignore = "was seen to fail in a bare chroot, for a reason not yet known"]
fn suspended_it_leaves_the_terminal_to_the_shell_and_comes_back() {
    let mut pty = start(&[], &[]);
    pty.until_text("[ Log in ]");
    pty.press(CTRL_Z);
    pty.until("terminal of the shell", is_given_back);
    pty.signal(Signal::CONT);
    pty.until("screen", |screen| screen.alternate_screen() && screen.bracketed_paste());
    pty.until_text("[ Log in ]");
    pty.press(CTRL_C);
    assert_eq!(pty.end(), 0);
}

#[test]
fn another_size_is_drawn_anew() {
    let mut pty = start(&[], &[]);
    pty.until_text("[ Log in ]");
    pty.resize(20, 60);
    pty.until_text("make it larger");
    pty.resize(24, 80);
    pty.until_text("[ Log in ]");
    pty.press(CTRL_C);
    pty.end();
}

#[test]
fn what_is_pasted_arrives_as_text() {
    let mut pty = start(&[], &[]);
    pty.until_text("[ Log in ]");
    pty.press("\x1b[200~pve1.example.org\x1b[201~");
    pty.until_text("pve1.example.org");
    pty.press(CTRL_C);
    pty.end();
}

#[test]
fn without_colours_none_is_written() {
    // Something that is coloured otherwise: a server that cannot be reached.
    let arguments = ["--server", "127.0.0.1:1"];
    for (environment, coloured) in [(&[][..], true), (&[("NO_COLOR", "1")][..], false)] {
        let mut pty = start(&arguments, environment);
        pty.until_text("cannot connect");
        pty.press(CTRL_C);
        pty.end();
        let text = String::from_utf8_lossy(&pty.written).into_owned();
        let has_colour = ["\x1b[3", "\x1b[4", "\x1b[9"].iter().any(|start| {
            text.match_indices(start).any(|(at, _)| {
                let rest = &text[at + start.len()..];
                rest.starts_with("8;") || rest.starts_with(|c: char| ('0'..='7').contains(&c))
            })
        });
        assert_eq!(has_colour, coloured, "{text:?}");
    }
}

#[test]
fn the_log_is_a_file_that_only_its_owner_can_read() {
    let mut pty = start(&[], &[]);
    pty.until_text("[ Log in ]");
    pty.press(CTRL_C);
    pty.end();
    let log = pty.home.path().join(".local/state/pve-tui/log");
    let mode = std::fs::metadata(log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
