//! Every recorded answer of a covered call, decoded and written again.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::json;

use super::Row;
use super::recorded;
use crate::decode::decode;
use crate::list::List;
use crate::record::Record;
use crate::*;

/// The keys that no field has, by the type that met them; and how many items of it there were.
#[derive(Default)]
struct Met(BTreeMap<&'static str, (usize, BTreeSet<String>)>);

impl Met {
    fn record<T: Record>(&mut self, row: &Row, item: &Value) {
        let name = std::any::type_name::<T>().rsplit("::").next().unwrap();
        let Value::Object(fields) = item else { panic!("{}: no object: {item}", row.name) };
        for key in T::REQUIRED {
            assert!(fields.contains_key(*key), "{}: {name} without {key}", row.name);
        }
        round_trip::<T>(row, item);
        let (count, unknown) = self.0.entry(name).or_default();
        *count += 1;
        unknown.extend(fields.keys().filter(|key| !T::KEYS.contains(&key.as_str())).cloned());
    }

    fn list<T: Record>(&mut self, row: &Row, data: &Value) {
        let list = List::<T>::decode(&row.call(), row.body.as_bytes()).unwrap();
        assert_eq!(list.skipped, [], "{}", row.name);
        for item in data.as_array().unwrap() {
            self.record::<T>(row, item);
        }
    }

    fn config(&mut self, row: &Row, data: &Value) {
        let config: QemuConfig = decode(&row.call(), row.body.as_bytes()).unwrap();
        let written = serde_json::to_value(&config).unwrap();
        for (key, value) in data.as_object().unwrap() {
            // Text that was text comes back byte for byte: property strings above all.
            match value {
                Value::String(text) => {
                    let scalar = written[key].is_number() || written[key].is_boolean();
                    assert!(scalar || written[key] == json!(text), "{} {key}", row.name);
                }
                other => assert!(same(other, &written[key]), "{} {key}", row.name),
            }
        }
        assert_eq!(
            written.as_object().unwrap().len(),
            data.as_object().unwrap().len(),
            "{}",
            row.name
        );
        let known = |key: &&String| {
            QemuConfig::ONE.contains(&key.as_str())
                || indexed::split(key).is_some_and(|(prefix, index)| {
                    QemuConfig::MANY.iter().any(|(name, max)| *name == prefix && index <= *max)
                })
        };
        let unread: Vec<&String> = config.extra.keys().filter(known).collect();
        assert!(unread.is_empty(), "{}: cannot read {unread:?}", row.name);
        let (count, unknown) = self.0.entry("QemuConfig").or_default();
        *count += 1;
        unknown.extend(config.extra.keys().cloned());
    }
}

/// Whether two values say the same in Perl's eyes.
fn same(one: &Value, other: &Value) -> bool {
    let scalar = |value: &Value| match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) if text.is_empty() => Some(0.0),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => one
            .iter()
            .filter(|(_, value)| !value.is_null())
            .all(|(key, value)| other.get(key).is_some_and(|other| same(value, other))),
        _ if one == other => true,
        _ => scalar(one).is_some() && scalar(one) == scalar(other),
    }
}

fn round_trip<T: Serialize + DeserializeOwned>(row: &Row, item: &Value) {
    let decoded: T = serde_path_to_error::deserialize(item)
        .unwrap_or_else(|error| panic!("{}: {error}", row.name));
    let written = serde_json::to_value(&decoded).unwrap();
    assert!(same(item, &written), "{}:\n{item}\n{written}", row.name);
}

fn upid(row: &Row, data: &Value) {
    if data.is_null() && row.is("DELETE", "/nodes/{node}/storage/{storage}/content/{volume}") {
        return;
    }
    let upid: Upid = serde_json::from_value(data.clone())
        .unwrap_or_else(|error| panic!("{}: {error}", row.name));
    assert_eq!(json!(upid), *data);
}

