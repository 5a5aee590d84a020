use std::ffi::OsString;
use std::io::Write;

use secrecy::ExposeSecret;

use super::*;

/// As the users of the original have it.
const EXAMPLE: &str = "\
PORT=8080
MAIN_NODE=pve1
GATEWAY=192.168.0.1
ALLOW_IPS=0.0.0.0
NODE_pve1=192.168.0.11
NODE_pve2=192.168.0.12
ASSIGN_IP_START=100
ASSIGN_IP_END=254
ASSIGN_STORAGE=local-zfs
VM_MAX_CPU=32
VM_MAX_DISK=64
VM_MAX_RAM=32768
VM_BALLOON_MIN=2048 # minimum RAM for ballooning
VM_ROOT_PASSWORD=
";

const LEAST: &str = "MAIN_NODE=pve1\nGATEWAY=192.0.2.1\nASSIGN_STORAGE=local\n";

/// Settings of a `.env` file and an environment.
fn load(file: &str, environment: &[(&str, &str)]) -> Result<Settings, String> {
    let mut env_file = tempfile::NamedTempFile::new().unwrap();
    env_file.write_all(file.as_bytes()).unwrap();
    let base = [("HOME", "/root"), ("PATH", "/usr/bin")];
    let pairs = base
        .iter()
        .chain(environment)
        .map(|(name, value)| (OsString::from(*name), OsString::from(*value)));
    let variables = Variables::load(env_file.path(), pairs).unwrap();
    Settings::parse(variables, BTreeSet::from(["node.example.org".to_owned()]))
        .map_err(|problems| problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))
}

fn with(line: &str) -> Settings {
    load(&format!("{LEAST}{line}\n"), &[]).unwrap()
}

