//! Starting, leaving, signals, and what the terminal looks like afterwards.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;

use crate::pty::Pty;
use crate::pty::child;
use crate::pty::is_given_back;
use crate::pty::send;
use crate::pty::state;
use crate::scene::Scene;

fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Pty {
    Pty::start(env!("CARGO_BIN_EXE_pve-tui"), arguments, environment)
}

fn has_mouse(screen: &vt100::Screen) -> bool {
    screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None
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

/// A shell that runs the wizard and whatever comes after it, in a terminal of its own.
fn shell(script: &str) -> Pty {
    Pty::start("sh", &["-c", script, env!("CARGO_BIN_EXE_pve-tui")], &[])
}

#[test]
fn suspended_it_leaves_the_terminal_to_the_shell_and_comes_back() {
    let mut pty = shell("set -m; \"$0\" --mouse; echo; echo stopped; read -r line; fg");
    pty.until_text("[ Log in ]");
    let (shell, name) = (pty.process(), "pve-tui");
    let wizard = child(shell, name).unwrap();
    pty.press(CTRL_Z);
    pty.until_so("stop", || state(wizard) == Some('T'));
    pty.until_text("stopped");
    assert!(is_given_back(pty.screen()));
    // The shell's terminal shows what is typed.
    pty.press("seen by the shell");
    pty.until_text("seen by the shell");
    pty.press("\n");
    pty.until_text("[ Log in ]");
    assert_ne!(state(wizard), Some('T'));
    let screen = pty.screen();
    assert!(screen.alternate_screen() && screen.bracketed_paste() && has_mouse(screen));
    pty.press("?");
    pty.until_text("Esc closes");
    pty.press(CTRL_C);
    assert_eq!(pty.end(), 0);
    assert!(is_given_back(pty.screen()));
}

#[test]
fn where_nobody_could_continue_it_it_is_not_stopped() {
    // It leads the terminal's session itself, as by `ssh -t host pve-tui`.
    let mut pty = start(&[], &[]);
    pty.until_text("[ Log in ]");
    pty.press(CTRL_Z);
    pty.press("?");
    pty.until_text("Esc closes");
    assert_ne!(state(pty.process()), Some('T'));
    assert!(pty.screen().alternate_screen() && pty.screen().bracketed_paste());
    pty.press(CTRL_C);
    assert_eq!(pty.end(), 0);
    assert!(is_given_back(pty.screen()));
}

#[test]
fn a_terminal_that_was_taken_half_way_is_given_back() {
    let mut pty = shell("\"$0\" > /dev/full; echo \"ended $?\"; read -r line");
    pty.until_text("cannot use the terminal");
    pty.until_text("ended 2");
    pty.press("seen by the shell");
    pty.until_text("seen by the shell");
    pty.press("\n");
    pty.end();
}

#[test]
fn the_mouse_is_taken_only_when_it_is_wanted() {
    for (arguments, taken) in [(&[][..], false), (&["--mouse"][..], true)] {
        let mut pty = start(arguments, &[]);
        pty.until_text("[ Log in ]");
        assert_eq!(has_mouse(pty.screen()), taken);
        if taken {
            // The button below the password: line 9 of the screen, in the terminal's own words.
            pty.press("\x1b[<0;8;9M\x1b[<0;8;9m");
            pty.until_text("there is no server to log in to yet");
        }
        pty.press(CTRL_C);
        assert_eq!(pty.end(), 0);
        assert!(is_given_back(pty.screen()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_at_a_question_for_a_secret_gives_the_terminal_back() {
    let scene = Scene::start("9.1", Vec::new()).await;
    let (address, pin) = (scene.server.address(), scene.server.identity.fingerprint());
    let create = format!("create --server {address} --fingerprint {pin} --user root@pam");
    tokio::task::block_in_place(|| {
        for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
            let mut pty = shell(&format!("\"$0\" {create}; echo \"ended $?\"; read -r line"));
            pty.until_text("Password of root@pam:");
            let wizard = child(pty.process(), "pve-tui").unwrap();
            send(wizard, signal);
            pty.until_text(&format!("ended {}", 128 + signal.as_raw()));
            pty.press("seen by the shell");
            pty.until_text("seen by the shell");
            pty.press("\n");
            pty.end();
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_typed_as_soon_as_it_is_asked_for_is_not_seen() {
    let scene = Scene::start("9.1", Vec::new()).await;
    let (address, pin) = (scene.server.address(), scene.server.identity.fingerprint());
    let (address, pin) = (address.to_string(), pin.to_string());
    let user = "root@pam";
    let arguments = ["create", "--server", &address, "--fingerprint", &pin, "--user", user];
    tokio::task::block_in_place(|| {
        let mut pty = start(&arguments, &[]);
        pty.until_text("Password of root@pam:");
        pty.press(" hidden \r");
        pty.until_text("Create this VM?");
        assert!(!pty.screen().contents().contains("hidden"));
        pty.press("n\r");
        assert_eq!(pty.end(), 2);
    });
    let seen = scene.server.seen();
    let login = seen.iter().find(|seen| seen.line().ends_with("/access/ticket")).unwrap();
    assert_eq!(login.form()["password"], " hidden ");
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
fn the_server_that_is_the_default_is_taken_when_none_is_named() {
    let configuration = tempfile::tempdir().unwrap();
    let directory = configuration.path().join("pve-tui");
    std::fs::create_dir(&directory).unwrap();
    let servers = "default = 'lab'\n[servers.lab]\naddresses = ['127.0.0.1:1', '127.0.0.1:2']";
    std::fs::write(directory.join("servers.toml"), servers).unwrap();
    let mut pty = start(&[], &[("XDG_CONFIG_HOME", configuration.path().to_str().unwrap())]);
    pty.until_text("cannot connect to 127.0.0.1:1: Connection refused");
    pty.until_text("127.0.0.1:1, 127.0.0.1:2");
    pty.press(CTRL_C);
    assert_eq!(pty.end(), 0);
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
