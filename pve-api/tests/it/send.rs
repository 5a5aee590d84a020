//! Every call can be made from any thread.

use pve_api::CloudInitFile;
use pve_api::ConfigUpdate;
use pve_api::Content;
use pve_api::Create;
use pve_api::Destroy;
use pve_api::Download;
use pve_api::HaState;
use pve_api::Migrate;
use pve_api::NodeName;
use pve_api::QemuConfig;
use pve_api::Shutdown;
use pve_api::StorageId;
use pve_api::TaskFilter;
use pve_api::Upid;
use pve_api::UploadFile;
use pve_api::UserId;
use pve_api::Vmid;

use crate::server::Reply;
use crate::server::Server;

/// Only futures that may be moved to another thread are taken; the calls are not made.
fn movable<T: Send>(_call: T) {}

#[tokio::test]
async fn every_call_can_be_made_from_any_thread() {
    let server = Server::start(|_| Reply::Close).await;
    let (door, client) = (server.door(), server.client());
    let node: NodeName = "pve1".parse().unwrap();
    let storage: StorageId = "local".parse().unwrap();
    let vmid: Vmid = "100".parse().unwrap();
    let user: UserId = "root@pam".parse().unwrap();
    let upid: Upid = "UPID:pve1:00002723:0004A4AB:6B0D814E:x::root@pam:".parse().unwrap();
    let volume = "local:iso/a.iso".parse().unwrap();
    let pool = "lab".parse().unwrap();
    let password = "x".to_owned().into();

    movable(door.realms());
    movable(door.login(&user, &password));
    movable(client.version());
    movable(client.permissions());
    movable(client.permissions_on("/"));
    movable(client.nodes());
    movable(client.pools());
    movable(client.pool(&pool));

    let cluster = client.cluster();
    movable(cluster.status());
    movable(cluster.resources(None));
    movable(cluster.next_id());
    movable(cluster.is_free(vmid));
    movable(cluster.options());
    movable(cluster.ha().resources());
    movable(cluster.ha().resource(vmid));
    movable(cluster.ha().add(vmid, &HaState::Stopped, None));
    movable(cluster.ha().set_state(vmid, &HaState::Stopped));
    movable(cluster.ha().remove(vmid));
    movable(cluster.ha().groups());

    let handle = client.node(&node);
    let machine = Create::new(vmid, QemuConfig::default());
    let filter = TaskFilter::default();
    movable(handle.status());
    movable(handle.network(None));
    movable(handle.cpu_models());
    movable(handle.cpu_flags());
    movable(handle.machines());
    movable(handle.url_metadata("https://example.org", true));
    movable(handle.storages(None));
    movable(handle.guests());
    movable(handle.create(&machine));
    movable(handle.tasks(&filter));

    let place = handle.storage(&storage);
    let download = Download {
        url: "https://example.org/a.iso".to_owned(),
        content: Content::Iso,
        file_name: "a.iso".to_owned(),
        checksum: None,
        verify_certificates: true,
    };
    let file = UploadFile {
        content: Content::Iso,
        file_name: "a.iso".to_owned(),
        length: 0,
        checksum: None,
    };
    movable(place.status());
    movable(place.content(None, None));
    movable(place.volume(&volume));
    movable(place.delete(&volume));
    movable(place.download(&download));
    movable(place.upload(&file, tokio::io::empty(), |_| ()));

    let guest = handle.qemu(vmid);
    let (change, shutdown, destroy) =
        (ConfigUpdate::default(), Shutdown::default(), Destroy::default());
    let migrate = Migrate {
        target: node.clone(),
        online: false,
        with_local_disks: false,
        target_storage: None,
    };
    movable(guest.config());
    movable(guest.active_config());
    movable(guest.set_config(&change));
    movable(guest.start_config(&change));
    movable(guest.pending());
    movable(guest.resize("scsi0", "+1G"));
    movable(guest.status());
    movable(guest.start());
    movable(guest.stop());
    movable(guest.shutdown(&shutdown));
    movable(guest.reboot(None));
    movable(guest.check_migration(None));
    movable(guest.migrate(&migrate));
    movable(guest.destroy(&destroy));
    movable(guest.cloudinit_pending());
    movable(guest.cloudinit_dump(&CloudInitFile::User));
    movable(guest.agent_ping());
    movable(guest.agent_interfaces());

    let task = client.task(&upid);
    movable(task.status());
    movable(task.log(0, 1));
    movable(task.stop());
    movable(task.wait());
    movable(task.follow(|_| ()));
    assert_eq!(server.lines(), [] as [&str; 0]);
}
