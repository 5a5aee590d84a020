//! How an acted guest behaves: when it can be reached, what its first boot does, how its script goes.

use std::hash::BuildHasher;
use std::hash::RandomState;
use std::time::Duration;

use bytes::Bytes;

pub use crate::ssh::Stream;

/// How a guest behaves from power-on to the end of its script. The default is a good guest in a hurry.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// The first boot.
    pub first: Boot,
    /// Every boot after that.
    pub again: Boot,
    /// What cloud-init does in the first boot.
    pub cloud_init: CloudInit,
    /// How the init script goes.
    pub script: Script,
    /// Which host key is shown.
    pub host_key: HostKey,
    /// How long it takes to power off when it is asked to; never means that it ignores it.
    pub powers_off: When,
    /// For how long the old boot still answers after a reboot has been acknowledged.
    pub lingers: Duration,
    /// Whether the keys open `root` too, beside the configured user.
    pub root: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            first: Boot::default(),
            again: Boot::default(),
            cloud_init: CloudInit::default(),
            script: Script::default(),
            host_key: HostKey::Kept,
            powers_off: When::After(Duration::from_millis(10)),
            lingers: Duration::ZERO,
            root: false,
        }
    }
}

impl Behaviour {
    /// A good guest that takes its time, for people to watch: some ten seconds until all is done.
    pub fn unhurried() -> Self {
        let seconds = Duration::from_secs;
        let boot = Boot {
            port: When::Between(seconds(1), seconds(3)),
            banner: When::After(Duration::from_millis(300)),
            login: When::After(Duration::from_millis(700)),
            ..Boot::default()
        };
        let lines = [
            "Hit:1 http://deb.example.org/debian stable InRelease\n",
            "Reading package lists...\n",
            "Calculating upgrade...\n",
            "0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n",
            "Setting up qemu-guest-agent ...\n",
        ];
        let lines = lines.map(|line| Play::out(line).after(Duration::from_millis(400))).into();
        Self {
            first: boot.clone(),
            again: boot,
            cloud_init: CloudInit { takes: seconds(2), ..CloudInit::default() },
            script: Script { lines, ..Script::default() },
            powers_off: When::After(seconds(1)),
            ..Self::default()
        }
    }
}

/// When something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// After this long.
    After(Duration),
    /// At a random moment between the two.
    Between(Duration, Duration),
    /// Not at all.
    Never,
}

impl When {
    /// At once.
    pub const NOW: Self = Self::After(Duration::ZERO);

    /// Settles for one moment.
    pub(crate) fn pick(self) -> Option<Duration> {
        match self {
            Self::After(after) => Some(after),
            Self::Between(low, high) => {
                Some(low + high.saturating_sub(low).mul_f64(random_share()))
            }
            Self::Never => None,
        }
    }
}

/// A number from 0 up to 1. The hasher's keys are the one source of randomness in the standard library.
fn random_share() -> f64 {
    let number = RandomState::new().hash_one(0) >> 32;
    f64::from(u32::try_from(number).unwrap_or_default()) / f64::from(u32::MAX)
}

/// How a boot becomes reachable. Each moment counts from the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    /// From power-on until the port opens; before that a connection is refused.
    pub port: When,
    /// For how long an open port resets every connection.
    pub resets: Duration,
    /// From then until the banner comes; connections made before wait for it.
    pub banner: When,
    /// From then until a login is accepted; until then every key is refused.
    pub login: When,
}

impl Default for Boot {
    fn default() -> Self {
        Self {
            port: When::After(Duration::from_millis(20)),
            resets: Duration::ZERO,
            banner: When::NOW,
            login: When::After(Duration::from_millis(10)),
        }
    }
}

impl Boot {
    /// Whatever is asked works from the first moment on.
    pub const READY: Self =
        Self { port: When::NOW, resets: Duration::ZERO, banner: When::NOW, login: When::NOW };
}

/// What `cloud-init status --wait` will say, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudInit {
    /// From the first possible login until cloud-init has ended.
    pub takes: Duration,
    /// How it ends.
    pub end: CloudInitEnd,
}

impl Default for CloudInit {
    fn default() -> Self {
        Self { takes: Duration::from_millis(20), end: CloudInitEnd::Done }
    }
}

/// How cloud-init ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudInitEnd {
    /// Exit code 0.
    Done,
    /// Exit code 1.
    Failed,
    /// Exit code 2: it has recovered from errors.
    Degraded,
    /// There is no cloud-init: exit code 127.
    Missing,
    /// It never ends.
    Hangs,
}

/// How a script that arrives on standard input goes.
#[derive(Debug, Clone)]
pub struct Script {
    /// What it prints, in order.
    pub lines: Vec<Play>,
    /// How it ends after the last line.
    pub end: End,
}

impl Default for Script {
    fn default() -> Self {
        let lines = [
            Play::out("Hit:1 http://deb.example.org/debian stable InRelease\n"),
            Play::err(
                "debconf: delaying package configuration, since apt-utils is not installed\n",
            ),
            Play::out("Setting up qemu-guest-agent ...\n"),
        ];
        Self { lines: lines.into(), end: End::Code(0) }
    }
}

/// One piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Play {
    /// How long after the piece before.
    pub after: Duration,
    /// On which stream.
    pub stream: Stream,
    /// The bytes as they are; a line feed is not added.
    pub bytes: Bytes,
}

impl Play {
    /// Bytes on standard output, at once.
    pub fn out(bytes: impl Into<Bytes>) -> Self {
        Self { after: Duration::ZERO, stream: Stream::Out, bytes: bytes.into() }
    }

    /// Bytes on standard error, at once.
    pub fn err(bytes: impl Into<Bytes>) -> Self {
        Self { stream: Stream::Err, ..Self::out(bytes) }
    }

    /// The same after a while.
    #[must_use]
    pub fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }
}

/// How a script ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Code(u32),
    /// With this exit code, and leaves a process that never closes its output.
    LeavesProcess(u32),
    /// Killed by a signal.
    Killed,
    /// The connection is reset under it.
    LinkReset,
    /// The connection goes silent under it: nothing is said any more, by nobody.
    LinkSilent,
    /// It never ends.
    Hangs,
}

/// Which host key a guest shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKey {
    /// The same for as long as the guest exists.
    Kept,
    /// Another one for every connection after the first login.
    NewAfterFirstLogin,
    /// Another one for every boot.
    NewEachBoot,
}