#[test]
fn the_env_file_of_the_original_works_as_it_is() {
    insta::assert_debug_snapshot!(load(EXAMPLE, &[]).unwrap(), @r#"
    Settings {
        listen: [::]:8080,
        access: Access {
            allowed: All,
            trusted_proxies: [],
            token: None,
            host_names: {
                "node.example.org",
                "pve1",
                "pve2",
            },
        },
        images: CacheSettings {
            directory: "/tmp",
            head: Required,
            verify: true,
        },
        images_file: None,
        install: Settings {
            main_node: NodeName(
                "pve1",
            ),
            gateway: Gateway {
                address: 192.168.0.1,
                prefix: 24,
            },
            first_vmid: 100,
            last_vmid: 254,
            storage: StorageId(
                "local-zfs",
            ),
            limits: Limits {
                cpu: Some(
                    32,
                ),
                ram_mib: Some(
                    32768,
                ),
                disk_gib: Some(
                    64,
                ),
                balloon_min_mib: 2048,
            },
            root_password: None,
            nodes: {
                "pve1": "192.168.0.11",
                "pve2": "192.168.0.12",
            },
            ssh_port: 22,
            nameserver: None,
            timezone: None,
            script_directory: None,
            pve_directory: "/etc/pve",
            state_directory: "/var/lib/pve-server",
            home: "/root",
            path: "/usr/bin",
            installs_at_once: 4,
            patience: Patience {
                ready: 300s,
                between_logins: 5s,
                lock: 45s,
                appearance: 10s,
                between_resizes: 5s,
                cloud_init: 600s,
                script: 3600s,
            },
        },
        notices: [],
    }
    "#);
}

#[test]
fn the_defaults_are_those_of_the_documentation() {
    insta::assert_debug_snapshot!(load(LEAST, &[]).unwrap(), @r#"
    Settings {
        listen: [::]:8080,
        access: Access {
            allowed: Only(
                [
                    127.0.0.0/8,
                    ::1/128,
                ],
            ),
            trusted_proxies: [],
            token: None,
            host_names: {
                "node.example.org",
                "pve1",
            },
        },
        images: CacheSettings {
            directory: "/tmp",
            head: Required,
            verify: true,
        },
        images_file: None,
        install: Settings {
            main_node: NodeName(
                "pve1",
            ),
            gateway: Gateway {
                address: 192.0.2.1,
                prefix: 24,
            },
            first_vmid: 100,
            last_vmid: 254,
            storage: StorageId(
                "local",
            ),
            limits: Limits {
                cpu: None,
                ram_mib: None,
                disk_gib: None,
                balloon_min_mib: 0,
            },
            root_password: None,
            nodes: {},
            ssh_port: 22,
            nameserver: None,
            timezone: None,
            script_directory: None,
            pve_directory: "/etc/pve",
            state_directory: "/var/lib/pve-server",
            home: "/root",
            path: "/usr/bin",
            installs_at_once: 4,
            patience: Patience {
                ready: 300s,
                between_logins: 5s,
                lock: 45s,
                appearance: 10s,
                between_resizes: 5s,
                cloud_init: 600s,
                script: 3600s,
            },
        },
        notices: [],
    }
    "#);
}

#[test]
fn all_problems_are_told_at_once() {
    let wrong = "\
PORT=80x
LISTEN=eth0
MAIN_NODE=pve_1
GATEWAY=192.168.0
ALLOW_IPS=10.0.0.0/33, here
TRUSTED_PROXIES=proxy
HOST_NAMES=a b
NODE_pve2=-oProxyCommand=x
ASSIGN_IP_START=200
ASSIGN_IP_END=150
ASSIGN_STORAGE=
VM_MAX_CPU=-1
VM_MAX_RAM=256
VM_MAX_DISK=1T
VM_BALLOON_MIN=some
VM_SSH_PORT=0
VM_NAMESERVER=dns
VM_TIMEZONE=../etc/passwd
INSTALLS_AT_ONCE=0
IMAGE_DIR=images
IMAGE_HEAD=yes
IMAGE_VERIFY=no
IMAGES_FILE=~root/images.toml
INIT_SCRIPT_DIR=scripts
STATE_DIR=state
PVE_DIR=pve
API_TOKEN='top secret'
VM_ROOT_PASSWORD=\"top\\nsecret\"
this line is no variable
";
    insta::assert_snapshot!(load(wrong, &[("HOME", "")]).unwrap_err(), @r#"
    .env line 29 cannot be read; it must be NAME=value, NAME='value' or NAME="value"
    PORT is '80x'; it must be a port, 0 to 65535
    LISTEN is 'eth0'; it must be an address, or an address and a port, such as 127.0.0.1 or [::1]:8080
    HOME is not set; it must be the home directory, an absolute path
    IMAGE_DIR is 'images'; it must be an absolute path, or one that begins with ~/
    IMAGE_HEAD is 'yes'; it must be 'required' or 'optional'
    IMAGE_VERIFY is 'no'; it must be 'on' or 'off'
    IMAGES_FILE is '~root/images.toml'; it must be an absolute path, or one that begins with ~/
    NODE_pve2 is '-oProxyCommand=x'; it must be the address of that node, host or host:port
    MAIN_NODE is 'pve_1'; it must be the name of the node whose qm is run
    GATEWAY is '192.168.0'; it must be the gateway of the VMs, such as 192.0.2.1, or 10.0.0.1/22 where the network is not a /24
    ASSIGN_STORAGE is not set; it must be the name of the storage for the disks
    ASSIGN_IP_START is 200; it must not be above ASSIGN_IP_END, 150
    VM_MAX_CPU is '-1'; it must be a number of cores, 0 for no cap
    VM_MAX_RAM is '256'; it must be a number of MiB of at least 512, 0 for no cap
    VM_MAX_DISK is '1T'; it must be a number of GiB of at least 16, such as 64 or 64G, 0 for no cap
    VM_BALLOON_MIN is 'some'; it must be a number of MiB, 0 for no ballooning
    VM_ROOT_PASSWORD has a character that is no text; it must be one line in UTF-8
    VM_SSH_PORT is '0'; it must be a port, 1 to 65535
    VM_NAMESERVER has 'dns'; it must be the address of a resolver
    VM_TIMEZONE is '../etc/passwd'; it must be a time zone such as Europe/Berlin
    INIT_SCRIPT_DIR is 'scripts'; it must be an absolute path, or one that begins with ~/
    PVE_DIR is 'pve'; it must be an absolute path, or one that begins with ~/
    STATE_DIR is 'state'; it must be an absolute path, or one that begins with ~/
    INSTALLS_AT_ONCE is '0'; it must be a number of at least 1
    ALLOW_IPS has '10.0.0.0/33'; it must be addresses and networks such as 192.0.2.7, 192.0.2.0/24; 0.0.0.0 for all
    ALLOW_IPS has 'here'; it must be addresses and networks such as 192.0.2.7, 192.0.2.0/24; 0.0.0.0 for all
    TRUSTED_PROXIES has 'proxy'; it must be addresses and networks such as 192.0.2.7, 192.0.2.0/24
    HOST_NAMES has 'a b'; it must be names such as pve.example.org
    API_TOKEN has a character that a header cannot carry; it must be visible ASCII without blanks
    "#);
}

#[test]
fn a_missing_file_is_an_empty_one() {
    let variables = Variables::load(std::path::Path::new("/nonexistent/.env"), []).unwrap();
    let problems = Settings::parse(variables, BTreeSet::new()).unwrap_err();
    let problems: Vec<_> = problems.iter().map(Problem::to_string).collect();
    insta::assert_snapshot!(problems.join("\n"), @"
    HOME is not set; it must be the home directory, an absolute path
    MAIN_NODE is not set; it must be the name of the node whose qm is run
    GATEWAY is not set; it must be the gateway of the VMs, such as 192.0.2.1, or 10.0.0.1/22 where the network is not a /24
    ASSIGN_STORAGE is not set; it must be the name of the storage for the disks
    ");
}

#[test]
fn the_environment_wins_over_the_file() {
    let settings =
        load(EXAMPLE, &[("PORT", "9090"), ("NODE_pve2", "pve2.example.org:2222")]).unwrap();

    assert_eq!(settings.listen.port(), 9090);
    assert_eq!(settings.install.nodes["pve2"], "pve2.example.org:2222");
    assert!(settings.access.host_names.contains("pve2.example.org"));
    assert_eq!(settings.install.nodes["pve1"], "192.168.0.11");
}

#[test]
fn what_others_put_into_the_environment_under_our_prefix_does_no_harm() {
    let settings =
        load(LEAST, &[("NODE_OPTIONS", "--max-old-space-size=1"), ("NODE_ENV", "production")]);
    let settings = settings.unwrap();
    assert!(!settings.install.nodes.contains_key("OPTIONS"));
    assert_eq!(settings.notices, ["NODE_OPTIONS in the environment is not the address of a node"]);
}

#[test]
fn an_unknown_name_in_the_file_is_told() {
    let settings = with("ALOW_IPS=0.0.0.0");
    assert_eq!(settings.notices, ["ALOW_IPS in .env is not a setting of this server"]);
}

#[test]
fn listen_narrows_what_port_opens() {
    let listen = |lines: &str| with(lines).listen.to_string();
    assert_eq!(listen(""), "[::]:8080");
    assert_eq!(listen("PORT=81"), "[::]:81");
    assert_eq!(listen("PORT=81\nLISTEN=127.0.0.1"), "127.0.0.1:81");
    assert_eq!(listen("LISTEN=::1"), "[::1]:8080");
    assert_eq!(listen("PORT=81\nLISTEN=[::1]:82"), "[::1]:82");
}

#[test]
fn secrets_are_kept_as_written_and_never_shown() {
    let settings = with("VM_ROOT_PASSWORD=' pa$$ \"w#rd '\nAPI_TOKEN=s3cret-token");
    let password = settings.install.root_password.as_ref().unwrap();

    assert_eq!(password.expose_secret(), " pa$$ \"w#rd ");
    let shown = format!("{settings:?}");
    assert!(!shown.contains("w#rd") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn a_line_that_cannot_be_read_is_told_by_its_number_alone() {
    let problems = load(&format!("{LEAST}# a comment\nAPI TOKEN = s3cret\n"), &[]).unwrap_err();
    assert!(problems.starts_with(".env line 5 cannot be read"), "{problems}");
    assert!(!problems.contains("s3cret"), "{problems}");
}

#[test]
fn a_tilde_is_the_home_directory() {
    assert_eq!(with("STATE_DIR=~/state").install.state_directory, PathBuf::from("/root/state"));
}

#[test]
fn a_network_of_another_size_moves_the_end_of_the_range() {
    let range = |lines: &str| {
        let lines = format!("MAIN_NODE=pve1\nASSIGN_STORAGE=local\n{lines}");
        load(&lines, &[]).map(|settings| (settings.install.first_vmid, settings.install.last_vmid))
    };
    assert_eq!(range("GATEWAY=192.0.2.1"), Ok((100, 254)));
    assert_eq!(range("GATEWAY=10.0.0.1/22"), Ok((100, 1022)));
    assert_eq!(
        range("GATEWAY=10.0.0.1/22\nASSIGN_IP_START=300\nASSIGN_IP_END=400"),
        Ok((300, 400))
    );
    let problem = range("GATEWAY=192.0.2.1\nASSIGN_IP_END=255").unwrap_err();
    assert_eq!(
        problem,
        "ASSIGN_IP_END is '255'; it must be a number, 100 to 254, the last host of GATEWAY's network"
    );
    let problem = range("GATEWAY=192.0.2.1/28").unwrap_err();
    assert_eq!(problem, "GATEWAY has a network without a host 100; its prefix must be at most 25");
}

#[test]
fn line_ends_of_other_systems_and_a_missing_last_one_are_read() {
    let text = format!("\u{feff}{}", LEAST.replace('\n', "\r\n").trim_end());
    assert!(load(&text, &[]).is_ok());
}

#[test]
fn without_allowed_addresses_only_this_machine_may_call() {
    let access = with("ALLOW_IPS=").access;
    assert_eq!(
        access.allowed,
        Allowed::Only(vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()])
    );
    let access = with("ALLOW_IPS= 192.0.2.7 , 198.51.100.0/24 ").access;
    assert_eq!(
        access.allowed,
        Allowed::Only(vec!["192.0.2.7/32".parse().unwrap(), "198.51.100.0/24".parse().unwrap()])
    );
}
