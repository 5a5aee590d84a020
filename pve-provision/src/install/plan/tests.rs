use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::install::settings::Patience;

pub(crate) fn settings() -> Settings {
    Settings {
        main_node: "pve1".parse().unwrap(),
        gateway: "192.168.0.1".parse().unwrap(),
        first_vmid: 100,
        last_vmid: 254,
        storage: "local".parse().unwrap(),
        limits: Limits::default(),
        root_password: None,
        nodes: std::collections::BTreeMap::new(),
        ssh_port: 22,
        nameserver: None,
        timezone: None,
        script_directory: None,
        pve_directory: PathBuf::from("/etc/pve"),
        state_directory: PathBuf::from("/var/lib/pve-server"),
        home: PathBuf::from("/root"),
        path: "/usr/bin".to_owned(),
        installs_at_once: 4,
        patience: Patience::default(),
    }
}

fn members() -> Members {
    Members::parse(
        r#"{"nodename":"pve1","version":7,"cluster":{"name":"c","version":2,"nodes":3,"quorate":1},
            "nodelist":{"pve1":{"id":1,"online":1,"ip":"192.0.2.11"},"pve2":{"id":2,"online":1,"ip":"192.0.2.12"},
                        "pve3":{"id":3,"online":0}}}"#,
    )
    .unwrap()
}

fn planned_with(limits: Limits, body: &str) -> Result<Plan, Invalid> {
    let settings = Settings { limits, ..settings() };
    plan(Request::parse(body.as_bytes())?, &settings, &Catalogue::builtin(), &members())
}

