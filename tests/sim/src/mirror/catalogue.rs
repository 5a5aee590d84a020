//! The images that the mirror has from the start: the product's own catalogue, under the paths of
//! their publishers.

use std::path::PathBuf;

use crate::mirror::Sums;

const GIB: u64 = 1024 * 1024 * 1024;

/// One image of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudImage {
    /// As a request names it.
    pub os: String,
    /// As a request names it.
    pub version: String,
    /// Its path, on this mirror as on its publisher's.
    pub path: String,
    /// Its checksum list, beside it.
    pub sums: Sums,
    /// The user that it brings along.
    pub user: String,
    /// The least CPU level that it runs on.
    pub cpu: Option<String>,
    /// The size of its disk, in bytes.
    pub virtual_size: u64,
}

impl CloudImage {
    /// The last part of its path.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The path of its checksum list.
    pub fn sums_path(&self) -> String {
        beside(&self.path, self.sums.file_name())
    }
}

/// What an image's file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A qcow2 image with so many bytes of noise, the same for the same path and edition.
    Noise {
        /// How many.
        bytes: u64,
        /// Another one is another content.
        edition: u64,
    },
    /// A qcow2 image with so many bytes of zeros, which take no room on disk.
    Holes(u64),
    /// A file that exists.
    File(PathBuf),
}

/// A path with another last part.
pub(crate) fn beside(path: &str, name: &str) -> String {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    format!("{directory}/{name}")
}

/// All of them.
pub fn cloud_images() -> Vec<CloudImage> {
    let debian =
        [("11", "bullseye"), ("12", "bookworm"), ("13", "trixie")].map(|(version, name)| {
            CloudImage {
                os: "debian".to_owned(),
                version: version.to_owned(),
                path: format!("/images/cloud/{name}/latest/debian-{version}-generic-amd64.qcow2"),
                sums: Sums::Sha512,
                user: "debian".to_owned(),
                cpu: None,
                virtual_size: 3 * GIB,
            }
        });
    let ubuntu = ["20.04", "22.04", "24.04"].map(|version| CloudImage {
        os: "ubuntu".to_owned(),
        version: version.to_owned(),
        path: format!("/releases/{version}/release/ubuntu-{version}-server-cloudimg-amd64.img"),
        sums: Sums::Sha256,
        user: "ubuntu".to_owned(),
        cpu: None,
        virtual_size: 7 * GIB / 2,
    });
    let levels = [("8", None), ("9", Some("x86-64-v2")), ("10", Some("x86-64-v3"))];
    let rocky = levels.map(|(version, cpu)| CloudImage {
        os: "rockylinux".to_owned(),
        version: version.to_owned(),
        path: format!(
            "/pub/rocky/{version}/images/x86_64/Rocky-{version}-GenericCloud-Base.latest.x86_64.qcow2"
        ),
        sums: Sums::Bsd,
        user: "rocky".to_owned(),
        cpu: cpu.map(str::to_owned),
        virtual_size: 10 * GIB,
    });
    debian.into_iter().chain(ubuntu).chain(rocky).collect()
}
