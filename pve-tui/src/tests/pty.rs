//! The terminal is given back when we panic. A real panic needs a real process: this test runs
//! itself again in a terminal of its own.

use std::io::Read as _;

use portable_pty::CommandBuilder;
use portable_pty::PtySize;
use portable_pty::native_pty_system;

use crate::terminal::Screen;

const CHILD: &str = "tests::pty::panicking_child";

#[test]
#[ignore = "is run by the other test, in a terminal"]
fn panicking_child() {
    let _screen = Screen::take(true).unwrap();
    panic!("on purpose");
}

#[test]
fn the_terminal_is_given_back_when_we_panic() {
    let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", CHILD]);
    command.env("TERM", "xterm-256color");
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().unwrap();
    let mut output = Vec::new();
    // The end of a terminal is an error on this side.
    let _ = reader.read_to_end(&mut output);
    child.wait().unwrap();
    let mut screen = vt100::Parser::default();
    screen.process(&output);
    let text = String::from_utf8_lossy(&output);
    assert!(text.contains("\x1b[?1049h") && text.contains("on purpose"), "{text}");
    let screen = screen.screen();
    assert!(!screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor());
    assert!(text.contains("\x1b[?1000h"), "{text}");
    assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    assert!(screen.contents().contains("on purpose"), "the message is to be read afterwards");
}
