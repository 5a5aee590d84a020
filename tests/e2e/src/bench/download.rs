//! A verified download of 1 GiB, against the same by `curl`, `sync` and `sha512sum`.

use std::fmt::Write as _;
use std::io::BufRead;
use std::io::BufReader;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::ensure;
use pve_images::Cache;
use pve_images::CacheSettings;
use pve_images::Head;
use pve_images::Image;
use sha2::Digest;
use sha2::Sha512;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;

use super::Figure;
use super::memory_mib;

const BLOCK: usize = 1 << 20;
const BLOCKS: usize = 1 << 10;
const FILE: &str = "bench.qcow2";

/// Measures throughput and memory; `own` is the program whose other roles are used.
pub fn measure(own: &Path) -> anyhow::Result<Vec<Figure>> {
    let directory = tempfile::tempdir()?;
    let (mut mirror, base) = start(Command::new(own).arg("mirror"))?;
    let result = compare(own, &base, directory.path());
    mirror.kill()?;
    mirror.wait()?;
    result
}

fn compare(own: &Path, base: &str, directory: &Path) -> anyhow::Result<Vec<Figure>> {
    let copy = directory.join("copy");
    let begun = Instant::now();
    run(Command::new("curl").args(["-sSf", "-o"]).arg(&copy).arg(format!("{base}/{FILE}")))?;
    run(Command::new("sync").arg(&copy))?;
    run(Command::new("sha512sum").arg(&copy).stdout(Stdio::null()))?;
    let theirs = begun.elapsed();
    std::fs::remove_file(&copy)?;

    let output = Command::new(own)
        .arg("fetch")
        .arg(base)
        .arg(directory)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "the download failed");
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [seconds, rss] = numbers[..] else { anyhow::bail!("not two numbers: {text}") };
    let ratio = theirs.as_secs_f64() / Duration::from_secs_f64(seconds).as_secs_f64();
    Ok(vec![
        Figure { name: "download", value: ratio, unit: "of curl, sync, sha512sum", goal: ">= 1" },
        Figure { name: "download_rss_mib", value: rss, unit: "MiB above idle", goal: "<= 16" },
    ])
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed, {status}");
    Ok(())
}

/// Starts a role and reads the first line that it prints.
pub(super) fn start(command: &mut Command) -> anyhow::Result<(Child, String)> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("there is no output")?).read_line(&mut line)?;
    Ok((child, line.trim().to_owned()))
}

/// The role that downloads: gives seconds, and MiB above idle.
pub async fn fetch(base: &str, directory: &Path) -> anyhow::Result<(f64, f64)> {
    let image = Image {
        os: "bench".to_owned(),
        version: "1".to_owned(),
        url: format!("{base}/{FILE}").parse()?,
        sums: Some(format!("{base}/SHA512SUMS").parse()?),
        user: "bench".to_owned(),
        cpu: None,
    };
    let settings =
        CacheSettings { directory: directory.to_owned(), head: Head::Required, verify: true };
    let cache = Cache::new(settings)?;
    let remote = cache.head(&image).await?;
    let own = std::process::id();
    let idle = memory_mib(own, "VmRSS")?;
    let begun = Instant::now();
    cache.download(&image, Some(&remote), |_| {}).await?;
    Ok((begun.elapsed().as_secs_f64(), memory_mib(own, "VmHWM")? - idle))
}

/// The role that serves the file and its checksum list from memory; tells its address when it is ready.
pub async fn mirror(ready: impl FnOnce(&str)) -> anyhow::Result<()> {
    let first = block(true);
    let other = block(false);
    let mut hash = Sha512::new();
    hash.update(&first);
    for _ in 1..BLOCKS {
        hash.update(&other);
    }
    let mut sum = String::new();
    for byte in hash.finalize() {
        write!(sum, "{byte:02x}")?;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    ready(&format!("http://{}", listener.local_addr()?));
    let shared = std::sync::Arc::new((first, other, format!("{sum}  {FILE}\n")));
    loop {
        let (stream, _) = listener.accept().await?;
        let shared = std::sync::Arc::clone(&shared);
        tokio::spawn(async move {
            // A client that leaves is no matter.
            let _ = serve(stream, &shared).await;
        });
    }
}

async fn serve(
    stream: TcpStream,
    (first, other, sums): &(Vec<u8>, Vec<u8>, String),
) -> std::io::Result<()> {
    let mut stream = tokio::io::BufReader::new(stream);
    let mut request = String::new();
    while stream.read_line(&mut request).await? > 2 {}
    let is_list = request.contains("SHA512SUMS");
    let length = if is_list { sums.len() } else { BLOCK * BLOCKS };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    if request.starts_with("HEAD") {
        return stream.shutdown().await;
    }
    if is_list {
        stream.write_all(sums.as_bytes()).await?;
    } else {
        stream.write_all(first).await?;
        for _ in 1..BLOCKS {
            stream.write_all(other).await?;
        }
    }
    stream.shutdown().await
}

/// A block of the file; the first one begins like a qcow2 image of 1 GiB.
fn block(is_first: bool) -> Vec<u8> {
    let mut block: Vec<u8> =
        (0..BLOCK).map(|place| place.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    if is_first {
        block[..104].fill(0);
        block[..4].copy_from_slice(b"QFI\xfb");
        block[7] = 2;
        block[23] = 16;
        block[24..32].copy_from_slice(&(1_u64 << 30).to_be_bytes());
    }
    block
}
