//! The Debian mirror, as apt itself knows it.

use anyhow::Context;

use super::command::Command;

/// The release that the cloud image is made of.
pub(super) const SUITE: &str = "bookworm";

/// Lines of a `sources.list` for everything that apt here takes of that release.
///
/// On a machine of another release, the release alone from the same mirror.
pub(super) fn sources() -> anyhow::Result<Vec<String>> {
    let targets = targets()?;
    let suites = [SUITE.to_owned(), format!("{SUITE}-updates"), format!("{SUITE}-security")];
    let own: Vec<String> = targets
        .iter()
        .filter(|target| target.component == "main" && suites.contains(&target.suite))
        .map(|target| format!("deb {} {} main", target.mirror, target.suite))
        .collect();
    if own.iter().any(|line| line.ends_with(&format!(" {SUITE} main"))) {
        return Ok(own);
    }
    Ok(vec![format!("deb {} {SUITE} main", base()?)])
}

/// The address of the mirror itself.
pub(super) fn base() -> anyhow::Result<String> {
    let targets = targets()?;
    let same = targets.iter().find(|target| target.suite == SUITE);
    let debian = || targets.iter().find(|target| target.mirror.ends_with("/debian/"));
    let target = same.or_else(debian).context("apt's configuration names no Debian mirror")?;
    Ok(target.mirror.clone())
}

/// Settings of apt that a mirror or a proxy in between may need, as options on a command line.
pub(super) fn options() -> anyhow::Result<Vec<String>> {
    const NAMES: [&str; 3] =
        ["Acquire::http::Proxy", "Acquire::https::Proxy", "Acquire::Check-Valid-Until"];
    let dump = Command::new("apt-config").args(["dump", "--no-empty"]).read()?;
    let wanted = |line: &&str| NAMES.iter().any(|name| line.starts_with(&format!("{name} ")));
    Ok(dump.lines().filter(wanted).map(str::to_owned).collect())
}

struct Target {
    mirror: String,
    suite: String,
    component: String,
}

fn targets() -> anyhow::Result<Vec<Target>> {
    let format = "$(REPO_URI) $(RELEASE) $(COMPONENT)";
    let text = Command::new("apt-get")
        .args(["indextargets", "--format", format, "Created-By: Packages"])
        .read()
        .context("cannot ask apt for its mirrors")?;
    let target = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some(Target { mirror: words.next()?, suite: words.next()?, component: words.next()? })
    };
    Ok(text.lines().filter_map(target).collect())
}
