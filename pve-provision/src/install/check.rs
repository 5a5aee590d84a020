//! A look at the node before the first install: everything that would be in its way, at once.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::commands;
use super::installer::Inner;
use super::installer::Installer;
use super::problem::chain;
use super::storage;

const COMMANDS: [&str; 5] = ["qm", "pvesm", "pvesh", "ssh", "ssh-keygen"];
const KEYS: [&str; 3] = ["id_ed25519", "id_rsa", "id_ecdsa"];
/// What the largest cloud images take.
const ROOM: u64 = 2 << 30;
/// As `statfs` tells a file system in memory.
const TMPFS: i64 = 0x0102_1994;
/// Where the rules are by which systemd removes old files; a name in an earlier directory hides a later one.
const AGE_RULES: [&str; 3] = ["/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/lib/tmpfiles.d"];

/// What a look at the node has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// What makes an install fail, each with the variable and what would be right.
    pub problems: Vec<String>,
    /// What is worth knowing.
    pub notices: Vec<String>,
}

impl Installer {
    /// Looks at the node and changes nothing.
    pub async fn check(&self, image_directory: &Path) -> Findings {
        let cx = &self.0;
        let mut findings = Findings::default();
        findings.commands(&cx.settings.path);
        findings.cluster(cx);
        findings.storage(cx).await;
        findings.bridge(Path::new("/sys/class/net/vmbr0"));
        findings.key(&cx.settings.home);
        findings.images(image_directory);
        let resolver = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        findings.scripts(cx);
        findings.resolver(cx.settings.nameserver.as_deref(), &resolver);
        findings
    }
}

impl Findings {
    fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    fn notice(&mut self, text: impl Into<String>) {
        self.notices.push(text.into());
    }

    fn commands(&mut self, path: &str) {
        let missing =
            |name: &&str| !path.split(':').any(|part| Path::new(part).join(name).is_file());
        let missing: Vec<&str> = COMMANDS.into_iter().filter(|name| missing(name)).collect();
        if !missing.is_empty() {
            self.problem(format!("PATH does not lead to {}; it is {path}", missing.join(", ")));
        }
    }

    fn cluster(&mut self, cx: &Inner) {
        let members = match cx.directory.members() {
            Ok(members) => members,
            Err(error) => {
                let path = cx.settings.pve_directory.display();
                return self.problem(format!(
                    "PVE_DIR {path} is not the cluster's file system, or it is not mounted: {error}"
                ));
            }
        };
        let (said, real) = (cx.settings.main_node.as_str(), &members.own_name);
        if said != real {
            self.problem(format!("MAIN_NODE is '{said}', but this node is '{real}'"));
        }
        if !members.quorate {
            self.problem(
                "the cluster has no quorum, so nothing can be changed: see 'pvecm status'",
            );
        }
        for name in cx.settings.nodes.keys().filter(|name| members.online(name).is_none()) {
            let names = members.names().join(", ");
            self.notice(format!("NODE_{name} names no node of this cluster ({names})"));
        }
    }

    async fn storage(&mut self, cx: &Inner) {
        let name = cx.settings.storage.as_str();
        let status = match cx.exec.here(commands::pvesm_status(), None).await {
            Ok(output) => output.stdout,
            Err(error) => {
                return self.problem(format!("the storages are not known: {}", chain(&error)));
            }
        };
        let config = match cx.directory.storage(name) {
            Ok(config) => config,
            Err(error) => return self.problem(format!("the storages cannot be read: {error}")),
        };
        let nodes = [cx.settings.main_node.as_str()];
        if let Err(what) = storage::check(&status, config.as_ref(), name, &nodes) {
            self.problem(what);
        }
    }

    fn bridge(&mut self, device: &Path) {
        if !device.exists() {
            self.problem("there is no bridge vmbr0 on this node, and the VMs are attached to it");
        }
    }

    fn key(&mut self, home: &Path) {
        let directory = home.join(".ssh");
        let found = KEYS.map(|name| directory.join(name)).into_iter().find(|path| path.exists());
        let Some(key) = found else {
            let new = directory.join(KEYS[0]);
            return self.notice(format!(
                "this node has no SSH key yet; the first install makes {}",
                new.display()
            ));
        };
        let mode = fs::metadata(&key).map(|file| file.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o077 != 0) {
            let key = key.display();
            self.problem(format!(
                "{key} can be read by others, and ssh does not use such a key: chmod 600 {key}"
            ));
        }
    }

    fn images(&mut self, directory: &Path) {
        let shown = directory.display();
        let room = rustix::fs::statvfs(directory);
        let kind = rustix::fs::statfs(directory);
        let (Ok(room), Ok(kind)) = (room, kind) else {
            return self.problem(format!("IMAGE_DIR {shown} does not exist"));
        };
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        if free < ROOM {
            let (free, wanted) = (free >> 20, ROOM >> 20);
            self.problem(format!(
                "IMAGE_DIR {shown} has {free} MiB free; images take up to {wanted} MiB each"
            ));
        }
        #[expect(clippy::unnecessary_cast, reason = "the type differs between architectures")]
        if kind.f_type as i64 == TMPFS {
            self.notice(format!("IMAGE_DIR {shown} is in memory: images are gone after a reboot"));
        }
        if let Some(rule) = age_rule(&age_rules(&AGE_RULES.map(Path::new)), directory) {
            self.notice(format!("systemd removes old files from IMAGE_DIR {shown} ({rule}): images are downloaded again then"));
        }
    }

