//! The wizard without a screen: options in, lines or JSON out, and an exit code.

mod report;

use std::fs;
use std::io;
use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use anyhow::Result;
use pve_api::Client;
use pve_provision::create;
use pve_provision::create::Answers;
use pve_provision::create::Draft;
use pve_provision::create::End;
use pve_provision::create::Fact;
use pve_provision::create::Facts;
use pve_provision::create::Field;
use pve_provision::create::Key;
use pve_provision::create::Patience;
use pve_provision::create::Plan;
use pve_provision::create::Privileges;
use pve_provision::create::Query;
use pve_provision::create::Remedy;
use pve_provision::create::Stage;
use pve_provision::create::Template;

use crate::connect;
use crate::connect::Refusal;
use crate::connect::Secrets;
use crate::connect::Where;
use crate::profile::Files;
use crate::prompt::Ask;

/// What `pve-tui create` is told.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Options {
    /// Where the server is and who asks.
    #[command(flatten)]
    pub place: Where,
    /// A template: default, server, the name of one of yours, or a file
    #[arg(long, default_value = "default")]
    pub template: String,
    /// Says something: general.name=web, disks.1.size=100, disk.storage=fast
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Shows what would be requested and which privileges are missing, and writes nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Prints JSON, one document a line
    #[arg(long)]
    pub json: bool,
    /// Does not ask before it is made
    #[arg(long)]
    pub yes: bool,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Made, or with `--dry-run`: it could be made.
    Made,
    /// Something in the input is wrong; nothing was made.
    Input,
    /// Refused, not permitted, or not reached; nothing was made.
    Refused,
    /// Made, but the console, the start or HA failed.
    Incomplete,
    /// It could not be found out whether it was made.
    Unknown,
}

impl Exit {
    /// The code of the process.
    pub const fn code(self) -> u8 {
        match self {
            Self::Made => 0,
            Self::Input => 2,
            Self::Refused => 3,
            Self::Incomplete => 4,
            Self::Unknown => 5,
        }
    }
}

/// So many times another number is taken when the server's own was taken meanwhile.
const NUMBERS: usize = 20;

/// Makes a virtual machine, or says what would be made.
pub async fn create(
    options: &Options,
    secrets: Secrets,
    files: &Files,
    ask: &mut impl Ask,
    out: &mut (impl Write + Send),
    err: &mut (impl Write + Send),
) -> Exit {
    let mut draft = match draft(options, files) {
        Ok(draft) => draft,
        Err(error) => return complain(err, &format!("{error:#}"), Exit::Input),
    };
    let client = match connect::connect(&options.place, secrets, files, ask).await {
        Ok(client) => client,
        Err(refusal @ Refusal::Input(_)) => {
            return complain(err, &refusal.to_string(), Exit::Input);
        }
        Err(refusal) => return complain(err, &refusal.to_string(), Exit::Refused),
    };
    let mut facts = Facts::new(client.account());
    for tries in 1.. {
        match attempt(options, &client, &draft, &mut facts, ask, out, err).await {
            Ok(Attempt::Exit(exit)) => return exit,
            // Somebody was quicker; the number was the server's proposal, so another one will do.
            Ok(Attempt::Taken) if tries < NUMBERS => {
                draft.unsay(Field::Vmid);
                facts.forget(&Query::NextId);
            }
            Ok(Attempt::Taken) => return Exit::Refused,
            Err(error) => return complain(err, &format!("cannot print: {error}"), Exit::Unknown),
        }
    }
    Exit::Refused
}

enum Attempt {
    Exit(Exit),
    Taken,
}

