//! A thousand readers of one job: how late an event arrives, and what it costs the server.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use anyhow::Context;
use anyhow::ensure;
use pve_images::Cache;
use pve_images::CacheSettings;
use pve_images::Catalogue;
use pve_images::Head;
use pve_provision::Kind;
use pve_provision::Step;
use pve_provision::install::Installer;
use pve_provision::install::Limits;
use pve_provision::install::Settings;
use pve_provision::jobs::Jobs;
use pve_server::Access;
use pve_server::Allowed;
use pve_server::App;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::Figure;
use super::download::start;
use super::memory_mib;

const READERS: usize = 1000;
const EVENTS: usize = 10_000;
/// 100 events a second.
const PACE: Duration = Duration::from_millis(10);
/// The readers connect before the first event.
const HEAD_START: Duration = Duration::from_secs(3);
/// The mark before an event's text.
const MARK: &[u8] = b"[*] ";
/// The digits of nanoseconds since 1970.
const DIGITS: usize = 19;

/// How often each delay, in milliseconds, was seen; the last place is for all that are longer.
struct Delays(Mutex<Vec<u64>>);

impl Delays {
    fn add(&self, delays: &[usize]) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for delay in delays {
            let place = (*delay).min(counts.len() - 1);
            counts[place] += 1;
        }
    }

    fn total(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().sum()
    }

    fn p99(&self) -> usize {
        let wanted = self.total() * 99 / 100;
        let mut seen = 0;
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .iter()
            .position(|count| {
                seen += count;
                seen >= wanted
            })
            .unwrap_or(counts.len())
    }
}

/// Measures both; `own` is the program whose other role is used.
pub async fn measure(own: &Path) -> anyhow::Result<Vec<Figure>> {
    let directory = tempfile::tempdir()?;
    let (mut child, line) = start(Command::new(own).arg("one-job").arg(directory.path()))?;
    let result = read_all(&line, child.id()).await;
    child.kill()?;
    child.wait()?;
    result
}

async fn read_all(line: &str, server: u32) -> anyhow::Result<Vec<Figure>> {
    let (address, job) = line.split_once(' ').context("no address and job")?;
    let delays = Arc::new(Delays(Mutex::new(vec![0; 10_000])));
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        readers.spawn(read(address.to_owned(), job.to_owned(), Arc::clone(&delays)));
    }
    while let Some(ended) = readers.join_next().await {
        let events = ended??;
        ensure!(events == EVENTS, "a reader has got {events} of {EVENTS} events");
    }
    let rss = memory_mib(server, "VmHWM")?;
    #[expect(clippy::cast_precision_loss, reason = "milliseconds are few")]
    let p99 = delays.p99() as f64;
    Ok(vec![
        Figure { name: "sse_fanout_p99_ms", value: p99, unit: "ms", goal: "<= 100" },
        Figure { name: "sse_fanout_rss_mib", value: rss, unit: "MiB", goal: "<= 64" },
    ])
}

/// Reads a job to its end and counts its events.
async fn read(address: String, job: String, delays: Arc<Delays>) -> anyhow::Result<usize> {
    let mut stream = TcpStream::connect(&address).await?;
    let request = format!("GET /api/jobs/{job}/events HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut pending = Vec::new();
    let mut events = 0;
    while stream.read_buf(&mut pending).await? > 0 {
        let now = nanoseconds();
        let mut found = Vec::new();
        let mut rest = &pending[..];
        while let Some(at) = rest.windows(MARK.len()).position(|bytes| bytes == MARK) {
            let text = &rest[at + MARK.len()..];
            if text.len() < DIGITS {
                rest = &rest[at..];
                break;
            }
            let sent: u64 = std::str::from_utf8(&text[..DIGITS])?.parse()?;
            found.push(usize::try_from(now.saturating_sub(sent) / 1_000_000)?);
            rest = &text[DIGITS..];
        }
        events += found.len();
        delays.add(&found);
        // A mark that is cut in two begins in the last bytes, or the rest begins with it.
        let keep = if rest.starts_with(MARK) { rest.len() } else { rest.len().min(MARK.len() - 1) };
        pending.drain(..pending.len() - keep);
    }
    Ok(events)
}

fn nanoseconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// The role of the server: one job that says the time, again and again.
pub async fn one_job(directory: &Path, ready: impl FnOnce(&str)) -> anyhow::Result<()> {
    let jobs = Jobs::open(&directory.join("state"))?;
    let images =
        CacheSettings { directory: directory.to_owned(), head: Head::Required, verify: true };
    let installer =
        Installer::new(settings(directory)?, Catalogue::builtin(), Cache::new(images)?)?;
    let access = Access {
        allowed: Allowed::All,
        trusted_proxies: Vec::new(),
        token: None,
        host_names: std::collections::BTreeSet::new(),
    };
    let listener = pve_server::bind("127.0.0.1:0".parse()?).await?;
    let job = jobs.start(serde_json::Value::Null).await?;
    ready(&format!("{} {}", listener.local_addr()?, job.id()));
    let app = App::new(access, jobs, installer);
    tokio::spawn(async move {
        tokio::time::sleep(HEAD_START).await;
        let mut pace = tokio::time::interval(PACE);
        for _ in 0..EVENTS {
            pace.tick().await;
            job.report(Step::SshInitialization, Kind::Started(nanoseconds().to_string())).await;
        }
        job.end().await;
    });
    let (_sender, stop) = tokio::sync::mpsc::channel(1);
    Ok(pve_server::serve(listener, app, stop).await?)
}

fn settings(directory: &Path) -> anyhow::Result<Settings> {
    Ok(Settings {
        main_node: "pve1".parse()?,
        gateway: "127.0.0.1".parse().map_err(anyhow::Error::msg)?,
        first_vmid: 100,
        last_vmid: 254,
        storage: "local".parse()?,
        limits: Limits::default(),
        root_password: None,
        nodes: std::collections::BTreeMap::new(),
        ssh_port: 22,
        nameserver: None,
        timezone: None,
        script_directory: None,
        pve_directory: directory.join("pve"),
        state_directory: directory.join("state"),
        home: directory.to_owned(),
        path: String::new(),
        installs_at_once: 4,
        patience: pve_provision::install::Patience::default(),
    })
}
