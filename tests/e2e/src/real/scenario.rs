//! One request to the server, its events, and whether the machine is what was asked for.

use std::fmt::Display;
use std::net::Ipv4Addr;
use std::path::Path;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use anyhow::bail;
use anyhow::ensure;
use serde_json::Value;
use serde_json::json;

use super::guest;
use super::guest::Guest;
use super::inside::OS;
use super::inside::ROOT_PASSWORD;
use super::inside::Stage;
use super::inside::TIME_ZONE;
use super::inside::VERSION;
use super::network::GATEWAY;
use super::network::PREFIX;
use crate::sse::Message;
use crate::sse::Told;

const GIB: u64 = 1 << 30;

/// What is asked for, and what must come of it.
pub(super) struct Scenario {
    /// Stands before each line that is printed.
    pub(super) title: &'static str,
    /// The `name` of the request.
    name: Option<&'static str>,
    user: Option<&'static str>,
    pub(super) password: Option<&'static str>,
    disk_gib: u64,
    /// How many keys `pubkey` has, a line each.
    keys: usize,
}

/// As most people would ask.
pub(super) const DEFAULT: Scenario = Scenario {
    title: "default",
    name: Some("web"),
    user: None,
    password: None,
    disk_gib: 16,
    keys: 1,
};

pub(super) const NAMELESS: Scenario = Scenario {
    title: "nameless",
    name: None,
    user: None,
    password: Some("correct horse"),
    disk_gib: 18,
    keys: 1,
};

/// Everything that a shell, JSON or YAML on the way could spoil.
pub(super) const CUSTOM: Scenario = Scenario {
    title: "custom",
    name: Some("db"),
    user: Some("deploy"),
    password: Some(r#"it's "$HOME" & `id` \ #2: y"#),
    disk_gib: 20,
    keys: 2,
};

/// What a run has shown.
pub(super) struct Seen {
    pub(super) vmid: u32,
    /// The stream as it was.
    pub(super) raw: String,
    first_login: f32,
    end: f32,
}

impl Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { vmid, first_login, end, .. } = self;
        write!(f, "VM {vmid}: first login after {first_login:.1} s, finished after {end:.1} s")
    }
}

impl Scenario {
    /// Sends the request, prints the events, and checks the machine.
    pub(super) async fn run(&self, stage: &Stage, directory: &Path) -> anyhow::Result<Seen> {
        self.play(stage, directory).await.with_context(|| format!("scenario '{}'", self.title))
    }

    async fn play(&self, stage: &Stage, directory: &Path) -> anyhow::Result<Seen> {
        let files = directory.join(self.title);
        std::fs::create_dir(&files)?;
        let (keys, lines) = self.make_keys(&files).await?;
        let begun = Instant::now();
        let mut stream = stage.rig.server.install(&self.request(&lines)).await?;
        let mut messages = Vec::new();
        let mut first = None;
        while let Some(message) = stream.next().await? {
            if !message.is_close() {
                let told = message.told()?;
                let time = begun.elapsed().as_secs_f32();
                self.say(format_args!("{time:6.1} {} {}", told.step, told.message));
                if told.step.ends_with("> waiting for ready") && told.status == "success" {
                    let guest = self.guest(address(&messages)?, &keys[0], &files);
                    first = Some((time, guest.boot_id().await.context("first login")?));
                }
            }
            messages.push(message);
        }
        let end = begun.elapsed().as_secs_f32();
        let (vmid, guest_address) = finished(&messages, self.user())?;
        let (first_login, first_boot) = first.context("no event says that the VM is ready")?;
        for key in &keys {
            let guest = self.guest(guest_address, key, &files);
            self.check(stage, vmid, &guest, &first_boot).await?;
        }
        Ok(Seen { vmid, raw: stream.text(), first_login, end })
    }

