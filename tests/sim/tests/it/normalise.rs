//! What differs between two runs of the same call: taken out here and nowhere else.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Patterns and what stands for them.
static PATTERNS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    [
        // An artefact of the recorded machine, which had no memory controller.
        (r"(?m)^unable to get memory stat for .*\n", ""),
        // How often a copy reports depends on its speed.
        (r"(?m)(^transferred \S+ \S+ of (\S+ \S+) \(.*\)\n)+", "<progress of $2>\n"),
        (r"UPID:(\w+):[0-9A-F]{8}:[0-9A-F]{8}:[0-9A-F]{8}:", "UPID:$1:<pid>:<start>:<time>:"),
        (r"(?i)\bBC:24:11(:[0-9A-F]{2}){3}\b", "<mac>"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>"),
        (r"\$5\$[./0-9A-Za-z]+\$[./0-9A-Za-z]{43}", "<hash>"),
        (r"\b[0-9a-f]{32}  /", "<digest>  /"),
        (r"pveupload-[0-9a-f]{32}", "pveupload-<id>"),
        // Made from the address of the card.
        (r"fe80::be24:11ff:[0-9a-f]{1,4}:[0-9a-f]{1,4}", "<link-local>"),
        (r"instance-id: [0-9a-f]{40}", "instance-id: <id>"),
        // What `wget` prints: its process and how fast it was.
        (r"tmp_dwnl\.\d+", "tmp_dwnl.<pid>"),
        (r"(?m)^ +0K .*$", "<progress>"),
        (r"\([\d.]+ [KMG]B/s\)", "(<speed>)"),
        (r"ctime=\d+", "ctime=<time>"),
        (r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}", "<time>"),
        (r"duration \d{2}:\d{2}:\d{2}", "duration <time>"),
        // `pvesm status`: columns of fixed width.
        (r"(?m)(  active) {2}[ \d]{14} [ \d]{15} [ \d]{15} +[\d.]+%$", "$1 <figures>"),
        // `qm list`: the process of a running VM.
        (r"(?m)(running .* )\d+( *)$", "$1<pid>"),
        // `qm status --verbose`.
        (r"(?m)^(\t*(netin|netout|pid|uptime|pressure\w+)): .*$", "$1: <figure>"),
    ]
    .into_iter()
    .map(|(pattern, put)| (Regex::new(pattern).unwrap(), put))
    .collect()
});

/// Ids that a run makes up: tasks, entries, recovery keys, digests.
static IDS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        "^(UPID:.*:|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{4}(-[0-9a-f]{4}){3}|[0-9a-f]{40})$",
    )
    .unwrap()
});

/// Whether a text is an id that the next run makes up anew.
pub(crate) fn is_id(text: &str) -> bool {
    IDS.is_match(text)
}

/// Keys of an answer whose values are a machine's own.
const OF_THE_MACHINE: [&str; 15] = [
    "statistics",
    "loadavg",
    "memory",
    "rootfs",
    "current-kernel",
    "kversion",
    "ip",
    "pid",
    "pstart",
    "starttime",
    "endtime",
    "ctime",
    "ssl_fingerprint",
    "netin",
    "netout",
];

/// The body of an answer, in one order, without what differs from run to run.
pub(crate) fn body(value: &Value) -> String {
    json(ids(value)).to_string()
}

fn ids(value: &Value) -> Value {
    match value {
        Value::String(text) if is_id(text) && !text.starts_with("UPID") => Value::from("<id>"),
        Value::String(text) => Value::from(normalise(text)),
        Value::Array(items) => items.iter().map(ids).collect(),
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let pairs = keys.into_iter().map(|key| {
                let value = &map[key];
                let nested = value.is_object() || value.is_array();
                let machine = OF_THE_MACHINE.contains(&key.as_str())
                    && (key != "memory" || nested)
                    && !value.is_null();
                (key.clone(), if machine { Value::from("<of the machine>") } else { ids(value) })
            });
            pairs.collect()
        }
        other => other.clone(),
    }
}

/// Keys whose numbers are measured.
const MEASURED: [&str; 11] = [
    "avail",
    "used",
    "used_fraction",
    "total",
    "cpu",
    "mem",
    "uptime",
    "netin",
    "netout",
    "pid",
    "ssl_fingerprint",
];

/// A text without what differs from run to run.
pub(crate) fn normalise(text: &str) -> String {
    if let Ok(value @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str(text) {
        let pretty = text.contains("\n   ");
        let json = json(value);
        return if pretty { format!("pretty {json}") } else { json.to_string() };
    }
    let text = complaints_in_order(text);
    PATTERNS.iter().fold(text, |text, (pattern, put)| pattern.replace_all(&text, *put).into_owned())
}

/// Perl's hashes have no order: complaints about several parameters come in any.
fn complaints_in_order(text: &str) -> String {
    let Some(rest) = text.strip_prefix("400 Parameter verification failed.\n") else {
        return text.to_owned();
    };
    let mut complaints: Vec<String> = Vec::new();
    let first = Regex::new(r"^[a-z0-9-]+: ").unwrap();
    let mut usage = Vec::new();
    for line in rest.split_inclusive('\n') {
        if first.is_match(line) {
            complaints.push(line.to_owned());
        } else if line.starts_with("qm ") || line.starts_with("pves") {
            usage.push(line);
        } else if let Some(last) = complaints.last_mut() {
            last.push_str(line);
        }
    }
    complaints.sort();
    format!("400 Parameter verification failed.\n{}{}", complaints.concat(), usage.concat())
}

/// Lists in the order of their text, contents of a storage by name, measured numbers gone.
fn json(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(json).collect();
            items.sort_by_key(ToString::to_string);
            Value::Array(items)
        }
        Value::Object(map) => {
            let running = map.get("status").is_some_and(|status| status == "running");
            let running = running || map.contains_key("cpuinfo");
            let node = map.get("type").is_some_and(|kind| kind == "node" || kind == "storage");
            map.into_iter()
                .map(|(key, value)| {
                    let figure = MEASURED.contains(&key.as_str())
                        || key.starts_with("pressure")
                        || (node && matches!(key.as_str(), "disk" | "maxcpu"));
                    let value = match &value {
                        // Nothing in use is a fact, not a measurement.
                        Value::Number(number)
                            if figure && (running || number.as_f64() != Some(0.0)) =>
                        {
                            Value::from("<figure>")
                        }
                        Value::String(_) if figure => Value::from("<figure>"),
                        Value::String(text) if key == "content" => {
                            let mut items: Vec<&str> = text.split(',').collect();
                            items.sort_unstable();
                            Value::from(items.join(","))
                        }
                        _ => json(value),
                    };
                    (key, value)
                })
                .collect()
        }
        other => other,
    }
}
