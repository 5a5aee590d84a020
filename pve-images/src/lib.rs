//! Cloud images: which there are, and a cache that holds only whole ones.
//!
//! A [`Catalogue`] says where the image of an operating system lies.
//! A [`Cache`] asks the publisher for it, downloads it, and gives it its final name only when its length, its checksum
//! and its format have been looked at; it resumes what was cut, and downloads an image once however many ask for it.
//! The crate knows nothing of virtual machines.
//!
//! ```no_run
//! use pve_images::Cache;
//! use pve_images::CacheSettings;
//! use pve_images::Catalogue;
//! use pve_images::Head;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let catalogue = Catalogue::builtin();
//! let image = catalogue.find("debian", "12").ok_or("not in the catalogue")?;
//!
//! let cache = Cache::new(CacheSettings {
//!     directory: "/var/tmp/images".into(),
//!     head: Head::Required,
//!     verify: true,
//! })?;
//! let remote = cache.validate(image, |update| println!("{update:?}")).await?;
//! let path = match cache.cached(image, remote.as_ref(), |update| println!("{update:?}")).await? {
//!     Some(path) => path,
//!     None => cache.download(image, remote.as_ref(), |update| println!("{update:?}")).await?,
//! };
//! println!("{}", path.display());
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod cache;
mod catalogue;
mod checksum;
mod client;
mod error;
mod files;
mod qcow2;
#[cfg(test)]
mod reference;
mod update;

pub use cache::Cache;
pub use cache::CacheSettings;
pub use cache::Head;
pub use catalogue::Catalogue;
pub use catalogue::CatalogueError;
pub use catalogue::Image;
pub use client::Remote;
pub use error::Cause;
pub use error::Error;
pub use update::Update;
