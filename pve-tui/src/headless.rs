//! The wizard without a screen: options in, lines or JSON out, and an exit code.

mod report;

use std::fs;
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
use report::Printer;

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
///
/// What cannot be printed changes nothing about how it ends.
pub async fn create(
    options: &Options,
    secrets: Secrets,
    files: &Files,
    ask: &mut impl Ask,
    out: &mut (impl Write + Send),
    err: &mut (impl Write + Send),
) -> Exit {
    let mut printer = Printer::new(options.json, out, err);
    let mut draft = match draft(options, files) {
        Ok(draft) => draft,
        Err(error) => return printer.stopped(&format!("{error:#}"), Exit::Input),
    };
    let client = match connect::connect(&options.place, secrets, files, ask).await {
        Ok(client) => client,
        Err(refusal @ Refusal::Input(_)) => {
            return printer.stopped(&refusal.to_string(), Exit::Input);
        }
        Err(refusal) => return printer.stopped(&refusal.to_string(), Exit::Refused),
    };
    let mut facts = Facts::new(client.account());
    let was_said = draft.said(Field::Vmid.into()).is_some();
    for number in 1.. {
        let (plan, end) =
            match attempt(options, &client, &draft, &mut facts, ask, &mut printer).await {
                Ok(ended) => ended,
                Err(exit) => return exit,
            };
        // Somebody was quicker; the number was the server's proposal, so another one will do.
        if let End::NothingMade(failure) = &end
            && matches!(failure.remedy, Remedy::TakeNumber(_))
            && !was_said
            && number < NUMBERS
        {
            draft.unsay(Field::Vmid);
            facts.forget(&Query::NextId);
            continue;
        }
        printer.end(&plan, &end);
        return exit(&end);
    }
    Exit::Refused
}

/// One plan carried out; or the exit where there is nothing to carry out.
async fn attempt<O: Write + Send, E: Write + Send>(
    options: &Options,
    client: &Client,
    draft: &Draft,
    facts: &mut Facts,
    ask: &mut impl Ask,
    printer: &mut Printer<'_, O, E>,
) -> Result<(Plan, End), Exit> {
    create::load_all(client, draft, facts).await;
    if let Fact::Failed(reason) = facts.nodes() {
        let text = format!("the server does not answer as it should: {reason}");
        return Err(printer.stopped(&text, Exit::Refused));
    }
    let answers = create::resolve(draft, facts);
    let plan = match Plan::new(&answers, facts) {
        Ok(plan) => plan,
        Err(problems) => {
            printer.problems(&answers, facts, &problems);
            return Err(Exit::Input);
        }
    };
    if options.dry_run {
        let privileges = match facts.permissions() {
            Fact::There(granted) => Some(Privileges::new(&plan, granted, &facts.account)),
            _ => None,
        };
        printer.dry_run(&plan, &answers, facts, privileges.as_ref());
        let lacks = privileges.is_some_and(|privileges| !privileges.missing.is_empty());
        return Err(if lacks { Exit::Refused } else { Exit::Made });
    }
    printer.notes(&answers, facts);
    if !options.yes {
        agreed(&answers, ask, printer)?;
    }
    let report = |event| printer.event(&event);
    let end = create::run(client, &plan, Stage::Create, &Patience::default(), report).await;
    Ok((plan, end))
}

/// Shows what will be made and asks; the exit where nobody agrees.
fn agreed<O: Write, E: Write>(
    answers: &Answers,
    ask: &mut impl Ask,
    printer: &mut Printer<'_, O, E>,
) -> Result<(), Exit> {
    if !ask.is_there() {
        let text = "nobody can be asked: add --yes to make it, or --dry-run to look";
        return Err(printer.stopped(text, Exit::Input));
    }
    printer.summary(answers);
    match ask.line("Create this VM? [y/N]") {
        Ok(answer) if ["y", "yes"].contains(&answer.to_ascii_lowercase().as_str()) => Ok(()),
        Ok(_) => Err(printer.stopped("not agreed to; nothing was made", Exit::Input)),
        Err(error) => {
            let text = format!("nobody could be asked: {error}; nothing was made");
            Err(printer.stopped(&text, Exit::Input))
        }
    }
}

fn exit(end: &End) -> Exit {
    match end {
        End::Made { .. } => Exit::Made,
        End::NothingMade(failure) if !failure.fields.is_empty() => Exit::Input,
        End::NothingMade(_) => Exit::Refused,
        End::WithoutConsole(_) | End::Incomplete(_) => Exit::Incomplete,
        End::Unknown { .. } => Exit::Unknown,
    }
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
