//! How soon the server answers, and how much memory it takes when it has nothing to do.

use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;

use super::Figure;
use super::memory_mib;
use super::milliseconds;
use crate::programs::program;

/// Starts are short; the median of some says more than one.
const STARTS: usize = 9;
const LIMIT: Duration = Duration::from_secs(5);

/// Measures both.
pub fn measure() -> anyhow::Result<Vec<Figure>> {
    let mut times = Vec::new();
    let mut memory = Vec::new();
    for _ in 0..STARTS {
        let (time, mib) = start()?;
        times.push(milliseconds(time));
        memory.push(mib);
    }
    Ok(vec![
        Figure { name: "server_start_ms", value: median(times), unit: "ms", goal: "<= 20" },
        Figure { name: "server_idle_rss_mib", value: median(memory), unit: "MiB", goal: "<= 12" },
    ])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn start() -> anyhow::Result<(Duration, f64)> {
    let directory = tempfile::tempdir()?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let below = |name: &str| directory.path().join(name);
    let begun = Instant::now();
    let mut child = Command::new(program("pve-server")?)
        .env_clear()
        .env("PATH", "/nonexistent")
        .env("HOME", directory.path())
        .env("STATE_DIR", below("state"))
        .env("PVE_DIR", below("pve"))
        .env("MAIN_NODE", "pve1")
        .env("GATEWAY", "127.0.0.1")
        .env("ASSIGN_STORAGE", "local")
        .env("LISTEN", address.to_string())
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let answered = first_answer(address, begun);
    let memory = memory_mib(child.id(), "VmRSS");
    child.kill()?;
    child.wait()?;
    Ok((answered?, memory?))
}

fn first_answer(address: SocketAddr, begun: Instant) -> anyhow::Result<Duration> {
    while begun.elapsed() < LIMIT {
        if let Ok(mut stream) = TcpStream::connect(address) {
            stream.write_all(b"GET /api/health HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            if answer.ends_with("ok") {
                return Ok(begun.elapsed());
            }
        }
        std::hint::spin_loop();
    }
    bail!("pve-server has not answered")
}