/// Decodes the answer with the type of its call; `false` if the call is not covered.
fn check(met: &mut Met, row: &Row, data: &Value) -> bool {
    let items = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    match endpoint::ALL.iter().find(|one| row.is(one.method.as_str(), one.path)) {
        None => return false,
        Some(endpoint) => match (endpoint.method.as_str(), endpoint.path) {
            ("GET", "/version") => met.record::<Version>(row, data),
            ("GET", "/access/domains") => met.list::<Domain>(row, data),
            ("POST", "/access/ticket") => assert!(
                data["ticket"].is_string() || data.is_null() || !row.body.contains("PVE:"),
                "{}",
                row.name
            ),
            ("GET", "/access/permissions") => {
                let permissions: Permissions = decode(&row.call(), row.body.as_bytes()).unwrap();
                assert_eq!(permissions.paths().count(), data.as_object().unwrap().len());
            }
            ("GET", "/cluster/status") => met.list::<ClusterEntry>(row, data),
            ("GET", "/cluster/resources") => met.list::<Resource>(row, data),
            ("GET", "/cluster/nextid") => {
                decode::<cluster::Number>(&row.call(), row.body.as_bytes()).unwrap();
            }
            ("GET", "/cluster/options") => met.record::<ClusterOptions>(row, data),
            ("GET", "/cluster/ha/resources") => met.list::<HaResource>(row, data),
            ("GET", "/cluster/ha/resources/{sid}") => met.record::<HaResource>(row, data),
            ("GET", "/cluster/ha/groups") => met.list::<HaGroup>(row, data),
            ("GET", "/pools") => {
                met.list::<Pool>(row, data);
                for pool in data.as_array().unwrap() {
                    for member in items(pool, "members") {
                        met.record::<PoolMember>(row, &member);
                    }
                }
            }
            ("GET", "/nodes") => met.list::<NodeSummary>(row, data),
            ("GET", "/nodes/{node}/status") => {
                met.record::<NodeStatus>(row, data);
                met.record::<CpuInfo>(row, &data["cpuinfo"]);
                for part in ["memory", "swap", "rootfs"] {
                    met.record::<Usage>(row, &data[part]);
                }
            }
            ("GET", "/nodes/{node}/network") => met.list::<Network>(row, data),
            ("GET", "/nodes/{node}/capabilities/qemu/cpu") => met.list::<CpuModel>(row, data),
            ("GET", "/nodes/{node}/capabilities/qemu/cpu-flags") => met.list::<CpuFlag>(row, data),
            ("GET", "/nodes/{node}/capabilities/qemu/machines") => met.list::<Machine>(row, data),
            ("GET", path) if path.starts_with("/nodes/{node}/storage") => {
                check_storage(met, row, path, data);
            }
            ("GET", "/nodes/{node}/query-url-metadata") => met.record::<UrlMetadata>(row, data),
            ("GET", "/nodes/{node}/qemu") => met.list::<QemuSummary>(row, data),
            ("GET", "/nodes/{node}/qemu/{vmid}/config") => met.config(row, data),
            (
                "GET",
                "/nodes/{node}/qemu/{vmid}/pending" | "/nodes/{node}/qemu/{vmid}/cloudinit",
            ) => {
                met.list::<PendingValue>(row, data);
            }
            ("GET", "/nodes/{node}/qemu/{vmid}/status/current") => {
                met.record::<QemuStatus>(row, data);
                met.record::<HaOfGuest>(row, &data["ha"]);
            }
            ("GET", "/nodes/{node}/qemu/{vmid}/migrate") => {
                met.record::<MigrationCheck>(row, data);
                for disk in items(data, "local_disks") {
                    met.record::<LocalDisk>(row, &disk);
                }
            }
            ("GET", "/nodes/{node}/qemu/{vmid}/cloudinit/dump") => assert!(data.is_string()),
            ("GET", "/nodes/{node}/qemu/{vmid}/agent/network-get-interfaces") => {
                let interfaces = qemu::interfaces_answer(data.clone()).unwrap();
                assert!(!interfaces.is_empty());
                for interface in items(data, "result") {
                    met.record::<AgentInterface>(row, &interface);
                    for address in items(&interface, "ip-addresses") {
                        met.record::<AgentAddress>(row, &address);
                    }
                }
            }
            ("GET", "/nodes/{node}/tasks") => met.list::<TaskSummary>(row, data),
            ("GET", "/nodes/{node}/tasks/{upid}/status") => met.record::<TaskStatus>(row, data),
            ("GET", "/nodes/{node}/tasks/{upid}/log") => {
                decode::<task::Lines>(&row.call(), row.body.as_bytes()).unwrap();
                for line in data.as_array().unwrap_or(&vec![data.clone()]) {
                    met.record::<LogLine>(row, line);
                }
            }
            ("POST" | "PUT" | "DELETE", _) => check_write(row, data),
            (method, path) => panic!("no type for {method} {path}"),
        },
    }
    true
}

