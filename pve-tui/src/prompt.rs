//! Questions at a terminal, for secrets without showing what is typed.

use std::io;
use std::io::BufRead as _;
use std::io::IsTerminal as _;
use std::io::Write as _;

use crossterm::event::Event;
use crossterm::event::KeyCode;
use crossterm::event::KeyEventKind;
use crossterm::event::KeyModifiers;
use crossterm::terminal;
use secrecy::SecretString;

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
        write!(io::stderr(), "{question} ")?;
        let _raw = Raw::enter()?;
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
        terminal::enable_raw_mode()?;
        Ok(Self)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _ = terminal::disable_raw_mode();
        let _ = writeln!(io::stderr());
    }
}
