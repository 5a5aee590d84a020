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
use crossterm::event::EnableBracketedPaste;
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

/// The terminal as long as it is ours; dropped, it is given back.
pub(crate) struct Screen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal over.
    pub(crate) fn take() -> io::Result<Self> {
        enter()?;
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
            // Whatever panicked, a program without its terminal cannot go on.
            process::exit(PANICKED);
        }));
        Ok(Self { terminal: Terminal::new(CrosstermBackend::new(stdout()))? })
    }

    /// Gives the terminal to the shell, stops, and takes it back when somebody lets us go on.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        // The whole job stops, as it does when the terminal itself is asked to suspend.
        rustix::process::kill_current_process_group(Signal::STOP)?;
        self.retake()
    }

    /// Sets the terminal up again after somebody else used it.
    pub(crate) fn retake(&mut self) -> io::Result<()> {
        enter()?;
        // A new one knows of nothing that is on the screen, and so draws everything.
        self.terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> io::Result<()> {
    HELD.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste)
}

/// A terminal that went away cannot be given back, which harms nobody.
fn give_back() {
    if !HELD.swap(false, Ordering::SeqCst) {
        return;
    }
    let _ = execute!(stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