    /// What an install would find out when its VM is made.
    fn scripts(&mut self, cx: &Inner) {
        if let Some(directory) =
            cx.settings.script_directory.as_deref().filter(|path| !path.is_dir())
        {
            let shown = directory.display();
            self.problem(format!("INIT_SCRIPT_DIR {shown} is not a directory"));
        }
        let zones = Path::new("/usr/share/zoneinfo");
        if let Some(zone) = cx.settings.timezone.as_deref()
            && zones.is_dir()
            && !zones.join(zone).is_file()
        {
            self.problem(format!("VM_TIMEZONE: this node knows no time zone '{zone}'"));
        }
    }

    fn resolver(&mut self, said: Option<&str>, resolver: &str) {
        let used: Vec<&str> = match said {
            Some(said) => said.split_whitespace().collect(),
            None => resolver
                .lines()
                .filter_map(|line| {
                    line.trim().strip_prefix("nameserver")?.split_whitespace().next()
                })
                .collect(),
        };
        let local =
            |text: &&&str| text.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if let Some(address) = used.iter().find(local) {
            let whose = if said.is_some() {
                "VM_NAMESERVER"
            } else {
                "VM_NAMESERVER is not set and this node's own resolver"
            };
            self.problem(format!("{whose} is {address}, which a VM cannot reach; set VM_NAMESERVER to one that it can"));
        } else if used.is_empty() {
            self.problem(
                "VM_NAMESERVER is not set and this node has no resolver, so a VM would have none",
            );
        }
    }
}

/// The files of these directories, without those that an earlier directory hides.
fn age_rules(directories: &[&Path]) -> String {
    let mut files = BTreeMap::new();
    for directory in directories {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|ending| ending == "conf") {
                files.entry(entry.file_name()).or_insert_with(|| entry.path());
            }
        }
    }
    let texts = files.values().filter_map(|path| fs::read_to_string(path).ok());
    texts.collect::<Vec<_>>().join("\n")
}

/// The rule by which files of `directory` are removed when they are old, if there is one.
fn age_rule(rules: &str, directory: &Path) -> Option<String> {
    rules.lines().map(str::trim).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kind, path, _, _, _, age, ..] = words[..] else { return None };
        let ages = !kind.starts_with(['#', 'x', 'X'])
            && age != "-"
            && age.starts_with(|first: char| first.is_ascii_digit() || first == '~');
        (ages && Path::new(path) == directory).then(|| format!("{path}, {age}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(look: impl FnOnce(&mut Findings)) -> Findings {
        let mut findings = Findings::default();
        look(&mut findings);
        findings
    }

    #[test]
    fn a_resolver_that_a_vm_cannot_reach_is_a_problem() {
        let problems =
            |said, conf: &str| found(|findings| findings.resolver(said, conf)).problems.join("");
        insta::assert_snapshot!(problems(None, "search lan\nnameserver 127.0.0.53\n"), @"VM_NAMESERVER is not set and this node's own resolver is 127.0.0.53, which a VM cannot reach; set VM_NAMESERVER to one that it can");
        insta::assert_snapshot!(problems(Some("192.0.2.53 ::1"), ""), @"VM_NAMESERVER is ::1, which a VM cannot reach; set VM_NAMESERVER to one that it can");
        insta::assert_snapshot!(problems(None, "# nothing\n"), @"VM_NAMESERVER is not set and this node has no resolver, so a VM would have none");
        assert_eq!(problems(None, "nameserver 192.0.2.53\n"), "");
        assert_eq!(problems(Some("192.0.2.53"), "nameserver 127.0.0.1\n"), "");
    }

    #[test]
    fn an_age_rule_is_found_unless_a_file_of_the_same_name_hides_it() {
        let directory = tempfile::tempdir().unwrap();
        let (own, shipped) = (directory.path().join("own"), directory.path().join("shipped"));
        for path in [&own, &shipped] {
            fs::create_dir(path).unwrap();
        }
        let rules = "# a comment\nq /tmp 1777 root root 10d\nd /var/tmp 1777 root root -\nx /srv - - - 5d\n";
        fs::write(shipped.join("tmp.conf"), rules).unwrap();
        let rule = |path: &str| age_rule(&age_rules(&[&own, &shipped]), Path::new(path));

        assert_eq!(rule("/tmp").as_deref(), Some("/tmp, 10d"));
        assert_eq!((rule("/var/tmp"), rule("/srv")), (None, None));
        fs::write(own.join("tmp.conf"), "").unwrap();
        assert_eq!(rule("/tmp"), None);
    }

    #[test]
    fn a_node_without_anything_is_told_all_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path();
        let findings = found(|findings| {
            findings.commands("/nonexistent");
            findings.bridge(&home.join("vmbr0"));
            findings.key(home);
            findings.images(&home.join("images"));
        });
        let text = findings
            .problems
            .iter()
            .chain(&findings.notices)
            .map(|text| text.replace(home.to_str().unwrap(), "<home>"));
        insta::assert_snapshot!(text.collect::<Vec<_>>().join("\n"), @"
        PATH does not lead to qm, pvesm, pvesh, ssh, ssh-keygen; it is /nonexistent
        there is no bridge vmbr0 on this node, and the VMs are attached to it
        IMAGE_DIR <home>/images does not exist
        this node has no SSH key yet; the first install makes <home>/.ssh/id_ed25519
        ");
    }

    #[test]
    fn a_key_that_others_can_read_is_a_problem() {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join(".ssh/id_rsa");
        fs::create_dir(directory.path().join(".ssh")).unwrap();
        fs::write(&key, "").unwrap();
        for (mode, problems) in [(0o600, 0), (0o640, 1)] {
            fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
            let findings = found(|findings| findings.key(directory.path()));
            assert_eq!((findings.problems.len(), findings.notices.len()), (problems, 0));
        }
    }
}
