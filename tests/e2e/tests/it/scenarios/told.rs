//! What a stream tells beyond a plain install, with everything that differs from run to run made the same.

use std::collections::BTreeSet;

use pve_e2e::redact::volatile;
use pve_e2e::rig::Rig;
use pve_e2e::sse::Message;
use pve_sim::Config;
use serde_json::json;
use tokio::sync::OnceCell;

/// What a plain install tells: on one node and on two.
static PLAIN: OnceCell<BTreeSet<(String, String)>> = OnceCell::const_new();

/// States on the way to a login: which of them are seen is a matter of time.
const PASSING: [&str; 4] = ["port closed", "no route", "connection reset", "no banner"];

/// Makes texts of a rig alike from run to run.
#[derive(Debug, Clone)]
pub(crate) struct Alike(Vec<(String, &'static str)>);

impl Alike {
    pub(crate) fn new(rig: &Rig) -> Self {
        let [a, b, c, _] = rig.sim.gateway().octets();
        let network = format!("{a}.{b}.{c}.");
        Self(vec![
            (rig.sim.mirror_url().to_owned(), "http://mirror"),
            (rig.place.directory().display().to_string(), "<place>"),
            (rig.sim.directory().display().to_string(), "<sim>"),
            (network, "192.0.2."),
        ])
    }

    pub(crate) fn text(&self, text: &str) -> String {
        let replaced =
            self.0.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        volatile(&without_ids(&replaced))
    }
}

/// The text with job ids as `<job>`.
fn without_ids(text: &str) -> String {
    let text = replaced(text, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh", "<job>");
    let text = replaced(&text, "0000-00-00 00:00:00", "<time>");
    replaced(&text, "(duration 00:00:00)", "(duration <time>)")
}

/// The text with each place that looks like `shape` replaced: `h` is a hexadecimal digit, `0` a decimal one.
fn replaced(text: &str, shape: &str, by: &str) -> String {
    let fits = |piece: &str| {
        piece.bytes().zip(shape.bytes()).all(|(byte, shape)| match shape {
            b'h' => byte.is_ascii_hexdigit(),
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
    };
    let mut result = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if rest.get(..shape.len()).is_some_and(fits) {
            result.push_str(by);
            rest = &rest[shape.len()..];
        } else {
            result.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    result
}

/// The events that a plain install has not, under their steps.
pub(crate) async fn beyond_plain(messages: &[Message], alike: &Alike) -> String {
    let plain = PLAIN.get_or_init(plain).await;
    let mut lines: Vec<String> = Vec::new();
    let mut step = String::new();
    for (of, text) in told(messages, alike) {
        if plain.contains(&(of.clone(), text.clone())) {
            continue;
        }
        if of != step {
            lines.push(format!("  {of}"));
            step = of;
        }
        let line = format!("    {text}");
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// Step and text of what is told, without what depends on the pace of the machine.
fn told(messages: &[Message], alike: &Alike) -> Vec<(String, String)> {
    let told = messages.iter().filter(|message| !message.is_close()).map(|message| {
        let told = message.told().unwrap();
        (told.step, format!("{} {}", told.status, alike.text(&told.message)))
    });
    told.filter(|(_, text)| !is_pace(text)).collect()
}

fn is_pace(text: &str) -> bool {
    if text.starts_with("processing   transferred ") {
        return true;
    }
    let Some(text) = text.strip_prefix("processing [*] ") else { return false };
    text.contains("MiB/s") || text.contains("(since ") || PASSING.contains(&text)
}

async fn plain() -> BTreeSet<(String, String)> {
    let mut plain = BTreeSet::new();
    for nodes in [&["pve1"][..], &["pve1", "pve2"]] {
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        let rig = Rig::start(Config { nodes, ..Config::default() }, &[]).await.unwrap();
        let request = json!({"os": "debian", "version": "12"});
        // The first finds neither key nor image.
        for _ in 0..2 {
            let install = rig.install(&request).await.unwrap();
            assert!(install.succeeded(), "{}", install.raw);
            plain.extend(told(&install.messages, &Alike::new(&rig)));
            rig.sim.change(|world| {
                world.guests.clear();
                world.volumes.clear();
            });
        }
    }
    plain
}
