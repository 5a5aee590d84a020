//! The API client: decoding a large cluster, many calls in a row, slow calls at once.

use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::bail;
use anyhow::ensure;
use pve_api::ApiToken;
use pve_api::Client;
use pve_api::Resource;
use pve_api::Server;
use pve_api::Settings;
use pve_api::Trust;
use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::sim::Fault;
use pve_sim::sim::FaultAnswer;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use tokio::task::JoinSet;

use super::Figure;
use super::download::start;

const GUESTS: u32 = 10_000;
const GETS: usize = 1000;
/// Each measurement is made so often, and the quickest one counts: the rest is noise.
const ROUNDS: usize = 7;
/// The path of call `n` of the slow ones, which takes `n` times this long.
const SLOW: Duration = Duration::from_millis(25);
const CALLS: u32 = 16;

/// Measures all three; `own` is the program whose other roles are used.
pub fn measure(own: &Path) -> anyhow::Result<Vec<Figure>> {
    let (mut cluster, line) = start(Command::new(own).arg("api").stdin(Stdio::piped()))?;
    let result = decoding().and_then(|decoding| {
        Ok(vec![decoding, gets_in_a_row(own, &line)?, slow_calls(own, &line)?])
    });
    // Its directory goes with it when its standard input ends.
    drop(cluster.stdin.take());
    cluster.wait()?;
    result
}

/// The role of the cluster: says where it is, and stays until its standard input ends.
pub async fn serve(ready: impl FnOnce(&str)) -> anyhow::Result<()> {
    let (sim, line) = cluster().await?;
    ready(&line);
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    sim.stop().await;
    Ok(())
}

/// A cluster with slow calls, and the line that says where it is.
async fn cluster() -> anyhow::Result<(Sim, String)> {
    let faults = (1..=CALLS).map(|call| Fault {
        delay: u64::try_from((SLOW * call).as_millis()).unwrap_or(u64::MAX),
        ..Fault::always(&format!("path={}$", slow_path(call)), FaultAnswer::Pass)
    });
    let config = Config { faults: faults.collect(), ..Config::default() };
    let account = config.accounts.first().context("there is no account")?;
    let (name, secret, _) = account.tokens.first().context("there is no token")?;
    let token = format!("{}!{name}={secret}", account.user);
    let sim = Sim::start(config).await?;
    let url = sim.https_url().context("the simulated cluster does not serve its API")?;
    let line = format!("{url} {} {token} {}", sim.fingerprint(), sim.authority().display());
    Ok((sim, line))
}

/// Where the cluster is, as its role says it.
struct Cluster<'a> {
    url: &'a str,
    fingerprint: &'a str,
    token: &'a str,
    authority: &'a str,
}

impl<'a> Cluster<'a> {
    fn new(line: &'a str) -> anyhow::Result<Self> {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().context("the cluster does not say where it is");
        Ok(Self { url: word()?, fingerprint: word()?, token: word()?, authority: word()? })
    }

    fn client(&self) -> anyhow::Result<Client> {
        let trust = Trust::Fingerprints(vec![self.fingerprint.parse()?]);
        let token: ApiToken = self.token.parse()?;
        Ok(Server::new(&Settings::new(self.url.parse()?, trust))?.token(&token))
    }
}

/// The quickest of several rounds, in seconds.
fn quickest(mut round: impl FnMut() -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        best = best.min(round()?);
    }
    Ok(best)
}

/// What stands around the list.
#[derive(Deserialize)]
struct Envelope<T> {
    data: T,
}

/// `/cluster/resources` of a large cluster, with the keys of a recorded answer.
fn resources() -> anyhow::Result<Vec<u8>> {
    let guest = |number: u32| {
        let vmid = 100 + number;
        json!({
            "id": format!("qemu/{vmid}"), "type": "qemu", "vmid": vmid,
            "node": format!("pve{}", number % 16), "name": format!("guest-{number}"),
            "status": "running", "template": 0, "tags": "web;prod",
            "cpu": 0.016_548_9 * f64::from(number % 64), "maxcpu": 4,
            "mem": 1_073_741_824_u64 + u64::from(number), "maxmem": 4_294_967_296_u64,
            "memhost": 1_342_177_280_u64 + u64::from(number),
            "disk": 0, "maxdisk": 34_359_738_368_u64,
            "diskread": 987_654_321_u64 + u64::from(number), "diskwrite": 123_456_789,
            "netin": 55_555_555, "netout": 4_444_444, "uptime": 86_400 + number,
        })
    };
    Ok(serde_json::to_vec(&json!({"data": (0..GUESTS).map(guest).collect::<Vec<Value>>()}))?)
}