/// The answer to a question about storages.
fn check_storage(met: &mut Met, row: &Row, path: &str, data: &Value) {
    match path {
        "/nodes/{node}/storage" => {
            met.list::<StorageSummary>(row, data);
            for formats in data.as_array().unwrap().iter().filter_map(|one| one.get("formats")) {
                met.record::<Formats>(row, formats);
            }
        }
        "/nodes/{node}/storage/{storage}/status" => {
            met.record::<StorageStatus>(row, data);
        }
        "/nodes/{node}/storage/{storage}/content" => met.list::<Volume>(row, data),
        "/nodes/{node}/storage/{storage}/content/{volume}" => {
            met.record::<VolumeDetail>(row, data);
        }
        other => panic!("no type for {other}"),
    }
}

/// The answer to a write: a task, or nothing.
fn check_write(row: &Row, data: &Value) {
    if row.call().starts_task {
        upid(row, data);
    } else {
        assert!(data.is_null() || data["result"].is_object(), "{}: {data}", row.name);
    }
}

#[test]
fn every_recorded_answer_of_a_covered_call_is_read_and_written_again() {
    let mut met = Met::default();
    let mut counts = BTreeMap::new();
    let mut uncovered = BTreeSet::new();
    for (release, row) in recorded().into_iter().filter(|(_, row)| row.status == 200) {
        let (covered, other) = counts.entry(release).or_insert((0, 0));
        let answer: Value = serde_json::from_str(&row.body).unwrap_or_default();
        if check(&mut met, &row, &answer["data"]) {
            *covered += 1;
        } else {
            *other += 1;
            uncovered.insert(row.path.split('?').next().unwrap_or_default().to_owned());
        }
    }
    let mut text = String::new();
    for (release, (covered, other)) in counts {
        writeln!(text, "{release}: {covered} answers read, {other} of other calls").unwrap();
    }
    writeln!(text, "items and unknown keys:").unwrap();
    for (name, (count, unknown)) in met.0 {
        let unknown: Vec<String> = unknown.into_iter().collect();
        writeln!(text, "    {count} × {name} {}", unknown.join(" ")).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn every_recorded_login_is_a_ticket_or_a_challenge() {
    let mut challenges = 0;
    for (_, row) in recorded() {
        if row.status == 200 && row.is("POST", "/access/ticket") && row.body.contains("\"ticket\"")
        {
            let outcome = login::read(&row.call(), row.body.as_bytes()).unwrap();
            let half = row.body.contains("NeedTFA");
            assert_eq!(matches!(outcome, login::Outcome::Challenged(_)), half, "{}", row.name);
            challenges += usize::from(half);
        }
    }
    assert!(challenges > 20, "{challenges}");
}

#[test]
fn every_recorded_task_ended_in_a_way_that_is_told_apart() {
    let mut ends: BTreeMap<&'static str, usize> = BTreeMap::new();
    for (_, row) in recorded() {
        let Some(exit) = row.exit else { continue };
        let end = match exit.as_str() {
            "OK" => "ok",
            text if text.starts_with("WARNINGS: ") => "warnings",
            text if error::task_says_exists(text) => "exists",
            text if error::task_says_locked(text) => "locked",
            _ => "failed",
        };
        *ends.entry(end).or_default() += 1;
    }
    insta::assert_debug_snapshot!(ends);
}

fn get(path: &str) -> Call {
    Call { method: http::Method::GET, path: path.to_owned(), starts_task: false }
}

#[test]
fn one_bad_item_does_not_spoil_its_list() {
    let call = get("/nodes/pve1/qemu");
    let body = br#"{"data":[{"vmid":"100","name":123,"maxmem":"66624765952","uptime":null,"template":"","status":"prelaunch","new":[1]},{"vmid":"x"},{"name":"no number"},7,{"vmid":102,"cpu":"1.2e-05"}]}"#;
    let list = List::<QemuSummary>::decode(&call, body).unwrap();
    let [first, second] = &list[..] else { panic!("{list:?}") };
    assert_eq!(first.name.as_deref(), Some("123"));
    assert_eq!(first.max_memory, Some(66_624_765_952));
    assert_eq!((first.uptime, first.template), (None, Some(false)));
    assert_eq!(first.status, Some(QemuState::Other("prelaunch".to_owned())));
    assert_eq!(first.extra["new"], json!([1]));
    assert_eq!(second.cpu, Some(1.2e-05));
    let problems: Vec<String> =
        list.skipped.iter().map(|one| format!("{}: {}", one.path, one.problem)).collect();
    insta::assert_snapshot!(problems.join("\n"), @r#"
    data[1].vmid: invalid value: string "x", expected a VMID (100 to 999999999)
    data[2]: missing field `vmid`
    data[3]: invalid type: integer `7`, expected struct QemuSummary
    "#);
    let error = List::<QemuSummary>::decode(&call, br#"{"data":"many"}"#).unwrap_err();
    insta::assert_snapshot!(error, @"GET /nodes/pve1/qemu: unexpected answer at `data`: expected a list, found a text");
}

#[test]
fn a_text_that_is_none_does_not_spoil_its_list() {
    let call = get("/nodes/pve1/qemu");
    let body = br#"{"data":[{"vmid":100,"name":"a\ud800"},{"vmid":"x"}]}"#;
    let list = List::<QemuSummary>::decode(&call, body).unwrap();
    assert_eq!(list[0].name.as_deref(), Some("a\u{FFFD}"));
    assert_eq!(list.skipped.len(), 1);
}

#[test]
fn a_configuration_is_read_in_every_spelling() {
    for (memory, text) in
        [("\"2048\"", "2048"), ("2048", "2048"), ("\"current=2048\"", "current=2048")]
    {
        let json = format!(
            r#"{{"memory":{memory},"onboot":"1","template":"","tags":"b;a","lock":null,"scsi99":"x","net0":"weird","new":[1]}}"#
        );
        let config: QemuConfig = serde_json::from_str(&json).unwrap();
        let read = config.memory.unwrap();
        assert_eq!((read.current, read.to_string().as_str()), (Some(2048), text));
        assert_eq!((config.start_at_boot, config.template), (Some(true), Some(false)));
        assert_eq!(config.tags.unwrap().iter().collect::<Vec<_>>(), ["b", "a"]);
        // What is out of bounds or unknown is kept; an unknown model is a model.
        assert_eq!(config.extra.keys().collect::<Vec<_>>(), ["scsi99", "new"]);
        assert_eq!(
            config.net.get(0).unwrap().model,
            Some(property::NetModel::Other("weird".to_owned()))
        );
    }
}

#[test]
fn a_single_answer_that_cannot_be_read_names_the_place() {
    let call = get("/nodes/pve1/status");
    let error = decode::<NodeStatus>(&call, br#"{"data":{"cpuinfo":{"cpus":"two"}}}"#).unwrap_err();
    insta::assert_snapshot!(error, @r#"GET /nodes/pve1/status: unexpected answer at `data.cpuinfo.cpus`: invalid value: string "two", expected a number"#);
    let error = decode::<NodeStatus>(&call, b"<html>").unwrap_err();
    insta::assert_snapshot!(error, @"GET /nodes/pve1/status: unexpected answer at `.`: expected value at line 1 column 1");
}
