//! What the server told us, each answer with its own state, and what still has to be asked.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use pve_api::ClusterEntry;
use pve_api::ClusterEntryKind;
use pve_api::ClusterOptions;
use pve_api::CpuModel;
use pve_api::Network;
use pve_api::NodeName;
use pve_api::NodeState;
use pve_api::NodeSummary;
use pve_api::Permissions;
use pve_api::Pool;
use pve_api::StorageId;
use pve_api::StorageSummary;
use pve_api::Version;
use pve_api::Vmid;
use pve_api::Volume;

use super::draft::Draft;
use super::field::Field;
use super::field::Key;
use super::render::node_name;
use super::resolve::Answers;
use super::resolve::resolve;

/// A question to the server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// Its version.
    Version,
    /// Whether it is a cluster, and whether that has quorum.
    Cluster,
    /// The nodes.
    Nodes,
    /// The lowest free number.
    NextId,
    /// Whether a number is free.
    IsFree(Vmid),
    /// The pools.
    Pools,
    /// The datacenter's options: tags.
    Options,
    /// What the account may do.
    Permissions,
    /// The storages of a node.
    Storages(NodeName),
    /// The ISOs on a storage.
    Isos(NodeName, StorageId),
    /// The bridges of a node.
    Bridges(NodeName),
    /// The models of CPU.
    CpuModels(NodeName),
}

impl Query {
    /// The question behind the choices or the default of a field, to be asked again on demand.
    pub fn behind(key: Key, answers: &Answers) -> Option<Self> {
        let node = || node_name(answers);
        match key.field {
            Field::Node => Some(Self::Nodes),
            Field::Vmid => Some(Self::NextId),
            Field::Pool => Some(Self::Pools),
            Field::Tags => Some(Self::Options),
            Field::Ha => Some(Self::Cluster),
            Field::IsoStorage
            | Field::EfiStorage
            | Field::EfiFormat
            | Field::TpmStorage
            | Field::DiskStorage
            | Field::DiskFormat => Some(Self::Storages(node()?)),
            Field::Iso => {
                let storage = answers.text(Field::IsoStorage).parse().ok();
                Some(match storage {
                    Some(storage) => Self::Isos(node()?, storage),
                    None => Self::Storages(node()?),
                })
            }
            Field::CpuType => Some(Self::CpuModels(node()?)),
            Field::Bridge => Some(Self::Bridges(node()?)),
            _ => None,
        }
    }

    /// What is asked for, in words.
    pub fn subject(&self) -> String {
        match self {
            Self::Version => "the version".to_owned(),
            Self::Cluster => "the state of the cluster".to_owned(),
            Self::Nodes => "the nodes".to_owned(),
            Self::NextId => "a free VM ID".to_owned(),
            Self::IsFree(vmid) => format!("whether VM ID {vmid} is free"),
            Self::Pools => "the pools".to_owned(),
            Self::Options => "the datacenter's options".to_owned(),
            Self::Permissions => "the permissions".to_owned(),
            Self::Storages(node) => format!("the storages of {node}"),
            Self::Isos(node, storage) => format!("the ISOs on {storage} of {node}"),
            Self::Bridges(node) => format!("the bridges of {node}"),
            Self::CpuModels(node) => format!("the CPU models of {node}"),
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each holds the answer to the query of the same name")]
pub enum Found {
    Version(Version),
    Cluster(Vec<ClusterEntry>),
    Nodes(Vec<NodeSummary>),
    NextId(Vmid),
    IsFree(bool),
    Pools(Vec<Pool>),
    Options(Box<ClusterOptions>),
    Permissions(Permissions),
    Storages(Vec<StorageSummary>),
    Isos(Vec<Volume>),
    Bridges(Vec<Network>),
    CpuModels(Vec<CpuModel>),
}

impl Found {
    fn is_empty(&self) -> bool {
        match self {
            Self::Cluster(list) => list.is_empty(),
            Self::Nodes(list) => list.is_empty(),
            Self::Pools(list) => list.is_empty(),
            Self::Storages(list) => list.is_empty(),
            Self::Isos(list) => list.is_empty(),
            Self::Bridges(list) => list.is_empty(),
            Self::CpuModels(list) => list.is_empty(),
            Self::Version(_)
            | Self::NextId(_)
            | Self::IsFree(_)
            | Self::Options(_)
            | Self::Permissions(_) => false,
        }
    }
}

/// How far a fact is known.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact<T> {
    /// It is being asked for, or has not been asked for yet.
    Loading,
    /// It is known.
    There(T),
    /// The server has none.
    Empty,
    /// It could not be had, for this reason.
    Failed(String),
}

impl<T> Fact<T> {
    /// The fact, if it is known and not empty.
    pub fn there(self) -> Option<T> {
        match self {
            Self::There(fact) => Some(fact),
            _ => None,
        }
    }

    fn map<U>(self, change: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::There(fact) => Fact::There(change(fact)),
            Self::Loading => Fact::Loading,
            Self::Empty => Fact::Empty,
            Self::Failed(reason) => Fact::Failed(reason),
        }
    }
}

/// What the server told us.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// The account or token as which we are logged in, such as `root@pam` or `ops@pve!ci`.
    pub account: String,
    found: BTreeMap<Query, Result<Found, String>>,
    asked: BTreeSet<Query>,
}

