//! Clusters: storages, addresses, other nodes, quorum, CPUs.

use std::net::SocketAddr;
use std::net::TcpListener;

use pve_sim::guest::Behaviour;
use pve_sim::guest::End;
use pve_sim::guest::Script;
use pve_sim::sim::Fault;
use pve_sim::sim::FaultAnswer;
use pve_sim::world::Storage;
use serde_json::json;

use super::day::Day;
use super::deed::Deed;
use super::deed::Moment;
use super::hold::migrating;
use super::table;
use super::table::Row;
use super::table::row;

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_is_taken_as_it_is() {
    insta::assert_snapshot!(table::run(rows()).await);
}

pub(super) fn rows() -> Vec<Row> {
    [storages(), allocation(), migrations(), quorum(), processors()].into_iter().flatten().collect()
}

fn storages() -> Vec<Row> {
    let on = |name: &'static str, storage: Storage| {
        let mut day = Day::new().setting("ASSIGN_STORAGE", "mine");
        day.config.storages.push(storage);
        row(name, day.run())
    };
    let storage = |kind: &str, content: &str| Storage::new("mine", kind, content);
    vec![
        row("the storage does not exist", Day::new().setting("ASSIGN_STORAGE", "nosuch").run()),
        on("the storage is disabled", Storage { disabled: true, ..storage("zfspool", "images") }),
        on("the storage does not answer", Storage { reachable: false, ..storage("nfs", "images") }),
        on("the storage holds no images", storage("nfs", "iso,backup")),
        on("the storage is of a type for backups", storage("pbs", "backup")),
        on("a storage on ZFS", storage("zfspool", "images")),
        on("a storage on LVM thin", storage("lvmthin", "images")),
        row("the storage is not on the node that was asked for", {
            let mut day = migrating(Day::new()).setting("ASSIGN_STORAGE", "mine");
            let nodes = Some(vec!["pve1".to_owned()]);
            day.config.storages.push(Storage { nodes, ..storage("zfspool", "images") });
            day.run()
        }),
    ]
}

fn allocation() -> Vec<Row> {
    let range = |first: &str, last: &str| {
        Day::new().setting("ASSIGN_IP_START", first).setting("ASSIGN_IP_END", last)
    };
    vec![
        row(
            "every VMID of the range is taken",
            range("100", "101")
                .world(|world| {
                    for vmid in [100, 101] {
                        super::failures::put_guest(world, vmid);
                    }
                })
                .run(),
        ),
        row(
            "every address of the range answers",
            range("100", "103").with(|rig| listen(rig, &[100, 101, 102, 103])).run(),
        ),
        row(
            "the lowest addresses of the range answer",
            Day::new().with(|rig| listen(rig, &[100, 102])).run(),
        ),
        row(
            "the gateway is in the range",
            Day::new()
                .placed(|sim, place| {
                    let [a, b, c, _] = sim.gateway().octets();
                    place.set("GATEWAY", format!("{a}.{b}.{c}.100"));
                })
                .run(),
        ),
        row(
            "the gateway's own number is asked for",
            Day::new()
                .placed(|sim, place| {
                    let [a, b, c, _] = sim.gateway().octets();
                    place.set("GATEWAY", format!("{a}.{b}.{c}.100"));
                })
                .refused(json!({"id": 100})),
        ),
        row(
            "a container has the lowest VMID",
            Day::new()
                .world(|world| {
                    super::failures::put_guest(world, 100);
                    world.guests.get_mut(&100).unwrap().kind = pve_sim::world::Kind::Lxc;
                })
                .run(),
        ),
    ]
}

/// Answers on addresses of the VMs for as long as the test runs.
fn listen(rig: &pve_e2e::rig::Rig, hosts: &[u8]) {
    let [a, b, c, _] = rig.sim.gateway().octets();
    let listeners: Vec<TcpListener> = hosts
        .iter()
        .map(|host| {
            TcpListener::bind(SocketAddr::from(([a, b, c, *host], rig.sim.ssh_port()))).unwrap()
        })
        .collect();
    tokio::spawn(async move {
        let _held = listeners;
        std::future::pending::<()>().await;
    });
}

