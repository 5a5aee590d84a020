//! A simulated cluster that has what the wizard's defaults ask for.

use std::io;

use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::world::Pool;
use pve_sim::world::Storage;
use pve_sim::world::Volume;

/// The image that the wizard's defaults mean.
pub const ISO: &str = "nixos-minimal-25.05.805252.b43c397f6c21-x86_64-linux.iso";

/// Starts two nodes with Ceph's storages, two images and a pool.
pub async fn cluster(config: Config) -> io::Result<Sim> {
    let mut config = Config { nodes: vec!["pve1".to_owned(), "pve2".to_owned()], ..config };
    config.storages.push(Storage::new("ceph-pool", "rbd", "images,rootdir"));
    config.storages.push(Storage::new("cephfs", "cephfs", "iso,vztmpl,backup"));
    let sim = Sim::start(config).await?;
    sim.change(|world| {
        for name in [ISO, "debian-13.1.0-amd64-netinst.iso"] {
            world.volumes.push(Volume {
                storage: "cephfs".to_owned(),
                node: None,
                name: format!("iso/{name}"),
                content: "iso".to_owned(),
                format: "iso".to_owned(),
                size: 1 << 30,
                vmid: None,
                imported_from: None,
            });
        }
        world.pools.insert("lab".to_owned(), Pool::default());
    });
    Ok(sim)
}
