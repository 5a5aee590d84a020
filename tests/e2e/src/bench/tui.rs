//! How soon the wizard is there, how quickly it follows the keys, and what it takes when it has
//! nothing to do.

use std::fs;
use std::io::Read;
use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::bail;
use portable_pty::Child;
use portable_pty::CommandBuilder;
use portable_pty::MasterPty;
use portable_pty::PtySize;
use portable_pty::native_pty_system;
use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::sim::Fault;
use pve_sim::sim::FaultAnswer;
use pve_sim::world::Volume;
use tempfile::TempDir;

use super::Figure;
use super::memory_mib;
use super::milliseconds;
use crate::programs::program;
use crate::wizard;

const STARTS: usize = 9;
const IMAGES: usize = 2000;
const KEYS: usize = 300;
/// What a call takes in the time until the first screen can be used.
const CALL: Duration = Duration::from_millis(50);
const IDLE: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(20);

const ENTER: &str = "\r";
const DOWN: &str = "\x1b[B";
const PAGE_DOWN: &str = "\x1b[6~";

/// Measures all of it.
pub async fn measure() -> anyhow::Result<Vec<Figure>> {
    let sim = wizard::cluster(Config::default()).await?;
    sim.change(|world| {
        for number in 0..IMAGES {
            world.volumes.push(Volume {
                storage: "cephfs".to_owned(),
                node: None,
                name: format!("iso/image-{number:04}.iso"),
                content: "iso".to_owned(),
                format: "iso".to_owned(),
                size: 1 << 30,
                vmid: None,
                imported_from: None,
            });
        }
    });
    let delay = u64::try_from(CALL.as_millis())?;
    sim.faults().add(Fault { delay, ..Fault::always("^(GET|POST) /", FaultAnswer::Pass) });
    tokio::task::block_in_place(|| on(&sim))
}

fn on(sim: &Sim) -> anyhow::Result<Vec<Figure>> {
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let begun = Instant::now();
        let mut terminal = Terminal::start(&[])?;
        terminal.until("[ Log in ]")?;
        // Its end is not measured.
        starts.push(milliseconds(begun.elapsed()));
    }
    starts.sort_by(f64::total_cmp);

    let url = sim.https_url().context("the simulated cluster does not serve its API")?;
    let mut terminal = Terminal::start(&["--server", &url])?;
    terminal.until("SHA-256 fingerprint")?;
    terminal.press(&format!("{DOWN}{DOWN}{ENTER}"))?;
    terminal.until("pam (the node's own accounts)")?;
    terminal.press(&format!("root{ENTER}simulated"))?;
    terminal.until("*********")?;
    let begun = Instant::now();
    terminal.press(ENTER)?;
    terminal.until("VM ID                  100")?;
    // The first one is the ticket's.
    let round_trips = begun.elapsed().as_secs_f64() / CALL.as_secs_f64() - 1.0;

    terminal.press(PAGE_DOWN)?;
    terminal.until("x86_64-linux")?;
    terminal.press(&format!("{DOWN}{DOWN}{ENTER}"))?;
    terminal.until(&format!("of {}", IMAGES + 2))?;
    terminal.settle();
    let mut keys = Vec::new();
    for _ in 0..KEYS {
        let begun = Instant::now();
        terminal.press(DOWN)?;
        terminal.hear()?;
        keys.push(milliseconds(begun.elapsed()));
        terminal.settle();
    }
    keys.sort_by(f64::total_cmp);

    let process = terminal.child.process_id().context("the wizard has no process id")?;
    let before = switches(process)?;
    let redrawn = terminal.output.recv_timeout(IDLE).is_ok();
    if redrawn {
        bail!("the wizard drew something without a reason");
    }
    let wakeups = f64::from(switches(process)? - before) / IDLE.as_secs_f64();
    let figure = |name, value, unit, goal| Figure { name, value, unit, goal };
    Ok(vec![
        figure("tui_first_frame_ms", starts[STARTS / 2], "ms", "<= 30"),
        figure("tui_usable_round_trips", round_trips, "round trips", "<= 2"),
        figure("tui_key_p99_ms", keys[KEYS * 99 / 100], "ms", "<= 5"),
        figure("tui_rss_mib", memory_mib(process, "VmRSS")?, "MiB", "<= 25"),
        figure("tui_idle_wakeups_per_s", wakeups, "1/s", "<= 0.2"),
    ])
}

/// How often the threads of a process were woken up so far.
fn switches(process: u32) -> anyhow::Result<u32> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += line.context("there is no count")?.trim().parse::<u32>()?;
    }
    Ok(sum)
}

/// The wizard in a terminal.
struct Terminal {
    screen: vt100::Parser,
    output: mpsc::Receiver<Vec<u8>>,
    keyboard: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    _master: Box<dyn MasterPty + Send>,
    _home: TempDir,
}

impl Terminal {
    fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size)?;
        let mut command = CommandBuilder::new(program("pve-tui")?);
        command.args(arguments);
        command.env_clear();
        command.env("TERM", "xterm-256color");
        command.env("HOME", home.path());
        let child = pair.slave.spawn_command(command)?;
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader()?;
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            screen: vt100::Parser::default(),
            output,
            keyboard: pair.master.take_writer()?,
            child,
            _master: pair.master,
            _home: home,
        })
    }

    fn press(&mut self, keys: &str) -> anyhow::Result<()> {
        self.keyboard.write_all(keys.as_bytes())?;
        Ok(self.keyboard.flush()?)
    }

    /// Waits for the next thing that is drawn.
    fn hear(&mut self) -> anyhow::Result<()> {
        let bytes = self.output.recv_timeout(LIMIT).context("nothing is drawn")?;
        self.screen.process(&bytes);
        Ok(())
    }

    fn until(&mut self, text: &str) -> anyhow::Result<()> {
        while !self.screen.screen().contents().contains(text) {
            self.hear().with_context(|| {
                format!("there is no '{text}' in\n{}", self.screen.screen().contents())
            })?;
        }
        Ok(())
    }

    /// Reads what else was drawn, until nothing comes any more.
    fn settle(&mut self) {
        while let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(20)) {
            self.screen.process(&bytes);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