/// A request for Debian 12 with some more fields.
fn planned(fields: &str) -> Result<Plan, Invalid> {
    planned_with(Limits::default(), &format!(r#"{{"os":"debian","version":"12"{fields}}}"#))
}

fn refusal(fields: &str) -> String {
    planned(fields).unwrap_err().to_string()
}

#[test]
fn what_cannot_work_is_refused_with_what_would_be_right() {
    let long = format!(r#","name":"{}""#, "a".repeat(64));
    let refusals = [
        r#","id":5"#,
        r#","id":99"#,
        r#","id":255"#,
        r#","id":300"#,
        r#","id":-1"#,
        r#","id":"abc""#,
        r#","id":[1]"#,
        r#","name":"web 1""#,
        r#","name":"a\"b""#,
        r#","name":"a;b""#,
        r#","name":"wéb""#,
        r#","name":"-web""#,
        r#","name":"web_1""#,
        r#","name":"web-""#,
        &long,
        r#","user":"a;b""#,
        r#","user":"-oProxyCommand=x""#,
        r#","user":"yes""#,
        r#","user":"Deploy""#,
        r#","user":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa""#,
        r#","disk":"abc""#,
        r#","disk":"1T""#,
        r#","disk":"16.5G""#,
        r#","disk":"32g""#,
        r#","disk":" 32G""#,
        r#","disk":"9999999999999G""#,
        r#","disk":"131073""#,
        r#","node":"pve9""#,
        r#","node":"pve3""#,
        r#","node":"pve1.example.org""#,
        r#","passwd":"a\nb""#,
        r#","pubkey":"garbage""#,
    ]
    .map(refusal);
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    id 5 is not a whole number between 100 and 254, the last host of the VMs' network
    id 99 is not a whole number between 100 and 254, the last host of the VMs' network
    id 255 is not a whole number between 100 and 254, the last host of the VMs' network
    id 300 is not a whole number between 100 and 254, the last host of the VMs' network
    id -1 is not a whole number between 100 and 254, the last host of the VMs' network
    id "abc" is not a whole number between 100 and 254, the last host of the VMs' network
    id [1] is not a whole number between 100 and 254, the last host of the VMs' network
    name "web 1" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "web-1"
    name "a\"b" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "a-b"
    name "a;b" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "a-b"
    name "wéb" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "w-b"
    name "-web" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "web"
    name "web_1" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "web-1"
    name "web-" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "web"
    name "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    user "a;b" is not a user name ([a-z_][a-z0-9_-]*, at most 32 characters)
    user "-oProxyCommand=x" is not a user name ([a-z_][a-z0-9_-]*, at most 32 characters)
    user "yes" is not a text in cloud-init's YAML: take another
    user "Deploy" is not a user name ([a-z_][a-z0-9_-]*, at most 32 characters)
    user "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" is not a user name ([a-z_][a-z0-9_-]*, at most 32 characters)
    disk "abc" is not a size in GiB such as "32G"
    disk "1T" is not a size in GiB such as "32G"
    disk "16.5G" is not a size in GiB such as "32G"
    disk "32g" is not a size in GiB such as "32G"
    disk " 32G" is not a size in GiB such as "32G"
    disk "9999999999999G" is larger than 131072G
    disk "131073" is larger than 131072G
    node "pve9" is not a node of this cluster (pve1, pve2, pve3)
    node "pve3" is offline
    node "pve1.example.org" is not a node of this cluster (pve1, pve2, pve3)
    passwd holds a control character or line break, which no login prompt takes
    pubkey line 1 is not a public key
    "#);
}

#[test]
fn an_image_outside_the_catalogue_is_refused() {
    let refusals = [r#"{"os":"arch","version":"1"}"#, r#"{"os":"debian","version":"6"}"#]
        .map(|body| planned_with(Limits::default(), body).unwrap_err().to_string());
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    os "arch" is not one of debian, rockylinux, ubuntu
    version "6" of debian is not one of 11, 12, 13
    "#);
}

#[test]
fn the_gateway_is_never_given_to_a_vm() {
    let settings = Settings { gateway: "192.168.0.200".parse().unwrap(), ..settings() };
    let request = Request::parse(br#"{"os":"debian","version":"12","id":200}"#).unwrap();
    let refused = plan(request, &settings, &Catalogue::builtin(), &members()).unwrap_err();
    insta::assert_snapshot!(refused, @"id 200 would be given the address of the gateway, 192.168.0.200");
}

#[test]
fn good_names_get_the_vmid_as_suffix() {
    let vmid = "120".parse().unwrap();
    let name = |fields: &str| planned(fields).unwrap().final_name(vmid);
    assert_eq!(name(r#","name":"web.example.org""#), "web.example.org-120");
    assert_eq!(name(r#","name":"10.0.0.5-app""#), "10.0.0.5-app-120");
    assert_eq!(name(r#","name":"Web""#), "Web-120");
    assert_eq!(name(""), "120-120");
}

#[test]
fn suggested_names_are_good_names() {
    for bad in ["web 1", "wéb", "-web", "web_1", "_", &"a".repeat(80), "a..b", &"x-".repeat(40)] {
        check_name(&suggest_name(bad, 254), 254).unwrap();
    }
}

#[test]
fn numbers_are_clamped_with_a_notice() {
    let limits =
        Limits { cpu: Some(16), ram_mib: Some(32768), disk_gib: Some(64), balloon_min_mib: 0 };
    let clamped = |fields: &str| {
        let body = format!(r#"{{"os":"debian","version":"12","passwd":"x"{fields}}}"#);
        let plan = planned_with(limits.clone(), &body).unwrap();
        let notices: Vec<_> =
            plan.notices.iter().map(|(step, text)| format!("{}: {text}", step.name())).collect();
        format!("{fields} = {} {} {} {}", plan.cpu, plan.ram_mib, plan.disk_gib, notices.join("; "))
    };
    let rows = [
        "",
        r#","cpu":-1"#,
        r#","cpu":0"#,
        r#","cpu":16"#,
        r#","cpu":999"#,
        r#","cpu":1e30"#,
        r#","ram":-1"#,
        r#","ram":511"#,
        r#","ram":512"#,
        r#","ram":1e30"#,
        r#","disk":"-5G""#,
        r#","disk":"5""#,
        r#","disk":"15G""#,
        r#","disk":"16""#,
        r#","disk":"40""#,
        r#","disk":"64G""#,
        r#","disk":"65G""#,
        r#","disk":"99999999999999999999G""#,
        r#","ip":"1.2.3.4","colour":"red""#,
    ]
    .map(clamped);
    insta::assert_snapshot!(rows.join("\n"), @r#"
     = 1 512 16 
    ,"cpu":-1 = 1 512 16 preparation > validating CPU and RAM: cpu -1 → 1 (the minimum)
    ,"cpu":0 = 1 512 16 preparation > validating CPU and RAM: cpu 0 → 1 (the minimum)
    ,"cpu":16 = 16 512 16 
    ,"cpu":999 = 16 512 16 preparation > validating CPU and RAM: cpu 999 → 16 (VM_MAX_CPU)
    ,"cpu":1e30 = 16 512 16 preparation > validating CPU and RAM: cpu 9223372036854775807 → 16 (VM_MAX_CPU)
    ,"ram":-1 = 1 512 16 preparation > validating CPU and RAM: ram -1 → 512 (the minimum)
    ,"ram":511 = 1 512 16 preparation > validating CPU and RAM: ram 511 → 512 (the minimum)
    ,"ram":512 = 1 512 16 
    ,"ram":1e30 = 1 32768 16 preparation > validating CPU and RAM: ram 9223372036854775807 → 32768 (VM_MAX_RAM)
    ,"disk":"-5G" = 1 512 16 preparation > validating disk size: disk -5 → 16 (the minimum)
    ,"disk":"5" = 1 512 16 preparation > validating disk size: disk 5 → 16 (the minimum)
    ,"disk":"15G" = 1 512 16 preparation > validating disk size: disk 15 → 16 (the minimum)
    ,"disk":"16" = 1 512 16 
    ,"disk":"40" = 1 512 40 
    ,"disk":"64G" = 1 512 64 
    ,"disk":"65G" = 1 512 64 preparation > validating disk size: disk 65 → 64 (VM_MAX_DISK)
    ,"disk":"99999999999999999999G" = 1 512 64 preparation > validating disk size: disk 9223372036854775807 → 64 (VM_MAX_DISK)
    ,"ip":"1.2.3.4","colour":"red" = 1 512 16 preparation > setting default config values: without effect: ip, colour
    "#);
}

#[test]
fn the_main_node_is_no_migration() {
    assert_eq!(planned(r#","node":"pve1""#).unwrap().target, None);
    assert_eq!(planned(r#","node":"pve2""#).unwrap().target, Some("pve2".parse().unwrap()));
}

#[test]
fn a_secret_is_not_in_what_is_logged_of_a_plan() {
    let plan = planned(r#","passwd":"s3cret""#).unwrap();
    assert!(!format!("{plan:?} {}", plan.describe()).contains("s3cret"));
}

#[test]
fn ballooning_follows_its_rule() {
    let limits = |least| Limits { balloon_min_mib: least, ..Limits::default() };
    let rows = [(2048, 0), (3071, 2048), (3072, 2048), (65535, 2048), (65536, 2048), (65536, 0)]
        .map(|(ram, least)| balloon(ram, &limits(least)));
    assert_eq!(rows, [None, None, Some(1024), Some(63487), Some(49152), None]);
}

proptest! {
    #[test]
    fn a_plan_is_always_inside_the_limits(
        cpu in any::<i64>(), ram in any::<i64>(), disk in any::<i64>(),
        most_cpu in 1_u32..1000, most_ram in 512_u64..1_000_000, most_disk in 16_u64..100_000,
    ) {
        let limits = Limits {
            cpu: Some(most_cpu), ram_mib: Some(most_ram), disk_gib: Some(most_disk), balloon_min_mib: 0,
        };
        let body = format!(r#"{{"os":"debian","version":"12","cpu":{cpu},"ram":{ram},"disk":"{disk}G"}}"#);
        let plan = planned_with(limits, &body).unwrap();
        prop_assert!((1..=most_cpu).contains(&plan.cpu));
        prop_assert!((512..=most_ram).contains(&plan.ram_mib));
        prop_assert!((16..=most_disk).contains(&plan.disk_gib));
    }
}