async fn attempt(
    options: &Options,
    client: &Client,
    draft: &Draft,
    facts: &mut Facts,
    ask: &mut impl Ask,
    out: &mut (impl Write + Send),
    err: &mut (impl Write + Send),
) -> io::Result<Attempt> {
    create::load_all(client, draft, facts).await;
    if let Fact::Failed(reason) = facts.nodes() {
        writeln!(err, "the server does not answer as it should: {reason}")?;
        return Ok(Attempt::Exit(Exit::Refused));
    }
    let answers = create::resolve(draft, facts);
    let plan = match Plan::new(&answers, facts) {
        Ok(plan) => plan,
        Err(problems) => {
            report::problems(options.json, facts, &problems, out, err)?;
            return Ok(Attempt::Exit(Exit::Input));
        }
    };
    let privileges = match facts.permissions() {
        Fact::There(granted) => Privileges::new(&plan, granted, &facts.account),
        _ => Privileges::default(),
    };
    if options.dry_run {
        report::dry_run(options.json, &plan, &answers, &privileges, out)?;
        let missing = !privileges.missing.is_empty();
        return Ok(Attempt::Exit(if missing { Exit::Refused } else { Exit::Made }));
    }
    if !agreed(options, &answers, ask, err)? {
        return Ok(Attempt::Exit(Exit::Input));
    }
    let mut written = Ok(());
    let end = create::run(client, &plan, Stage::Create, &Patience::default(), |event| {
        let result = report::event(options.json, &event, out);
        if written.is_ok() {
            written = result;
        }
    })
    .await;
    let was_said = draft.said(Field::Vmid.into()).is_some();
    if let End::NothingMade(failure) = &end
        && matches!(failure.remedy, Remedy::TakeNumber(Some(_)))
        && !was_said
    {
        return Ok(Attempt::Taken);
    }
    report::end(options.json, &plan, &end, out, err)?;
    // What happened counts for more than a reader that has gone away.
    drop(written);
    Ok(Attempt::Exit(match end {
        End::Made { .. } => Exit::Made,
        End::NothingMade(failure) if !failure.fields.is_empty() => Exit::Input,
        End::NothingMade(_) => Exit::Refused,
        End::WithoutConsole(_) | End::Incomplete(_) => Exit::Incomplete,
        End::Unknown { .. } => Exit::Unknown,
    }))
}

/// Shows what will be made and asks, unless told not to.
fn agreed(
    options: &Options,
    answers: &Answers,
    ask: &mut impl Ask,
    err: &mut impl Write,
) -> io::Result<bool> {
    report::notes(answers, err)?;
    if options.yes {
        return Ok(true);
    }
    if !ask.is_there() {
        writeln!(err, "nobody can be asked: add --yes to make it, or --dry-run to look")?;
        return Ok(false);
    }
    report::summary(answers, err)?;
    let answer = ask.line("Create this VM? [y/N]")?;
    Ok(["y", "yes"].contains(&answer.to_ascii_lowercase().as_str()))
}

fn complain(err: &mut impl Write, text: &str, exit: Exit) -> Exit {
    // Where even this cannot be printed, the code alone has to do.
    let _ = writeln!(err, "{text}");
    exit
}

/// The template and everything that was said.
fn draft(options: &Options, files: &Files) -> Result<Draft> {
    let mut draft = Draft::new(template(&options.template, &files.templates())?);
    for assignment in &options.set {
        draft.set(assignment)?;
        let key = assignment.split('=').next().unwrap_or_default().trim().parse::<Key>();
        if key.is_ok_and(|key| key.field == Field::Node) {
            // A node named by its full host name would be taken for another host.
            let node = draft.said(Field::Node.into()).map(ToString::to_string).unwrap_or_default();
            node.parse::<pve_api::NodeName>()?;
        }
    }
    Ok(draft)
}

/// A template by its name, or from a file.
pub fn template(name: &str, directory: &Path) -> Result<Template> {
    if let Some(builtin) = Template::builtin().into_iter().find(|known| known.name() == name) {
        return Ok(builtin);
    }
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|extension| extension == "toml");
    let path = if is_file { path.to_owned() } else { directory.join(format!("{name}.toml")) };
    let text = fs::read_to_string(&path)
        .with_context(|| format!("no template '{name}': cannot read {}", path.display()))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Template::parse(&stem, &text)?)
}