macro_rules! accessors {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $found:ty = $query:expr, $variant:ident;)+) => {
        impl Facts {
            $($(#[$doc])*
            pub fn $name(&self, $($argument: $type),*) -> Fact<&$found> {
                match self.found.get(&$query) {
                    None => Fact::Loading,
                    Some(Err(reason)) => Fact::Failed(reason.clone()),
                    Some(Ok(found)) if found.is_empty() => Fact::Empty,
                    Some(Ok(Found::$variant(found))) => Fact::There(found),
                    Some(Ok(_)) => Fact::Failed("the answer belongs to another question".to_owned()),
                }
            })+
        }
    };
}

accessors! {
    /// The server's version.
    version() -> Version = Query::Version, Version;
    /// The cluster and its nodes.
    cluster() -> [ClusterEntry] = Query::Cluster, Cluster;
    /// The nodes.
    nodes() -> [NodeSummary] = Query::Nodes, Nodes;
    /// The lowest free number.
    next_id() -> Vmid = Query::NextId, NextId;
    /// Whether a number is free.
    is_free(vmid: Vmid) -> bool = Query::IsFree(vmid), IsFree;
    /// The pools.
    pools() -> [Pool] = Query::Pools, Pools;
    /// The datacenter's options.
    options() -> ClusterOptions = Query::Options, Options;
    /// What the account may do.
    permissions() -> Permissions = Query::Permissions, Permissions;
    /// The storages of a node.
    storages(node: &NodeName) -> [StorageSummary] = Query::Storages(node.clone()), Storages;
    /// The ISOs on a storage.
    isos(node: &NodeName, storage: &StorageId) -> [Volume] = Query::Isos(node.clone(), storage.clone()), Isos;
    /// The bridges of a node.
    bridges(node: &NodeName) -> [Network] = Query::Bridges(node.clone()), Bridges;
    /// The models of CPU.
    cpu_models(node: &NodeName) -> [CpuModel] = Query::CpuModels(node.clone()), CpuModels;
}

impl Facts {
    /// No facts yet, for this account.
    pub fn new(account: impl Into<String>) -> Self {
        Self { account: account.into(), ..Self::default() }
    }

    /// What has to be asked now for this draft and was not asked yet; from now on it counts as asked.
    ///
    /// Ask all of it side by side, [learn](Self::learn) each answer when it comes, and call this
    /// again: an answer may lead to the next question.
    pub fn ask(&mut self, draft: &Draft) -> Vec<Query> {
        let wanted: Vec<Query> =
            wanted(draft, self).into_iter().filter(|query| !self.asked.contains(query)).collect();
        self.asked.extend(wanted.iter().cloned());
        wanted
    }

    /// Takes in what was found, or why it was not.
    pub fn learn(&mut self, query: Query, found: Result<Found, String>) {
        self.asked.insert(query.clone());
        self.found.insert(query, found);
    }

    /// Forgets an answer, so that it is asked for again.
    pub fn forget(&mut self, query: &Query) {
        self.asked.remove(query);
        self.found.remove(query);
    }

