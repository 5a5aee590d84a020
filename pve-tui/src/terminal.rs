//! The terminal: taken over, and given back as it was, whatever happens.

use std::io;
use std::io::Stdout;
use std::io::stdout;
use std::panic;
use std::process;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use crossterm::cursor::Show;
use crossterm::event::DisableBracketedPaste;
use crossterm::event::DisableMouseCapture;
use crossterm::event::EnableBracketedPaste;
use crossterm::event::EnableMouseCapture;
use crossterm::execute;
use crossterm::terminal::Clear;
use crossterm::terminal::ClearType;
use crossterm::terminal::EnterAlternateScreen;
use crossterm::terminal::LeaveAlternateScreen;
use crossterm::terminal::disable_raw_mode;
use crossterm::terminal::enable_raw_mode;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::process::Signal;

/// The exit code of a program that panicked.
const PANICKED: i32 = 101;

/// Whether the terminal is ours: given back twice, it would forget where its cursor was.
static HELD: AtomicBool = AtomicBool::new(false);
/// Whether we hear of the mouse, too.
static MOUSE: AtomicBool = AtomicBool::new(false);

/// The terminal as long as it is ours; dropped, it is given back.
pub(crate) struct Screen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
    mouse: bool,
}

impl Screen {
    /// Takes the terminal over, and its mouse if that is wanted.
    pub(crate) fn take(mouse: bool) -> io::Result<Self> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
            // Whatever panicked, a program without its terminal cannot go on.
            process::exit(PANICKED);
        }));
        Ok(Self { terminal: enter(mouse)?, mouse })
    }

    /// Gives the terminal to the shell, stops, and takes it back when somebody lets us go on.
    ///
    /// It stops as by the terminal's own key: the whole job, and only where somebody can continue
    /// it. Without such a shell the system ignores the signal, and we go on at once. The signal is
    /// taken before the call returns, since it is the main thread that calls.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        rustix::process::kill_current_process_group(Signal::TSTP)?;
        // A new one knows of nothing that is on the screen, and so draws everything.
        self.terminal = enter(self.mouse)?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Takes the terminal over; where that fails half way, what was taken is given back.
fn enter(mouse: bool) -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    let take = || {
        HELD.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste)?;
        if mouse {
            MOUSE.store(true, Ordering::SeqCst);
            execute!(stdout(), EnableMouseCapture)?;
        }
        Terminal::new(CrosstermBackend::new(stdout()))
    };
    take().inspect_err(|_| give_back())
}

/// A terminal that went away cannot be given back, which harms nobody.
fn give_back() {
    if !HELD.swap(false, Ordering::SeqCst) {
        return;
    }
    if MOUSE.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), DisableMouseCapture);
    }
    let _ = execute!(stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