    fn user(&self) -> &'static str {
        self.user.unwrap_or("debian")
    }

    fn say(&self, line: impl Display) {
        println!("{:<8} {line}", self.title);
    }

    fn request(&self, keys: &[String]) -> Value {
        let mut request = json!({
            "os": OS, "version": VERSION, "cpu": 2, "ram": 2048, "disk": format!("{}G", self.disk_gib),
            "pubkey": keys.join("\n"),
        });
        for (field, value) in [("name", self.name), ("user", self.user), ("passwd", self.password)]
        {
            if let Some(value) = value {
                request[field] = json!(value);
            }
        }
        request
    }

    async fn make_keys(&self, files: &Path) -> anyhow::Result<(Vec<PathBuf>, Vec<String>)> {
        let keys: Vec<PathBuf> =
            (0..self.keys).map(|number| files.join(format!("key{number}"))).collect();
        let mut lines = Vec::new();
        for key in &keys {
            lines.push(guest::make_key(key).await?);
        }
        Ok((keys, lines))
    }

    fn guest(&self, address: Ipv4Addr, key: &Path, files: &Path) -> Guest {
        let known_hosts = files.join("known_hosts");
        Guest { address, user: self.user(), key: key.to_owned(), known_hosts }
    }

    /// Logs in as the user who was asked for and looks at everything that was promised.
    async fn check(
        &self,
        stage: &Stage,
        vmid: u32,
        guest: &Guest,
        first_boot: &str,
    ) -> anyhow::Result<()> {
        let facts = guest.facts().await.context("login at the end")?;
        let name = format!("{}-{vmid}", self.name.map_or_else(|| vmid.to_string(), str::to_owned));
        let disk = self.disk_gib * GIB;
        let mut wrong = Vec::new();
        let mut check = |what: &str, seen: &str, right: bool| {
            self.say(format_args!("{} {what}: {seen}", if right { "[ok]" } else { "[WRONG]" }));
            if !right {
                wrong.push(format!("{what} is '{seen}'"));
            }
        };
        let fact = |what: &str| facts.get(what).map(String::as_str).unwrap_or_default();
        for (what, right) in [
            ("user", self.user()),
            ("host name", &name),
            ("full name", &name),
            ("address", &format!("{}/{PREFIX}", guest.address)),
            ("gateway", &GATEWAY.to_string()),
            ("disk", &disk.to_string()),
            ("cloud-init", "done"),
            ("agent", "active"),
            ("upgraded package", "2"),
            ("time zone", &format!("/usr/share/zoneinfo/{TIME_ZONE}")),
            ("sudo", "0"),
        ] {
            check(what, fact(what), fact(what) == right);
        }
        let root = fact("root file system");
        // What the file system keeps for itself is a few percent.
        check(
            "root file system",
            root,
            root.parse::<u64>().is_ok_and(|root| root > disk / 100 * 95),
        );
        check("boot id", fact("boot id"), fact("boot id") != first_boot);
        let ping = stage.hypervisor.ping(vmid).await;
        let answer =
            ping.as_ref().map_or_else(|error| format!("{error:#}"), |()| "answers".to_owned());
        check("agent's channel", &answer, ping.is_ok());
        for (user, password) in
            [("root", ROOT_PASSWORD), (guest.user, self.password.unwrap_or("passwd"))]
        {
            let right = guest.has_password(user, password).await?;
            check(
                &format!("password of {user}"),
                if right { "as asked for" } else { "another" },
                right,
            );
        }
        if !wrong.is_empty() {
            bail!("the VM is not what was asked for: {}", wrong.join(", "));
        }
        Ok(())
    }
}

/// The last address that an event has named.
fn address(messages: &[Message]) -> anyhow::Result<Ipv4Addr> {
    let network = GATEWAY.to_string();
    let network = network.trim_end_matches(|last: char| last.is_ascii_digit());
    let words = messages.iter().rev().filter_map(|message| message.told().ok()).flat_map(|told| {
        let words: Vec<String> = told.message.split([' ', '/', ',']).map(str::to_owned).collect();
        words
    });
    let mut addresses =
        words.filter(|word| word.starts_with(network)).filter_map(|word| word.parse().ok());
    addresses.find(|address| *address != GATEWAY).context("no event names the address")
}

/// The VMID and the address of the final report, which must be as specified.
fn finished(messages: &[Message], user: &str) -> anyhow::Result<(u32, Ipv4Addr)> {
    let (close, events) = messages.split_last().context("the stream was empty")?;
    ensure!(close.is_close() && close.data == "{}", "the stream does not end with `close`");
    let told: Vec<Told> = events.iter().map(Message::told).collect::<anyhow::Result<_>>()?;
    if let Some(error) = told.iter().find(|told| told.status == "error") {
        bail!("{}: {}", error.step, error.message);
    }
    let last = told.last_chunk::<4>().context("the stream is too short")?;
    ensure!(
        last.iter().all(|told| told.status == "success" && told.step.ends_with("> finalizing"))
    );
    let [completed, vmid, address, name] = last.each_ref().map(|told| told.message.as_str());
    ensure!(completed.starts_with("[+] VM installation completed in "), "{completed}");
    ensure!(name == format!("[*] User: {user}"), "{name}");
    let vmid = vmid.strip_prefix("[*] VMID: ").context("no VMID")?.parse()?;
    let address = address.strip_prefix("[*] IP: ").context("no address")?.parse()?;
    Ok((vmid, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(step: &str, status: &str, message: &str) -> Message {
        let data = json!({"step": step, "status": status, "message": message}).to_string();
        Message { event: None, id: None, data }
    }

    fn stream(changed: Option<Message>) -> Vec<Message> {
        let last = "VM initialization > finalizing";
        let mut messages = vec![
            event("preparation > assigning IP", "success", "[+] IP 192.0.2.104/24"),
            event("VM creation > creating VM", "processing", "[*] IP 192.0.2.105/24, by 192.0.2.1"),
            event(last, "success", "[+] VM installation completed in 182.41s"),
            event(last, "success", "[*] VMID: 105"),
            event(last, "success", "[*] IP: 192.0.2.105"),
            event(last, "success", "[*] User: debian"),
        ];
        messages.extend(changed);
        let event = Some("close".to_owned());
        messages.push(Message { event, id: None, data: "{}".to_owned() });
        messages
    }

    #[test]
    fn the_final_report_is_read_and_nothing_may_follow_it() {
        let (vmid, address) = finished(&stream(None), "debian").unwrap();
        assert_eq!((vmid, address), (105, Ipv4Addr::new(192, 0, 2, 105)));
        assert!(finished(&stream(None), "deploy").is_err());
        let error = event("VM initialization > rebooting VM", "error", "[-] no login");
        let text = finished(&stream(Some(error)), "debian").unwrap_err().to_string();
        assert_eq!(text, "VM initialization > rebooting VM: [-] no login");
        let late = event("VM initialization > rebooting VM", "success", "[+] done");
        assert!(finished(&stream(Some(late)), "debian").is_err());
    }

    #[test]
    fn the_address_is_the_last_that_was_named_and_not_the_gateway() {
        assert_eq!(address(&stream(None)[..2]).unwrap(), Ipv4Addr::new(192, 0, 2, 105));
        assert!(address(&[]).is_err());
    }
}