fn decoding() -> anyhow::Result<Figure> {
    let body = resources()?;
    let ours = quickest(|| {
        let begun = Instant::now();
        let list: Envelope<Vec<Resource>> = serde_json::from_slice(black_box(&body))?;
        let took = begun.elapsed().as_secs_f64();
        ensure!(list.data.len() == usize::try_from(GUESTS)?, "guests are missing");
        Ok(took)
    })?;
    let theirs = quickest(|| {
        let begun = Instant::now();
        let value: Value = serde_json::from_slice(black_box(&body))?;
        let took = begun.elapsed().as_secs_f64();
        black_box(value);
        Ok(took)
    })?;
    let unit = "of serde_json::Value";
    Ok(Figure { name: "decode_resources_ratio", value: ours / theirs, unit, goal: "<= 1" })
}

fn gets_in_a_row(own: &Path, line: &str) -> anyhow::Result<Figure> {
    let cluster = Cluster::new(line)?;
    let url = format!("{}/api2/json/version", cluster.url);
    let list = format!("url = \"{url}\"\noutput = \"/dev/null\"\n").repeat(GETS);
    let header = format!("Authorization: PVEAPIToken={}", cluster.token);
    let mut curl = Command::new("curl");
    curl.args(["-sSf", "--cacert", cluster.authority, "-H", &header, "-K", "-"]);
    curl.stdin(Stdio::piped());
    let mut gets = Command::new(own);
    gets.args(["gets", line]);
    // In turns, so that whatever else the machine does meets both.
    let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        theirs = theirs.min(timed(&mut curl, &list)?);
        ours = ours.min(timed(&mut gets, "")?);
    }
    Ok(Figure {
        name: "keepalive_gets_ratio",
        value: ours / theirs,
        unit: "of curl",
        goal: "<= 1.1",
    })
}

/// How long a program takes from its start to its end.
fn timed(command: &mut Command, input: &str) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let status = child.wait()?;
    ensure!(status.success(), "{} failed, {status}", command.get_program().display());
    Ok(begun.elapsed().as_secs_f64())
}

/// The role that makes calls in a row.
pub async fn gets(line: &str) -> anyhow::Result<()> {
    let client = Cluster::new(line)?.client()?;
    for _ in 0..GETS {
        client.version().await?;
    }
    Ok(())
}

fn slow_path(call: u32) -> String {
    format!("/vms/{}", 100 + call)
}

fn slow_calls(own: &Path, line: &str) -> anyhow::Result<Figure> {
    let seconds = |first: u32| -> anyhow::Result<f64> {
        let output = Command::new(own)
            .args(["slow-calls", &first.to_string(), line])
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "the slow calls failed");
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    };
    let all = quickest(|| seconds(1))?;
    let slowest = quickest(|| seconds(CALLS))?;
    ensure!(slowest >= (SLOW * CALLS).as_secs_f64(), "the slowest call is not slow");
    let unit = "of the slowest of 16";
    Ok(Figure { name: "parallel_calls_ratio", value: all / slowest, unit, goal: "<= 1.1" })
}

/// The role that makes the slow calls from `first` to the slowest at once; gives the seconds.
pub async fn slow_at_once(first: u32, line: &str) -> anyhow::Result<f64> {
    let client = Cluster::new(line)?.client()?;
    let mut calls = JoinSet::new();
    let begun = Instant::now();
    for call in first..=CALLS {
        let client = client.clone();
        calls.spawn(async move { client.permissions_on(&slow_path(call)).await.map(drop) });
    }
    while let Some(ended) = calls.join_next().await {
        match ended? {
            Ok(()) => {}
            Err(error) => bail!("a slow call failed: {error}"),
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_large_cluster_is_read_without_unknown_keys() {
        let body = resources().unwrap();
        let list: Envelope<Vec<Resource>> = serde_json::from_slice(&body).unwrap();
        assert_eq!(list.data.len(), 10_000);
        assert!(list.data.iter().all(|guest| guest.extra.is_empty() && guest.vmid.is_some()));
    }

    #[tokio::test]
    async fn each_slow_call_takes_its_time() {
        let (sim, line) = cluster().await.unwrap();
        let begun = Instant::now();
        slow_at_once(1, &line).await.unwrap();
        assert!(begun.elapsed() >= SLOW * CALLS);
        sim.stop().await;
    }
}
