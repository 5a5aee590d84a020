//! Typed access to the Proxmox VE API: safe by default, tolerant of what servers really send, and
//! honest about what may have happened.
//!
//! * **Trust comes first.** No certificate is accepted unless the system, a CA file or a pinned
//!   fingerprint vouches for it, and nothing secret is sent before ([`Trust`], [`probe`]).
//! * **Logging in is a sequence of types.** A [`Server`] gives a [`Client`], or a [`Challenge`] for
//!   the second factor, with which nothing else can be done. Sessions renew themselves, once for
//!   all callers. [`ApiToken`]s need none of that.
//! * **Errors say what to do next**, and [`Error::had_no_effect`] whether it is certain that nothing
//!   was changed. Nothing that changes something is ever sent twice blindly.
//! * **A task is not an answer.** Calls that start one give a [`Upid`]; [`Client::task`] waits for
//!   it, with its log.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use pve_api::{ApiToken, Create, QemuConfig, Server, Settings, Trust};
//!
//! let pin = "7E:4A:10:28:DD:FA:2F:74:07:5C:02:5B:64:3A:50:AD:97:C0:45:01:EF:24:22:5E:3B:AC:3C:AD:3E:F8:8C:AA";
//! let trust = Trust::Fingerprints(vec![pin.parse()?]);
//! let server = Server::new(&Settings::new("pve1.example.org".parse()?, trust))?;
//! let token: ApiToken = std::env::var("PVE_TOKEN")?.parse()?;
//! let client = server.token(&token);
//!
//! let node = "pve1".parse()?;
//! let vmid = client.cluster().next_id().await?;
//! let mut config = QemuConfig { name: Some("web".to_owned()), ..QemuConfig::default() };
//! config.scsi.insert(0, "local-lvm:32,iothread=1".parse::<pve_api::Property<_>>()?)?;
//! let upid = client.node(&node).create(&Create::new(vmid, config)).await?;
//! client.task(&upid).wait().await?.into_result()?;
//! # Ok(())
//! # }
//! ```
//!
//! Texts and numbers are read leniently, words and keys that are not known are kept, and an item
//! that cannot be read is set aside without spoiling its list ([`List`]).
//!
#![doc = include_str!("endpoints.md")]
#![warn(missing_docs)]

mod access;
mod client;
mod cluster;
mod decode;
mod endpoint;
mod error;
mod ha;
mod id;
mod indexed;
mod lenient;
mod list;
mod login;
mod node;
mod pool;
pub mod property;
mod qemu;
mod record;
mod request;
mod session;
mod ssh_keys;
mod storage;
mod task;
mod transport;
mod trust;
mod upload;
mod version;

#[cfg(test)]
mod conformance;

pub use access::Domain;
pub use access::DomainKind;
pub use access::Permissions;
pub use client::Client;
pub use cluster::Cluster;
pub use cluster::ClusterEntry;
pub use cluster::ClusterEntryKind;
pub use cluster::ClusterOptions;
pub use cluster::Resource;
pub use cluster::ResourceFilter;
pub use cluster::ResourceKind;
pub use error::Call;
pub use error::Cause;
pub use error::Error;
pub use error::Refusal;
pub use error::Result;
pub use ha::Ha;
pub use ha::HaGroup;
pub use ha::HaResource;
pub use ha::HaState;
pub use id::InvalidId;
pub use id::MacAddr;
pub use id::NodeName;
pub use id::PoolId;
pub use id::Realm;
pub use id::StorageId;
pub use id::Tag;
pub use id::TokenId;
pub use id::Upid;
pub use id::UserId;
pub use id::Vmid;
pub use id::Volid;
pub use indexed::Indexed;
pub use indexed::OutOfBounds;
pub use list::List;
pub use list::Skipped;
pub use login::ApiToken;
pub use login::Challenge;
pub use login::Factors;
pub use login::InvalidToken;
pub use login::Login;
pub use login::Server;
pub use node::CpuFlag;
pub use node::CpuInfo;
pub use node::CpuModel;
pub use node::Machine;
pub use node::Network;
pub use node::NetworkFilter;
pub use node::NetworkKind;
pub use node::Node;
pub use node::NodeState;
pub use node::NodeStatus;
pub use node::NodeSummary;
pub use node::UrlMetadata;
pub use node::Usage;
pub use pool::Pool;
pub use pool::PoolMember;
pub use property::Property;
pub use qemu::AgentAddress;
pub use qemu::AgentInterface;
pub use qemu::Bios;
pub use qemu::CiPassword;
pub use qemu::CloudInitFile;
pub use qemu::ConfigUpdate;
pub use qemu::Create;
pub use qemu::Destroy;
pub use qemu::HaOfGuest;
pub use qemu::LocalDisk;
pub use qemu::Migrate;
pub use qemu::MigrationCheck;
pub use qemu::OsType;
pub use qemu::PendingValue;
pub use qemu::Qemu;
pub use qemu::QemuConfig;
pub use qemu::QemuState;
pub use qemu::QemuStatus;
pub use qemu::QemuSummary;
pub use qemu::ScsiController;
pub use qemu::Shutdown;
pub use qemu::Tags;
pub use request::Parameters;
pub use ssh_keys::InvalidSshKey;
pub use ssh_keys::SshKeys;
pub use storage::Checksum;
pub use storage::ChecksumAlgorithm;
pub use storage::Content;
pub use storage::Download;
pub use storage::Formats;
pub use storage::Storage;
pub use storage::StorageStatus;
pub use storage::StorageSummary;
pub use storage::Volume;
pub use storage::VolumeDetail;
pub use task::Heard;
pub use task::LogLine;
pub use task::Task;
pub use task::TaskExit;
pub use task::TaskFailure;
pub use task::TaskFilter;
pub use task::TaskState;
pub use task::TaskStatus;
pub use task::TaskSummary;
pub use transport::Address;
pub use transport::InvalidAddress;
pub use transport::ProbeError;
pub use transport::Settings;
pub use transport::SettingsError;
pub use transport::Timeouts;
pub use transport::probe;
pub use trust::Certificate;
pub use trust::Fingerprint;
pub use trust::InvalidFingerprint;
pub use trust::Trust;
pub use trust::TrustError;
pub use upload::UploadFile;
pub use version::Version;
