//! The CPU type of new VMs: the highest level that every online node has.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use pve_api::NodeName;
use serde::Deserialize;
use tokio::sync::watch;

use super::commands;
use super::exec::Exec;
use super::pve_directory::PveDirectory;

/// How often the nodes are asked when nothing changes.
const REFRESH: Duration = Duration::from_mins(10);
/// How often the set of online nodes is looked at.
const LOOK: Duration = Duration::from_secs(10);
/// How long an install waits for the first answer.
pub(crate) const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// A CPU type of Proxmox VE, by what a machine has to be able to do.
///
/// `x86-64-v1` does not exist there; below v2 stands `kvm64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuLevel {
    /// Runs everywhere.
    Kvm64,
    /// Nehalem and later.
    V2,
    /// Westmere and later.
    V2Aes,
    /// Haswell and later.
    V3,
    /// Skylake servers and later.
    V4,
}

impl CpuLevel {
    const ALL: [Self; 5] = [Self::Kvm64, Self::V2, Self::V2Aes, Self::V3, Self::V4];

    /// The name that `qm create --cpu` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kvm64 => "kvm64",
            Self::V2 => "x86-64-v2",
            Self::V2Aes => "x86-64-v2-AES",
            Self::V3 => "x86-64-v3",
            Self::V4 => "x86-64-v4",
        }
    }

    /// The level of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// The flags that this level adds to the one below, as the kernel spells them.
    ///
    /// SSE3 is `pni` there, and LZCNT is `abm`.
    const fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Kvm64 => &[],
            Self::V2 => &["popcnt", "pni", "sse4_1", "sse4_2", "ssse3", "cx16", "lahf_lm"],
            Self::V2Aes => &["aes"],
            Self::V3 => &["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"],
            Self::V4 => &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"],
        }
    }

    /// The highest level of a machine with these flags.
    fn of(flags: &str) -> Self {
        let flags: BTreeSet<&str> = flags.split_whitespace().collect();
        let has = |level: &Self| level.flags().iter().all(|flag| flags.contains(flag));
        Self::ALL.into_iter().take_while(has).last().unwrap_or(Self::Kvm64)
    }
}

/// What is known of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeCpu {
    pub(crate) level: CpuLevel,
    pub(crate) cores: u32,
}

/// What is known of the online nodes; an error for each that could not be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) nodes: BTreeMap<String, Result<NodeCpu, String>>,
}

impl Survey {
    /// The level for a VM that may run on every node, and what the admin should know about it.
    pub(crate) fn baseline(&self) -> (CpuLevel, String) {
        if let Some((node, Err(why))) = self.nodes.iter().find(|(_, cpu)| cpu.is_err()) {
            return (CpuLevel::Kvm64, format!("kvm64, because {node} could not be asked: {why}"));
        }
        let levels =
            self.nodes.iter().filter_map(|(node, cpu)| Some((cpu.as_ref().ok()?.level, node)));
        match levels.min() {
            None => (CpuLevel::Kvm64, "kvm64, because no node has answered yet".to_owned()),
            Some((level, node)) if self.nodes.len() > 1 => {
                (level, format!("{}, the most that {node} has", level.name()))
            }
            Some((level, _)) => (level, level.name().to_owned()),
        }
    }

    pub(crate) fn node(&self, node: &str) -> Option<&NodeCpu> {
        self.nodes.get(node)?.as_ref().ok()
    }

    /// Why a VM of that many cores could not start on a node, as far as the node is known.
    pub(crate) fn lacks_cores(&self, node: &NodeName, cores: u32) -> Option<String> {
        let has = self.node(node.as_str())?.cores;
        (has < cores).then(|| {
            format!("cpu {cores} is more than {node} has ({has} threads): ask for fewer, or use another node")
        })
    }
}

/// Keeps the survey up to date in the background; installs never wait for a node.
#[derive(Debug)]
pub(crate) struct Baseline {
    survey: watch::Receiver<Option<Survey>>,
    _task: tokio_util::task::AbortOnDropHandle<()>,
}