    /// Forgets every answer that matches, so that it is asked for again.
    pub fn forget_all(&mut self, matches: impl Fn(&Query) -> bool) {
        self.asked.retain(|query| !matches(query));
        self.found.retain(|query, _| !matches(query));
    }

    /// The questions that were asked and are not answered yet.
    pub fn open(&self) -> impl Iterator<Item = &Query> {
        self.asked.iter().filter(|query| !self.found.contains_key(query))
    }

    /// The questions to which no answer could be had, with the reasons.
    pub fn failures(&self) -> impl Iterator<Item = (&Query, &str)> {
        self.found.iter().filter_map(|(query, found)| Some((query, found.as_ref().err()?.as_str())))
    }

    /// Whether this is a cluster and not a node on its own.
    pub fn is_cluster(&self) -> Fact<bool> {
        let is_cluster = |entries: &[ClusterEntry]| {
            entries.iter().any(|entry| entry.kind == ClusterEntryKind::Cluster)
        };
        self.cluster().map(is_cluster)
    }

    /// Whether nothing can be changed for want of quorum.
    pub fn lacks_quorum(&self) -> bool {
        let entries = self.cluster().there().unwrap_or_default();
        entries.iter().any(|entry| entry.quorate == Some(false))
    }

    /// A node by its name.
    pub fn node(&self, name: &str) -> Option<&NodeSummary> {
        self.nodes().there()?.iter().find(|node| node.name.as_str() == name)
    }

    /// A storage of a node by its name.
    pub fn storage(&self, node: &NodeName, name: &str) -> Option<&StorageSummary> {
        self.storages(node).there()?.iter().find(|storage| storage.id.as_str() == name)
    }

    /// Whether the account surely lacks a privilege.
    pub fn lacks(&self, privilege: &str, path: &str) -> bool {
        self.permissions().there().is_some_and(|granted| !granted.has(privilege, path))
    }
}

/// Everything that the draft needs to know, asked or not.
fn wanted(draft: &Draft, facts: &Facts) -> Vec<Query> {
    let mut wanted = vec![
        Query::Version,
        Query::Cluster,
        Query::Nodes,
        Query::NextId,
        Query::Pools,
        Query::Options,
        Query::Permissions,
    ];
    let said = draft.said(Field::Vmid.into()).and_then(super::value::Value::number);
    if let Some(vmid) =
        said.and_then(|n| u32::try_from(n).ok()).and_then(|n| Vmid::try_from(n).ok())
    {
        wanted.push(Query::IsFree(vmid));
    }
    let answers = resolve(draft, facts);
    let Ok(node) = answers.text(Field::Node).parse::<NodeName>() else { return wanted };
    // A node that does not answer would only keep us waiting.
    let online = |node: &NodeSummary| node.status == Some(NodeState::Online);
    if !facts.node(node.as_str()).is_some_and(online) {
        return wanted;
    }
    wanted.push(Query::Storages(node.clone()));
    wanted.push(Query::Bridges(node.clone()));
    wanted.push(Query::CpuModels(node.clone()));
    if let Ok(storage) = answers.text(Field::IsoStorage).parse()
        && facts.storage(&node, answers.text(Field::IsoStorage)).is_some()
    {
        wanted.push(Query::Isos(node, storage));
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_asked_for_once_and_again_when_it_is_forgotten() {
        let mut facts = Facts::new("root@pam");
        let draft = Draft::default();
        assert_eq!(facts.ask(&draft).len(), 7);
        assert_eq!(facts.ask(&draft), []);
        assert_eq!(facts.pools(), Fact::Loading);
        facts.learn(Query::Pools, Ok(Found::Pools(Vec::new())));
        assert_eq!(facts.pools(), Fact::Empty);
        facts.learn(Query::Pools, Err("no route".to_owned()));
        assert_eq!(facts.pools(), Fact::Failed("no route".to_owned()));
        assert_eq!(facts.failures().count(), 1);
        facts.forget(&Query::Pools);
        assert_eq!((facts.pools(), facts.open().count()), (Fact::Loading, 6));
        assert_eq!(facts.ask(&draft), [Query::Pools]);
    }
}
