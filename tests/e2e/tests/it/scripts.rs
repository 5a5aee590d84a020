//! Init scripts on bad days that no VM here has: stand-ins play the system's programs.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

const DEBIAN: &str = include_str!("../../../../pve-provision/scripts/debian.sh");
/// Fails as apt-get does when a release is named that the mirror has not.
const APT_GET: &str = r#"#!/bin/bash
[[ $* == *" update" ]] || exit 0
if grep --quiet --recursive --extended-regexp '^(deb|Suites:).*-backports' /etc/apt/; then
    echo "E: The repository 'http://deb.debian.org/debian bullseye-backports Release' does not have a Release file." >&2
    exit 100
fi
"#;
const NOTHING: &str = "#!/bin/sh\n";

/// Runs the script with `apt` of `directory` for `/etc/apt`, and the stand-ins of its `bin` before all
/// other programs.
fn run(directory: &Path) -> Output {
    let apt = directory.join("apt");
    let moved = |text: &str| text.replace("/etc/apt", apt.to_str().unwrap());
    let stand_ins = [("apt-get", APT_GET), ("systemctl", NOTHING), ("sleep", NOTHING)];
    let bin = directory.join("bin");
    fs::create_dir(&bin).unwrap();
    for (name, text) in stand_ins {
        fs::write(bin.join(name), moved(text)).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display());
    let mut command = Command::new("bash");
    command.arg("-s").env("PATH", path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(moved(DEBIAN).as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn backports_that_the_mirror_has_dropped_are_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let apt = directory.path().join("apt");
    fs::create_dir_all(apt.join("sources.list.d")).unwrap();
    let old = apt.join("sources.list");
    let lines = [
        "deb http://deb.debian.org/debian bullseye main",
        "deb http://deb.debian.org/debian bullseye-backports main",
        "deb-src http://deb.debian.org/debian bullseye-backports main",
    ];
    fs::write(&old, lines.join("\n") + "\n").unwrap();
    let new = apt.join("sources.list.d/debian.sources");
    fs::write(&new, "Types: deb\nSuites: trixie trixie-backports trixie-updates\n\nTypes: deb-src\nSuites: trixie-backports\n").unwrap();

    let output = run(directory.path());
    let said = String::from_utf8(output.stdout).unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}{complaint}");
    assert!(said.contains("no backports for this release any more"), "{said}");
    insta::assert_snapshot!(fs::read_to_string(old).unwrap(), @"
    deb http://deb.debian.org/debian bullseye main
    # deb http://deb.debian.org/debian bullseye-backports main
    # deb-src http://deb.debian.org/debian bullseye-backports main
    ");
    insta::assert_snapshot!(fs::read_to_string(new).unwrap(), @"
    Types: deb
    Suites: trixie trixie-updates

    Types: deb-src
    Suites:
    Enabled: no
    ");
}
