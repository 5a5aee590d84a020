//! Questions at a terminal, for secrets without showing what is typed.

use std::io;
use std::io::BufRead as _;
use std::io::IsTerminal as _;
use std::io::Write as _;
use std::process;
use std::sync::OnceLock;
use std::thread;

use crossterm::event::Event;
use crossterm::event::KeyCode;
use crossterm::event::KeyEventKind;
use crossterm::event::KeyModifiers;
use crossterm::terminal;
use secrecy::SecretString;
use tokio::runtime;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

/// Somebody who can be asked, or nobody.
pub trait Ask {
    /// Whether there is somebody to ask.
    fn is_there(&self) -> bool;
    /// Asks for a line.
    fn line(&mut self, question: &str) -> io::Result<String>;
    /// Asks for a line that nobody may see.
    fn secret(&mut self, question: &str) -> io::Result<SecretString>;
}

/// The person at the terminal.
#[derive(Debug, Clone, Copy)]
pub struct Terminal;

impl Ask for Terminal {
    fn is_there(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    fn line(&mut self, question: &str) -> io::Result<String> {
        write!(io::stderr(), "{question} ")?;
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    fn secret(&mut self, question: &str) -> io::Result<SecretString> {
        // Before anybody is asked: whoever is quick would be seen typing.
        let _raw = Raw::enter()?;
        write!(io::stderr(), "{question} ")?;
        let mut text = String::new();
        loop {
            let Event::Key(key) = crossterm::event::read()? else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Enter => break,
                KeyCode::Char('c' | 'd') if control => {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                KeyCode::Char('u') if control => text.clear(),
                KeyCode::Char(letter) if !control => text.push(letter),
                KeyCode::Tab => text.push('\t'),
                KeyCode::Backspace => drop(text.pop()),
                _ => {}
            }
        }
        Ok(text.into())
    }
}

/// A terminal that shows nothing of what is typed, until this is dropped.
struct Raw;

impl Raw {
    fn enter() -> io::Result<Self> {
        watch_signals()?;
        terminal::enable_raw_mode()?;
        Ok(Self)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    // Nothing can be done about a terminal that is gone.
    let _ = terminal::disable_raw_mode();
    let _ = writeln!(io::stderr());
}

/// From the first secret on, a signal that ends the program gives the terminal back first.
///
/// A thread does it, since the one that asks is waiting for a key; and it stays, since the system's
/// own way to end a program cannot be had back.
fn watch_signals() -> io::Result<()> {
    static WATCHED: OnceLock<()> = OnceLock::new();
    if WATCHED.get().is_some() {
        return Ok(());
    }
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut hang_up, mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (
            signal(SignalKind::hangup())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        )
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let kind = runtime.block_on(async {
            tokio::select! {
                _ = hang_up.recv() => SignalKind::hangup(),
                _ = interrupt.recv() => SignalKind::interrupt(),
                _ = terminate.recv() => SignalKind::terminate(),
            }
        });
        if terminal::is_raw_mode_enabled().unwrap_or(true) {
            give_back();
        }
        // As a shell tells of a program that a signal ended.
        process::exit(128 + kind.as_raw_value());
    })?;
    let _ = WATCHED.set(());
    Ok(())
}