impl Baseline {
    pub(crate) fn start(exec: Exec, directory: PveDirectory) -> Self {
        let (sender, survey) = watch::channel(None);
        let task = tokio::spawn(async move {
            let mut known = BTreeSet::new();
            // A node that could not be asked is asked again at the next look.
            let mut failed = false;
            let mut asked = tokio::time::Instant::now();
            loop {
                let online =
                    directory.members().map(|members| members.online_names()).unwrap_or_default();
                if online != known || failed || asked.elapsed() >= REFRESH {
                    asked = tokio::time::Instant::now();
                    let nodes =
                        futures_util::future::join_all(online.iter().map(|node| ask(&exec, node)))
                            .await;
                    let nodes: BTreeMap<_, _> = online.iter().cloned().zip(nodes).collect();
                    failed = nodes.values().any(Result::is_err);
                    sender.send_replace(Some(Survey { nodes }));
                    known = online;
                }
                tokio::time::sleep(LOOK).await;
            }
        });
        Self { survey, _task: tokio_util::task::AbortOnDropHandle::new(task) }
    }

    /// The survey; waits a little for the first one, and goes without it then.
    pub(crate) async fn survey(&self) -> Survey {
        let mut receiver = self.survey.clone();
        let first = receiver.wait_for(Option::is_some);
        match tokio::time::timeout(FIRST_ANSWER, first).await {
            Ok(Ok(survey)) => survey.clone().unwrap_or_default(),
            _ => Survey::default(),
        }
    }
}

#[derive(Deserialize)]
struct Status {
    cpuinfo: CpuInfo,
}

#[derive(Deserialize)]
struct CpuInfo {
    #[serde(default)]
    flags: String,
    cpus: u32,
}

async fn ask(exec: &Exec, node: &str) -> Result<NodeCpu, String> {
    let output = exec
        .here(commands::node_status(node), None)
        .await
        .map_err(|error| super::problem::chain(&error))?;
    let status: Status = serde_json::from_str(&output.stdout)
        .map_err(|error| format!("its status cannot be read: {error}"))?;
    Ok(NodeCpu { level: CpuLevel::of(&status.cpuinfo.flags), cores: status.cpuinfo.cpus })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASWELL: &str = "fpu pni ssse3 cx16 sse4_1 sse4_2 movbe popcnt aes xsave avx f16c lahf_lm abm fma bmi1 avx2 bmi2";

    #[test]
    fn levels_follow_the_flags() {
        let without = |flag: &str| {
            HASWELL.split(' ').filter(|word| *word != flag).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(CpuLevel::of(HASWELL), CpuLevel::V3);
        assert_eq!(CpuLevel::of(&without("abm")), CpuLevel::V2Aes);
        assert_eq!(CpuLevel::of(&without("aes")), CpuLevel::V2);
        assert_eq!(CpuLevel::of(&without("cx16")), CpuLevel::Kvm64);
        assert_eq!(CpuLevel::of(""), CpuLevel::Kvm64);
        assert_eq!(
            CpuLevel::of(&format!("{HASWELL} avx512f avx512bw avx512cd avx512dq avx512vl")),
            CpuLevel::V4
        );
    }

    #[test]
    fn the_baseline_is_the_least_of_all_nodes() {
        let node = |level| Ok(NodeCpu { level, cores: 8 });
        let mut survey = Survey::default();
        assert_eq!(survey.baseline().0, CpuLevel::Kvm64);
        survey.nodes.insert("pve1".to_owned(), node(CpuLevel::V4));
        survey.nodes.insert("pve2".to_owned(), node(CpuLevel::V3));
        assert_eq!(
            survey.baseline(),
            (CpuLevel::V3, "x86-64-v3, the most that pve2 has".to_owned())
        );
        survey.nodes.insert("pve3".to_owned(), Err("timed out".to_owned()));
        assert_eq!(
            survey.baseline(),
            (CpuLevel::Kvm64, "kvm64, because pve3 could not be asked: timed out".to_owned())
        );
    }
}
