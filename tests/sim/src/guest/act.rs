//! Recognises what is asked of a guest. A command is text to be looked at, never something to run.
//!
//! [`recognise`] is the one place to adapt when the product asks differently.

use crate::guest::behaviour::Stream;
use crate::guest::words::commands;

/// What a guest does in answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// `cloud-init status --wait`.
    CloudInitWait,
    /// `cloud-init status`, with or without `--long`.
    CloudInitStatus,
    /// `command -v cloud-init`: is it there?
    CloudInitPresent,
    /// Prints the id of this boot.
    BootId,
    /// A script on standard input, with its arguments.
    Script(Vec<String>),
    /// Ends another command, by the process id that it has announced.
    Kill(u32),
    /// Succeeds without a word.
    Nothing,
    /// Somebody asked for a shell.
    Shell,
    /// Not known: exit code 127.
    Unknown(String),
}

/// A command as understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recognised {
    /// What to do.
    pub act: Act,
    /// The stream on which the command's process id is announced first.
    pub announces: Option<Stream>,
}

/// From a command's text to what the guest does.
///
/// Wrappers (`sudo`, `setsid`, `env`, `timeout`, `sh -c` and the like) are looked through. Of several
/// commands in one text the first that means something counts.
pub fn recognise(text: &str) -> Recognised {
    let mut announces = None;
    let mut found = Vec::new();
    look_through(text, &mut announces, &mut found);
    let weight = |act: &Act| match act {
        Act::Unknown(_) => 1,
        Act::CloudInitPresent => 2,
        Act::Nothing => 3,
        _ => 0,
    };
    // `min_by_key` keeps the first of equals.
    let act = found.into_iter().min_by_key(weight).unwrap_or(Act::Nothing);
    Recognised { act, announces }
}

fn look_through(text: &str, announces: &mut Option<Stream>, found: &mut Vec<Act>) {
    for command in commands(text) {
        let argv = unwrap_words(&command.words);
        let Some((script, arguments)) = shell_command(argv) else {
            if argv.iter().any(|word| word.contains("$$")) {
                *announces = Some(if command.to_stderr { Stream::Err } else { Stream::Out });
            } else {
                found.extend(act_of(argv));
            }
            continue;
        };
        if !script.contains("\"$@\"") {
            look_through(script, announces, found);
            continue;
        }
        look_through(script, announces, &mut Vec::new());
        let argv = unwrap_words(arguments.get(1..).unwrap_or_default());
        match shell_command(argv) {
            Some((script, _)) => look_through(script, announces, found),
            None => found.extend(act_of(argv)),
        }
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

fn act_of(argv: &[String]) -> Option<Act> {
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let (program, rest) = words.split_first()?;
    let act = match (program.rsplit('/').next().unwrap_or(program), rest) {
        ("cloud-init", ["status", options @ ..]) if options.contains(&"--wait") => {
            Act::CloudInitWait
        }
        ("cloud-init", ["status", ..]) => Act::CloudInitStatus,
        ("command", ["-v", "cloud-init"]) | ("which", ["cloud-init"]) => Act::CloudInitPresent,
        ("cat", ["/proc/sys/kernel/random/boot_id"]) => Act::BootId,
        ("kill", [.., process]) => match process.trim_start_matches('-').parse() {
            Ok(process) => Act::Kill(process),
            Err(_) => Act::Unknown(argv.join(" ")),
        },
        ("bash" | "sh" | "dash", options) if options.iter().all(|word| word.starts_with('-')) => {
            Act::Script(Vec::new())
        }
        ("bash" | "sh" | "dash", options)
            if options.iter().any(|word| *word == "-s" || *word == "-es") =>
        {
            let arguments = argv.iter().skip(1).skip_while(|word| word.starts_with('-'));
            Act::Script(arguments.cloned().collect())
        }
        (
            "true" | ":" | "exit" | "test" | "[" | "command" | "set" | "export" | "umask" | "cd",
            _,
        ) => Act::Nothing,
        _ => Act::Unknown(argv.join(" ")),
    };
    Some(act)
}

/// Drops what stands before the true command.
fn unwrap_words(mut words: &[String]) -> &[String] {
    loop {
        let Some((program, rest)) = words.split_first() else { return words };
        let options = |with_value: &[&str]| skip_options(rest, with_value);
        let inner = match program.rsplit('/').next().unwrap_or(program) {
            "sudo" => options(&["-u", "-g", "-p"]),
            "setsid" | "exec" | "nohup" | "time" | "then" | "else" | "do" | "if" | "!" | "{"
            | "(" => options(&[]),
            "nice" | "ionice" => options(&["-n", "-c"]),
            "stdbuf" => options(&["-i", "-o", "-e"]),
            "env" => options(&["-u"]),
            "timeout" => options(&["-k", "-s"]).get(1..).unwrap_or_default(),
            assignment if is_assignment(assignment) => rest,
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
