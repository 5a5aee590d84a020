//! As much of a shell as the recorded `bash -c` rows need to be replayed.
//!
//! Statements between semicolons; `qm`, `echo`, `cat`, `grep`, `ls` and `md5sum` over the
//! simulated `/etc/pve` and storages; `2>&1`, `>/dev/null` and `| tail -1`.

use pve_sim::call::Line;
use pve_sim::call::Step;
use pve_sim::call::Stream;
use pve_sim::cli;
use pve_sim::cli::Invocation;
use pve_sim::cli::Next;
use pve_sim::world::World;

/// What a command printed, and its exit code.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: i32,
}

impl Printed {
    fn take(&mut self, lines: Vec<Line>) {
        for line in lines {
            let stream = match line.stream {
                Stream::Out => &mut self.stdout,
                Stream::Err => &mut self.stderr,
            };
            stream.push_str(&line.text);
            stream.push('\n');
        }
    }
}

/// Runs one command to its end; what it asks for outside the world is left undone.
pub(crate) fn run(world: &mut World, node: &str, words: &[String]) -> Printed {
    let invocation = Invocation {
        node: node.to_owned(),
        program: words[0].clone(),
        arguments: words[1..].to_vec(),
        directory: "/root".to_owned(),
    };
    world.now += 1;
    let begun = cli::begin(world, &invocation);
    let mut printed = Printed::default();
    printed.take(begun.lines);
    match begun.next {
        Next::Exit(code) => printed.exit = code,
        Next::Work(mut worker, ending) => loop {
            match worker.run(world) {
                Step::Ran(output) => printed.take(output.lines),
                Step::Ended(output, result) => {
                    printed.take(output.lines);
                    let (lines, code) = cli::ended(&ending, result);
                    printed.take(lines);
                    printed.exit = code;
                    break;
                }
            }
        },
    }
    printed
}

/// Runs a script.
pub(crate) fn script(world: &mut World, node: &str, text: &str) -> Printed {
    let mut all = Printed::default();
    for statement in text.split(';').map(str::trim) {
        let (command, filter) = match statement.split_once(" | ") {
            Some((command, filter)) => (command, Some(filter)),
            None => (statement, None),
        };
        let mut words = split(command);
        let mut one = Printed::default();
        let quiet = take(&mut words, ">/dev/null");
        let joined = take(&mut words, "2>&1");
        match words[0].as_str() {
            "qm" | "pvesm" => one = run(world, node, &words),
            "echo" => one.stdout = format!("rc={}\n", all.exit),
            other => files(world, other, &words[1..], &mut one),
        }
        if quiet {
            one.stdout.clear();
        }
        if joined {
            let text = std::mem::take(&mut one.stderr);
            one.stdout.push_str(&text);
        }
        if filter == Some("tail -1") {
            one.stdout =
                one.stdout.lines().last().map(|line| format!("{line}\n")).unwrap_or_default();
        }
        all.stdout.push_str(&one.stdout);
        all.stderr.push_str(&one.stderr);
        all.exit = one.exit;
    }
    all
}

fn take(words: &mut Vec<String>, wanted: &str) -> bool {
    let place = words.iter().position(|word| word == wanted);
    place.map(|place| words.remove(place)).is_some()
}

fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut quoted = false;
    let mut word = String::new();
    for letter in text.chars() {
        match letter {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            other => word.push(other),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn files(world: &World, program: &str, words: &[String], printed: &mut Printed) {
    let etc = world.etc_pve();
    let read = |path: &str| {
        let path = path.strip_prefix("/etc/pve/").unwrap_or(path);
        etc.get(&std::path::Path::new("nodes").join(&world.main_node).join(path)).cloned()
    };
    match (program, words) {
        ("cat", [path]) => printed.stdout = read(path).unwrap_or_default(),
        ("md5sum", [path]) => printed.stdout = format!("{}  {path}\n", "0".repeat(32)),
        ("grep", [pattern, path]) => {
            let text = read(path).unwrap_or_default();
            let wanted = pattern.trim_start_matches('^');
            for line in text.lines().filter(|line| line.contains(wanted)) {
                printed.stdout.push_str(line);
                printed.stdout.push('\n');
            }
            printed.exit = i32::from(printed.stdout.is_empty());
        }
        ("ls", paths) => {
            for path in paths {
                list(world, &read, path, printed);
            }
        }
        _ => panic!("the test's shell does not know {program} {words:?}"),
    }
}

/// The files of a VM's directory below `/var/lib/vz/images`.
fn list(world: &World, read: &dyn Fn(&str) -> Option<String>, path: &str, printed: &mut Printed) {
    let folder = path.strip_prefix("/var/lib/vz/images/").unwrap_or_default();
    let mut names: Vec<&str> = world
        .volumes
        .iter()
        .filter(|volume| volume.storage == "local" && !folder.is_empty())
        .filter_map(|volume| volume.name.strip_prefix(folder)?.strip_prefix('/'))
        .collect();
    names.sort_unstable();
    if names.is_empty() && read(path).is_none() {
        let end = "': No such file or directory\n";
        printed.stderr.push_str(&["ls: cannot access '", path, end].concat());
        printed.exit = 2;
    }
    for name in names {
        printed.stdout.push_str(name);
        printed.stdout.push('\n');
    }
}
