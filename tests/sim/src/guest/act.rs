//! Recognises what is asked of a guest. A command is text to be looked at, never something to run.
//!
//! [`recognise`] is the one place to adapt when the product asks differently.

use crate::ssh::Stream;
use crate::ssh::Unwrapped;

/// What a guest does in answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// `cloud-init status --wait`.
    CloudInitWait,
    /// `cloud-init status`, at once.
    CloudInitStatus {
        /// Whether `--long` was given.
        long: bool,
    },
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
    let Unwrapped { commands, announces } = Unwrapped::of(text);
    let weight = |act: &Act| match act {
        Act::Unknown(_) => 1,
        Act::CloudInitPresent => 2,
        Act::Nothing => 3,
        _ => 0,
    };
    // `min_by_key` keeps the first of equals.
    let act =
        commands.iter().filter_map(|argv| act_of(argv)).min_by_key(weight).unwrap_or(Act::Nothing);
    Recognised { act, announces }
}

fn act_of(argv: &[String]) -> Option<Act> {
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let (program, rest) = words.split_first()?;
    let act = match (program.rsplit('/').next().unwrap_or(program), rest) {
        ("cloud-init", ["status", options @ ..]) if options.contains(&"--wait") => {
            Act::CloudInitWait
        }
        ("cloud-init", ["status", options @ ..]) => {
            Act::CloudInitStatus { long: options.contains(&"--long") || options.contains(&"-l") }
        }
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

#[cfg(test)]
mod tests {
    use super::recognise;

    #[test]
    fn commands_are_recognised_however_they_are_wrapped() {
        let texts = [
            "cloud-init status --wait",
            "sudo -n cloud-init status --wait 2>&1",
            "timeout -k 5 600 cloud-init status --wait > /dev/null",
            "command -v cloud-init >/dev/null 2>&1 || exit 127; cloud-init status --wait",
            "command -v cloud-init",
            "cloud-init status --long",
            "cat /proc/sys/kernel/random/boot_id",
            "'cat' '/proc/sys/kernel/random/boot_id'",
            "LC_ALL=C cat < /dev/null /proc/sys/kernel/random/boot_id",
            r#"setsid --wait sh -c 'echo $$ >&2; exec "$@"' sh cat /proc/sys/kernel/random/boot_id"#,
            r#"setsid --wait sh -c echo\ \$\$\ \>\&2\;\ exec\ \"\$@\" sh sudo -n bash -s -- Etc/UTC"#,
            r#"sh -c "echo $$; exec cloud-init status --wait""#,
            "sudo -n bash -s",
            "bash -s -- 'a b' \"c'd\"",
            "env -u HOME TZ=Etc/UTC nice -n 5 bash",
            "sudo -n -u root /bin/sh -s",
            "kill -TERM -- -1234",
            "true",
            "",
            "# nothing",
            "echo $$ >&2",
            "rm -rf / ; reboot",
            "bash script.sh",
            "kill -TERM everybody",
        ];
        let table: String = texts
            .map(|text| {
                let recognised = recognise(text);
                format!("{text}\n    {:?} {:?}\n", recognised.act, recognised.announces)
            })
            .concat();
        insta::assert_snapshot!(table, @r#"
        cloud-init status --wait
            CloudInitWait None
        sudo -n cloud-init status --wait 2>&1
            CloudInitWait None
        timeout -k 5 600 cloud-init status --wait > /dev/null
            CloudInitWait None
        command -v cloud-init >/dev/null 2>&1 || exit 127; cloud-init status --wait
            CloudInitWait None
        command -v cloud-init
            CloudInitPresent None
        cloud-init status --long
            CloudInitStatus { long: true } None
        cat /proc/sys/kernel/random/boot_id
            BootId None
        'cat' '/proc/sys/kernel/random/boot_id'
            BootId None
        LC_ALL=C cat < /dev/null /proc/sys/kernel/random/boot_id
            BootId None
        setsid --wait sh -c 'echo $$ >&2; exec "$@"' sh cat /proc/sys/kernel/random/boot_id
            BootId Some(Err)
        setsid --wait sh -c echo\ \$\$\ \>\&2\;\ exec\ \"\$@\" sh sudo -n bash -s -- Etc/UTC
            Script(["Etc/UTC"]) Some(Err)
        sh -c "echo $$; exec cloud-init status --wait"
            CloudInitWait Some(Out)
        sudo -n bash -s
            Script([]) None
        bash -s -- 'a b' "c'd"
            Script(["a b", "c'd"]) None
        env -u HOME TZ=Etc/UTC nice -n 5 bash
            Script([]) None
        sudo -n -u root /bin/sh -s
            Script([]) None
        kill -TERM -- -1234
            Kill(1234) None
        true
            Nothing None

            Nothing None
        # nothing
            Nothing None
        echo $$ >&2
            Nothing Some(Err)
        rm -rf / ; reboot
            Unknown("rm -rf /") None
        bash script.sh
            Unknown("bash script.sh") None
        kill -TERM everybody
            Unknown("kill -TERM everybody") None
        "#);
    }
}
