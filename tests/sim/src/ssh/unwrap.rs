//! Looks through what a command is wrapped in.

use crate::ssh::Stream;
use crate::ssh::words::commands;

/// The commands in a text, without their wrappers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unwrapped {
    /// Their words, command by command.
    pub(crate) commands: Vec<Vec<String>>,
    /// The stream on which the process id is to be announced first: a wrapper says `echo $$`.
    pub(crate) announces: Option<Stream>,
}

impl Unwrapped {
    /// Looks through `sudo`, `setsid`, `env`, `timeout`, `sh -c` and the like.
    pub(crate) fn of(text: &str) -> Self {
        let mut unwrapped = Self::default();
        unwrapped.look_through(text);
        unwrapped
    }

    fn look_through(&mut self, text: &str) {
        for command in commands(text) {
            let argv = unwrap_words(&command.words);
            if shell_command(argv).is_some() {
                self.look_into_shell(argv);
            } else if argv.iter().any(|word| word.contains("$$")) {
                self.announces = Some(if command.to_stderr { Stream::Err } else { Stream::Out });
            } else if !argv.is_empty() {
                self.commands.push(argv.to_vec());
            }
        }
    }

    fn look_into_shell(&mut self, argv: &[String]) {
        let Some((script, arguments)) = shell_command(argv) else {
            self.commands.push(argv.to_vec());
            return;
        };
        if !script.contains("\"$@\"") {
            self.look_through(script);
            return;
        }
        // What the wrapper says itself counts only for the announcement.
        self.announces = Self::of(script).announces.or(self.announces);
        // The first argument is the name that the script goes by.
        self.look_into_shell(unwrap_words(arguments.get(1..).unwrap_or_default()));
    }
}

/// `sh -c SCRIPT ARGUMENTS…`: the script and what follows it.
fn shell_command(argv: &[String]) -> Option<(&str, &[String])> {
    let (program, rest) = argv.split_first()?;
    if !is_shell(program) {
        return None;
    }
    let at = rest
        .iter()
        .position(|word| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c'))?;
    let (script, arguments) = rest.get(at + 1..)?.split_first()?;
    Some((script, arguments))
}

fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("sh" | "bash" | "dash"))
}

/// Drops what stands before the true command.
fn unwrap_words(mut words: &[String]) -> &[String] {
    loop {
        let Some((program, rest)) = words.split_first() else { return words };
        if is_assignment(program) {
            words = rest;
            continue;
        }
        let options = |with_value: &[&str]| skip_options(rest, with_value);
        let inner = match program.rsplit('/').next().unwrap_or(program) {
            "sudo" => options(&["-u", "-g", "-p"]),
            "setsid" | "exec" | "nohup" | "time" | "then" | "else" | "do" | "if" | "!" | "{"
            | "(" => options(&[]),
            "nice" | "ionice" => options(&["-n", "-c"]),
            "stdbuf" => options(&["-i", "-o", "-e"]),
            "env" => options(&["-u"]),
            "timeout" => options(&["-k", "-s"]).get(1..).unwrap_or_default(),
            _ => return words,
        };
        words = inner;
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    })
}

fn skip_options<'a>(mut words: &'a [String], with_value: &[&str]) -> &'a [String] {
    while let Some((option, rest)) = words.split_first() {
        if !option.starts_with('-') {
            break;
        }
        words = if with_value.contains(&option.as_str()) {
            rest.get(1..).unwrap_or_default()
        } else {
            rest
        };
        if option == "--" {
            break;
        }
    }
    words
}
