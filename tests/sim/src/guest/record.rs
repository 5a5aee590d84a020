//! What a guest has seen: boots, logins, commands. Kept after the guest is gone, for whoever asks then.

use std::time::SystemTime;

use crate::ssh::Exit;

/// Everything that one VM id has seen.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Its boots, oldest first.
    pub boots: Vec<BootSeen>,
    /// When connections were accepted.
    pub connections: Vec<SystemTime>,
    /// When connections that had offered a key ended without a login.
    pub refusals: Vec<SystemTime>,
    /// Successful logins.
    pub logins: Vec<Login>,
    /// The commands that arrived, oldest first.
    pub commands: Vec<Executed>,
}

impl Seen {
    /// The scripts that arrived on standard input, oldest first.
    pub fn scripts(&self) -> impl Iterator<Item = &[u8]> {
        self.commands.iter().filter_map(|command| command.script.as_deref())
    }

    /// The commands that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &Executed> {
        self.commands.iter().filter(|command| command.ended.is_none())
    }
}

/// One boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootSeen {
    /// What `/proc/sys/kernel/random/boot_id` says.
    pub id: String,
    /// When the power came on.
    pub began: SystemTime,
    /// When the port opened, if it has.
    pub port_open: Option<SystemTime>,
    /// From when on a login would succeed; known, and maybe still to come, once the port is open.
    pub login_possible: Option<SystemTime>,
}

/// One login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// As whom.
    pub user: String,
    /// When.
    pub at: SystemTime,
    /// The boot that accepted it.
    pub boot: String,
}

/// One command that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// The process id that it got.
    pub process: u32,
    /// As whom.
    pub user: String,
    /// Its text: what an argument list would show.
    pub text: String,
    /// The variables that the client sent along.
    pub environment: Vec<(String, String)>,
    /// What arrived on standard input, when it was read.
    pub script: Option<Vec<u8>>,
    /// The boot in which it ran.
    pub boot: String,
    /// When it began.
    pub began: SystemTime,
    /// When it ended and how; nothing while it runs.
    pub ended: Option<(SystemTime, Ended)>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(u32),
    /// By a signal that somebody sent it, or because its script is said to end so.
    Killed,
    /// With its connection.
    LinkLost,
    /// With its boot.
    PowerOff,
}

impl From<Exit> for Ended {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Code(code) | Exit::OutputOpen(code) => Self::Code(code),
            Exit::Killed => Self::Killed,
            Exit::Nothing => Self::LinkLost,
        }
    }
}
