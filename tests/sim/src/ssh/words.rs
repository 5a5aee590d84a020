//! Splits the text of a shell command into simple commands and words, as far as recognising needs it.

use std::iter::Peekable;
use std::str::Chars;

/// One simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Command {
    /// Its words, quotes removed.
    pub(crate) words: Vec<String>,
    /// Whether its output is sent to standard error.
    pub(crate) to_stderr: bool,
}

/// Splits at `;`, `&&`, `||`, `|`, `&` and line ends; removes quotes and redirections. Nothing is
/// expanded: `$$` and `"$@"` stay as they are.
pub(crate) fn commands(text: &str) -> Vec<Command> {
    let mut all = Vec::new();
    let mut command = Command::default();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.peek().copied() {
        match letter {
            ';' | '&' | '|' | '\n' => {
                letters.next();
                push(&mut all, &mut command);
            }
            '#' => while letters.next_if(|letter| *letter != '\n').is_some() {},
            letter if letter.is_whitespace() => {
                letters.next();
            }
            _ => {
                let word = word(&mut letters);
                take(&mut command, word, &mut letters);
            }
        }
    }
    push(&mut all, &mut command);
    all
}

fn push(all: &mut Vec<Command>, command: &mut Command) {
    let command = std::mem::take(command);
    if !command.words.is_empty() {
        all.push(command);
    }
}

/// Puts a word into the command, or understands it as a redirection.
fn take(command: &mut Command, word: Word, letters: &mut Peekable<Chars<'_>>) {
    let redirection = if word.quoted { None } else { word.text.find(['<', '>']) };
    let Some(at) =
        redirection.filter(|at| word.text[..*at].chars().all(|letter| letter.is_ascii_digit()))
    else {
        command.words.push(word.text);
        return;
    };
    let target = word.text[at..].trim_start_matches(['<', '>']);
    match target {
        "&2" => command.to_stderr = true,
        "" => {
            while letters.next_if(|letter| letter.is_whitespace() && *letter != '\n').is_some() {}
            _ = self::word(letters);
        }
        _ => {}
    }
}

struct Word {
    text: String,
    quoted: bool,
}

fn word(letters: &mut Peekable<Chars<'_>>) -> Word {
    let mut text = String::new();
    let mut quoted = false;
    while let Some(letter) = letters.peek().copied() {
        match letter {
            '\'' => {
                letters.next();
                quoted = true;
                text.extend(letters.by_ref().take_while(|letter| *letter != '\''));
            }
            '"' => {
                letters.next();
                quoted = true;
                double_quoted(letters, &mut text);
            }
            '\\' => {
                letters.next();
                quoted = true;
                text.extend(letters.next().filter(|letter| *letter != '\n'));
            }
            '&' if text.ends_with(['<', '>']) => {
                letters.next();
                text.push(letter);
            }
            ';' | '&' | '|' => break,
            letter if letter.is_whitespace() => break,
            letter => {
                letters.next();
                text.push(letter);
            }
        }
    }
    Word { text, quoted }
}

fn double_quoted(letters: &mut Peekable<Chars<'_>>, text: &mut String) {
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                Some(escaped @ ('"' | '\\' | '$' | '`')) => text.push(escaped),
                Some('\n') | None => {}
                Some(other) => text.extend(['\\', other]),
            },
            letter => text.push(letter),
        }
    }
}