fn migrations() -> Vec<Row> {
    let lost_node = |day: Day| {
        day.placed(|sim, place| {
            let address = sim.node_address("pve2").unwrap();
            // Nobody listens at that port.
            place.set("NODE_pve2", format!("{}:1", address.ip()));
        })
    };
    let failing_script = || Behaviour {
        script: Script { end: End::Code(3), ..Script::default() },
        ..Behaviour::default()
    };
    vec![
        row("a VM for another node", migrating(Day::new()).run()),
        row(
            "qm migrate fails",
            migrating(Day::new()).failing("^qm migrate", "migration aborted").and_again().run(),
        ),
        row(
            "qm migrate says that it has worked, and has not",
            migrating(Day::new())
                .fault(Fault::always(
                    "^qm migrate",
                    FaultAnswer::Instead { stdout: String::new(), stderr: String::new(), exit: 0 },
                ))
                .run(),
        ),
        row(
            "qm start fails on the other node",
            migrating(Day::new())
                .failing("^qm start", "start failed: QEMU exited with code 1")
                .run(),
        ),
        row(
            "the init script fails on a migrated VM",
            migrating(Day::new()).guest(failing_script()).and_again().run(),
        ),
        row(
            "the other node cannot be reached after the migration",
            lost_node(migrating(Day::new())).run(),
        ),
        row(
            "the other node goes away before the clean-up",
            migrating(Day::new())
                .guest(Behaviour {
                    script: Script { end: End::Hangs, ..Script::default() },
                    ..Behaviour::default()
                })
                .deed(Deed::Change(
                    Moment {
                        step: "VM initialization > SSH initialization",
                        says: "Setting up",
                        command: "",
                    },
                    |rig| {
                        // Its root's key is no longer accepted, and the script's connection is gone.
                        std::fs::write(rig.sim.authorized_keys(), "").unwrap();
                        let guests = rig.sim.guests().clone();
                        tokio::spawn(async move { guests.stop(100).await });
                    },
                ))
                .run(),
        ),
        row(
            "the node that was asked for is offline",
            Day::new()
                .on_two_nodes()
                .world(|world| world.nodes.get_mut("pve2").unwrap().online = false)
                .refused(json!({"node": "pve2"})),
        ),
        row(
            "the node that was asked for does not exist",
            Day::new().on_two_nodes().refused(json!({"node": "pve9"})),
        ),
        row(
            "another node is offline",
            Day::new()
                .on_two_nodes()
                .prepared(|sim| {
                    sim.change(|world| world.nodes.get_mut("pve2").unwrap().online = false);
                })
                .run(),
        ),
        row(
            "the target goes offline before the migration",
            migrating(Day::new())
                .on_two_streams()
                .slow("^qm create", 500)
                .deed(Deed::Change(
                    Moment { step: "VM creation > creating VM", says: "", command: "qm create" },
                    |rig| {
                        rig.sim.change(|world| world.nodes.get_mut("pve2").unwrap().online = false);
                    },
                ))
                .run(),
        ),
    ]
}

fn quorum() -> Vec<Row> {
    fn lose(world: &mut pve_sim::world::World) {
        world.cluster.as_mut().unwrap().quorate = false;
    }
    vec![
        row("the quorum is lost before", Day::new().on_two_nodes().world(lose).run()),
        row(
            "the quorum is lost before the VM is created",
            Day::new()
                .on_two_nodes()
                .slow("^pvesm status", 500)
                .deed(Deed::Change(
                    Moment {
                        step: "preparation > checking storage pool",
                        says: "",
                        command: "pvesm status",
                    },
                    |rig| rig.sim.change(lose),
                ))
                .run(),
        ),
        row(
            "the quorum is lost before the clean-up",
            Day::new()
                .on_two_nodes()
                .fault(Fault { delay: 500, ..Fault::fails("^qm importdisk", "no space left", 255) })
                .deed(Deed::Change(
                    Moment {
                        step: "VM creation > importing disk image",
                        says: "",
                        command: "qm importdisk",
                    },
                    |rig| rig.sim.change(lose),
                ))
                .run(),
        ),
        row(
            "the quorum is lost in the middle",
            Day::new()
                .on_two_nodes()
                .slow("^qm resize", 500)
                .deed(Deed::Change(
                    Moment {
                        step: "VM initialization > initializing configuration",
                        says: "",
                        command: "qm resize",
                    },
                    |rig| rig.sim.change(lose),
                ))
                .run(),
        ),
    ]
}

fn processors() -> Vec<Row> {
    let flags = |level: &'static str| {
        move |sim: &mut pve_sim::Sim| {
            sim.change(|world| {
                let node = world.nodes.values_mut().last().unwrap();
                let without: &[&str] = match level {
                    "v3" => &["avx512f"],
                    "v2-AES" => &["avx2"],
                    "v2" => &["avx2", "aes"],
                    _ => &["ssse3"],
                };
                let flags = node.flags.split_whitespace().filter(|flag| !without.contains(flag));
                node.flags = flags.collect::<Vec<_>>().join(" ");
            });
        }
    };
    let mut rows: Vec<Row> = ["v3", "v2-AES", "v2", "less"]
        .into_iter()
        .map(|level| {
            row(
                format!("the other node's CPU is {level}"),
                Day::new().on_two_nodes().prepared(flags(level)).showing_create().run(),
            )
        })
        .collect();
    rows.extend([
        row(
            "the CPU is below what the image needs",
            Day::new()
                .prepared(flags("v2"))
                .asking(json!({"os": "rockylinux", "version": "10"}))
                .run(),
        ),
        row(
            "the CPU is what the image needs",
            Day::new()
                .prepared(flags("v2"))
                .asking(json!({"os": "rockylinux", "version": "9"}))
                .showing_create()
                .run(),
        ),
        row(
            "the nodes cannot be asked",
            Day::new().failing("^pvesh", "no connection").showing_create().run(),
        ),
        row("more cores than the node has", Day::new().asking(json!({"cpu": 17})).run()),
        row(
            "as many cores as the node has",
            Day::new().asking(json!({"cpu": 16})).showing_create().run(),
        ),
    ]);
    let balloon = |ram: u64| {
        let name = format!("{ram} MiB where a VM keeps 2048");
        row(
            name,
            Day::new()
                .setting("VM_BALLOON_MIN", "2048")
                .asking(json!({"ram": ram}))
                .showing_create()
                .run(),
        )
    };
    rows.extend([3071, 3072, 65_536].map(balloon));
    rows
}
