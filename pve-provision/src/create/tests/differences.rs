//! The readings of the specification's page that were settled, one by one, and the rules of the
//! server and the web UI behind the other answers.

use super::*;

#[test]
fn disconnected_disabled_means_that_the_cable_is_in() {
    let facts = World::default().facts();
    assert!(!sent(&[], &facts, "net0").unwrap().contains("link_down"));
    let card = sent(&["network.disconnected=yes"], &facts, "net0");
    assert_eq!(card.as_deref(), Some("virtio,bridge=vmbr9,firewall=1,link_down=1"));
}

#[test]
fn the_number_is_the_servers_next_free_one() {
    let facts = World::default().facts();
    assert_eq!(value(&answers(&[], &facts), "general.vmid"), "105");
}

#[test]
fn one_disk_on_the_first_online_node_and_no_start_are_the_default() {
    let answers = answers(&[], &World::default().facts());
    assert_eq!((answers.disks(), answers.is_on(Field::Start)), (1, false));
    assert_eq!(value(&answers, "general.node"), "pve1", "pve2 is offline");
}

#[test]
fn mtu_and_async_io_are_sent_only_when_they_are_said() {
    let facts = World::default().facts();
    let said = ["network.mtu=1", "disk.aio=io_uring"];
    assert_eq!(sent(&[], &facts, "scsi0").as_deref(), Some("ceph-pool:32,iothread=on,ssd=on"));
    let disk = sent(&said, &facts, "scsi0");
    assert_eq!(disk.as_deref(), Some("ceph-pool:32,iothread=on,ssd=on,aio=io_uring"));
    assert!(sent(&said, &facts, "net0").unwrap().ends_with(",mtu=1"));
}

#[test]
fn raw_is_sent_where_the_storage_offers_a_choice_and_cannot_be_changed() {
    let facts = World::default().facts();
    let local = ["disk.storage=local", "system.efi_storage=local"];
    let disk = sent(&local, &facts, "scsi0");
    assert_eq!(disk.as_deref(), Some("local:32,format=raw,iothread=on,ssd=on"));
    let efi = sent(&local, &facts, "efidisk0");
    assert_eq!(efi.as_deref(), Some("local:1,efitype=4m,pre-enrolled-keys=0,format=raw"));
    let changed = answers(&["disk.storage=local", "disk.format=qcow2"], &facts);
    insta::assert_snapshot!(problems(&changed).join("\n"), @"disks.0.format: cannot be changed: the template 'default' leaves no choice");
}

#[test]
fn a_bus_drops_the_options_that_it_lacks() {
    let facts = World::default().facts();
    for (bus, device, disk) in [
        ("virtio", "virtio0", "ceph-pool:32,iothread=on"),
        ("sata", "sata0", "ceph-pool:32,ssd=on"),
        ("ide", "ide0", "ceph-pool:32,ssd=on"),
    ] {
        let said = [&*format!("disk.bus={bus}"), "disk.ssd=yes", "disk.io_thread=yes"];
        assert_eq!(sent(&said, &facts, device).as_deref(), Some(disk), "{bus}");
        assert_eq!(answers(&said, &facts).notes().count(), 1, "the user hears of it");
    }
}

#[test]
fn ha_is_on_in_a_cluster_and_locked_without_the_privilege() {
    let lacking = world(|world| {
        let mut granted = all_privileges();
        granted.as_object_mut().unwrap().remove("Sys.Console");
        world.permissions = json!({ "/": granted });
    });
    assert!(answers(&[], &World::default().facts()).is_on(Field::Ha));
    let locked = answers(&[], &lacking);
    let ha = locked.get(Field::Ha).unwrap();
    assert!(!ha.value.is_on() && problems(&locked).is_empty());
    insta::assert_snapshot!(ha.lock.as_deref().unwrap(), @"the account lacks Sys.Console on /, which HA needs");
    assert!(!Plan::new(&locked, &lacking).unwrap().ha);
    let insisting = answers(&["general.ha=yes"], &lacking);
    insta::assert_snapshot!(problems(&insisting).join("\n"), @"general.ha: cannot be changed: the account lacks Sys.Console on /, which HA needs");
}

#[test]
fn ha_is_off_with_a_note_on_a_node_that_stands_alone() {
    let facts = world(|world| world.cluster = false);
    let alone = answers(&[], &facts);
    assert!(!alone.is_on(Field::Ha));
    insta::assert_snapshot!(notes(&alone), @"general.ha: this node stands alone, where HA has no effect, so it is off");
    let insisting = answers(&["general.ha=yes"], &facts);
    assert!(insisting.is_on(Field::Ha));
    insta::assert_snapshot!(notes(&insisting), @"general.ha: this node stands alone, where HA has no effect");
}

#[test]
fn what_is_not_there_gives_way_to_the_first_that_fits_with_a_note() {
    let facts = world(|world| {
        world.storages = json!([
            storage("zeta", "lvmthin", "images", &["raw"]),
            storage("local", "dir", "iso,images", &["qcow2", "raw"]),
        ]);
        world.bridges = json!([{ "iface": "vmbr1" }, { "iface": "vmbr0" }]);
    });
    insta::assert_snapshot!(notes(&answers(&["os.media=none"], &facts)), @"
    general.ha: local: not shared, so HA cannot move the VM elsewhere
    system.efi_storage: 'ceph-pool' is not there, so 'local' was taken
    disks.0.storage: 'ceph-pool' is not there, so 'local' was taken
    network.bridge: 'vmbr9' is not there, so 'vmbr0' was taken
    ");
    let mut inactive = World::default();
    inactive.storages[0]["active"] = json!(0);
    insta::assert_snapshot!(notes(&answers(&[], &inactive.facts())), @"
    general.ha: local: not shared, so HA cannot move the VM elsewhere
    system.efi_storage: 'ceph-pool' is not active, so 'local' was taken
    disks.0.storage: 'ceph-pool' is not active, so 'local' was taken
    ");
}

#[test]
fn without_a_nixos_image_nothing_arbitrary_is_taken() {
    let facts = world(|world| world.isos.retain(|name| !name.starts_with("nixos")));
    let answers = answers(&[], &facts);
    assert_eq!(value(&answers, "os.iso"), "");
    insta::assert_snapshot!(problems(&answers).join("\n"), @"os.iso: there is no 'nixos-minimal-…' on 'cephfs': choose an image");
    assert!(Plan::new(&answers, &facts).is_err());
}

#[test]
fn linux_keeps_the_defaults_and_windows_gets_bus_and_card_of_the_web_ui() {
    let facts = World::default().facts();
    let table: Vec<String> = ["l26", "l24", "win11", "win10", "wxp", "solaris", "other"]
        .iter()
        .map(|version| {
            let answers = answers(&[&format!("os.version={version}")], &facts);
            let keys = ["os.type", "disks.0.bus", "network.model", "system.bios", "memory.size"];
            keys.map(|key| value(&answers, key)).join(" ")
        })
        .collect();
    insta::assert_snapshot!(table.join("\n"), @"
    linux scsi virtio ovmf 2048
    linux scsi virtio ovmf 2048
    windows ide e1000 ovmf 2048
    windows ide e1000 ovmf 2048
    windows ide rtl8139 ovmf 2048
    solaris ide e1000 ovmf 2048
    other ide e1000 ovmf 2048
    ");
    let said = ["os.type=windows", "disk.bus=virtio", "network.model=virtio"];
    let answers = answers(&said, &facts);
    assert_eq!(value(&answers, "disks.0.bus"), "virtio");
    assert_eq!(value(&answers, "network.model"), "virtio");
}

#[test]
fn the_template_of_the_server_is_the_web_uis_own_defaults() {
    let facts = World::default().facts();
    let mut draft = Draft::new(Template::server());
    draft.set("os.media=none").unwrap();
    let plan = Plan::new(&resolve(&draft, &facts), &facts).unwrap();
    insta::assert_snapshot!(parameters(&plan), @"
    vmid=105
    ostype=l26
    sockets=1
    cores=1
    cpu=x86-64-v2-AES
    numa=0
    memory=2048
    scsihw=virtio-scsi-single
    ide2=none,media=cdrom
    scsi0=ceph-pool:32,iothread=on
    net0=virtio,bridge=vmbr0,firewall=1
    ");
    assert!(!plan.ha);
    draft.set("os.version=win11").unwrap();
    let plan = Plan::new(&resolve(&draft, &facts), &facts).unwrap();
    insta::assert_snapshot!(parameters(&plan), @"
    vmid=105
    ostype=win11
    sockets=1
    cores=1
    cpu=x86-64-v2-AES
    numa=0
    memory=4096
    bios=ovmf
    machine=q35
    scsihw=virtio-scsi-single
    efidisk0=ceph-pool:1,efitype=4m,pre-enrolled-keys=1
    tpmstate0=ceph-pool:1,version=v2.0
    ide0=ceph-pool:32
    ide2=none,media=cdrom
    net0=e1000,bridge=vmbr0,firewall=1
    ");
}

#[test]
fn another_template_keeps_what_was_said() {
    let mut draft = draft(&["cpu.cores=4"]);
    draft.set_template(Template::server());
    let answers = resolve(&draft, &World::default().facts());
    assert_eq!(
        (value(&answers, "cpu.cores"), value(&answers, "system.bios")),
        ("4".into(), "seabios".into())
    );
    assert_eq!(value(&answers, "disks.0.format"), "raw", "ceph-pool knows no other");
    draft.set("disk.storage=local").unwrap();
    let answers = resolve(&draft, &World::default().facts());
    assert_eq!(value(&answers, "disks.0.format"), "qcow2", "and is free to choose elsewhere");
}

#[test]
fn what_an_older_server_does_not_know_is_hidden_and_not_sent() {
    let facts = world(|world| world.version = "8.4.9");
    let answers = answers(&["memory.ksm=no"], &facts);
    assert!(!answers.get(Field::Ksm).unwrap().shown);
    let plan = Plan::new(&answers, &facts).unwrap();
    let names: Vec<String> = plan.parameters().into_iter().map(|(name, _)| name).collect();
    assert!(!names.iter().any(|name| name == "allow-ksm" || name == "ha-managed"));
    assert!(plan.ha, "by a request of its own, which every version knows");
    assert_eq!(
        sent(&["memory.ksm=no"], &World::default().facts(), "allow-ksm").as_deref(),
        Some("0")
    );
}

#[test]
fn the_minimum_follows_the_memory_until_it_is_said() {
    let facts = World::default().facts();
    assert_eq!(value(&answers(&["memory.size=4096"], &facts), "memory.minimum"), "4096");
    assert_eq!(sent(&["memory.size=4096"], &facts, "balloon"), None);
    let said = ["memory.size=4096", "memory.minimum=1024"];
    assert_eq!(sent(&said, &facts, "balloon").as_deref(), Some("1024"));
    assert_eq!(sent(&["memory.ballooning=no"], &facts, "balloon").as_deref(), Some("0"));
    let too_much = answers(&["memory.minimum=4096"], &facts);
    insta::assert_snapshot!(problems(&too_much).join("\n"), @"memory.minimum: more than the memory size, 2048 MiB");
}

#[test]
fn disks_take_the_places_that_are_free() {
    let facts = World::default().facts();
    let places = |said: &[&str]| {
        let answers = answers(said, &facts);
        let place = |disk| {
            let value = |field| answers.value(Key::disk(disk, field)).to_string();
            format!("{}{}", value(Field::DiskBus), value(Field::DiskDevice))
        };
        let places: Vec<String> = (0..answers.disks()).map(place).collect();
        format!("{} {}", places.join(" "), problems(&answers).join("; "))
    };
    assert_eq!(places(&["disks=3"]), "scsi0 scsi1 scsi2 ");
    assert_eq!(places(&["disks=0"]), " ");
    assert_eq!(places(&["disks=3", "disks.1.bus=virtio"]), "scsi0 virtio0 scsi1 ");
    assert_eq!(places(&["disks=3", "disks.2.device=0"]), "scsi1 scsi2 scsi0 ");
    let i440fx = "system.machine=i440fx";
    assert_eq!(
        places(&["disks=3", "disk.bus=ide", i440fx]),
        "ide0 ide1 ide3 ",
        "ide2 is the CD drive"
    );
    insta::assert_snapshot!(places(&["disks=2", "disk.bus=ide"]), @"ide0 ide disks.1.device: there is no place left on ide");
    insta::assert_snapshot!(places(&["disks=2", "disk.device=7"]), @"scsi7 scsi7 disks.1.device: another disk is scsi7");
    insta::assert_snapshot!(places(&["disks.0.bus=sata", "disks.0.device=6"]), @"sata6 disks.0.device: the last number on sata is 5");
}

#[test]
fn what_cannot_start_is_said_before_it_is_made() {
    let facts = world(|world| {
        world.bridges = json!([{ "iface": "vmbr9", "type": "bridge", "mtu": "1500" }]);
    });
    let said = [
        "cpu.cores=8",
        "cpu.sockets=3",
        "disk.aio=native",
        "disk.cache=writeback",
        "network.mtu=9000",
        "network.mac=01:00:5E:00:00:01",
        "general.name=bad_name!",
        "general.tags=bad,-tag",
    ];
    insta::assert_snapshot!(problems(&answers(&said, &facts)).join("\n"), @"
    general.name: 'bad_name!' is not a DNS name: letters, digits and '-', not at the ends of a part
    general.tags: '-tag' is not a tag (letters, digits, '-', '_', '+' or '.'; not beginning with '-', '+' or '.')
    disks.0.aio: 'native' needs the cache 'none' or 'directsync': such a VM does not start
    cpu.cores: 24 processors, but the node has 16: such a VM does not start there
    network.mac: '01:00:5E:00:00:01' is an address of a group: its second digit must be even
    network.mtu: the bridge passes on 1500 at most
    ");
    insta::assert_snapshot!(problems(&answers(&["network.mtu=100", "network.vlan="], &facts)).join("\n"), @"network.mtu: at least 576, or 1 for the bridge's own");
}

#[test]
fn a_number_that_is_taken_is_named_with_one_that_is_free() {
    let mut facts = World::default().facts();
    let vmid = "100".parse().unwrap();
    assert_eq!(facts.ask(&draft(&["general.vmid=100"])), [Query::IsFree(vmid)]);
    facts.learn(Query::IsFree(vmid), Ok(Found::IsFree(false)));
    insta::assert_snapshot!(problems(&answers(&["general.vmid=100"], &facts)).join("\n"), @"general.vmid: 100 is taken by another VM or container; 105 is free");
}

#[test]
fn nothing_is_made_while_something_is_loading_and_a_failure_is_said() {
    let mut facts = World::default().facts();
    facts.forget_all(|query| matches!(query, Query::Storages(_)));
    let loading = answers(&[], &facts);
    let refused = Plan::new(&loading, &facts).unwrap_err();
    insta::assert_snapshot!(refused, @"
    os.storage: not known yet
    os.iso: not known yet
    system.efi_storage: not known yet
    disks.0.storage: not known yet
    ");
    assert_eq!(
        value(&loading, "disks.0.storage"),
        "ceph-pool",
        "what will likely be taken is shown"
    );
    facts.learn(Query::Storages("pve1".parse().unwrap()), Err("node unreachable".to_owned()));
    insta::assert_snapshot!(problems(&answers(&[], &facts)).join("\n"), @"os.iso: the images cannot be listed: node unreachable");
}

#[test]
fn only_tags_that_the_account_may_set_are_taken() {
    let mut facts = world(|world| {
        let mut granted = all_privileges();
        granted.as_object_mut().unwrap().remove("Sys.Modify");
        world.permissions = json!({ "/": granted });
    });
    let options = json!({
        "allowed-tags": ["dev", "test"], "registered-tags": ["prod"],
        "user-tag-access": { "user-allow": "existing" },
    });
    facts.learn(Query::Options, Ok(Found::Options(read(&options))));
    let said = ["general.tags=test,new,prod", "general.start_order=3"];
    insta::assert_snapshot!(problems(&answers(&said, &facts)).join("\n"), @"
    general.tags: this account may not set 'new'
    general.tags: 'prod' is a registered tag, for which Sys.Modify on / is needed
    general.start_order: cannot be changed: the account lacks Sys.Modify on /
    ");
    assert_eq!(problems(&answers(&["general.tags=test"], &facts)), [""; 0]);
}

#[test]
fn every_option_of_a_draft_reaches_the_request() {
    let said = [
        "general.name=web",
        "general.start_at_boot=yes",
        "general.start_order=1",
        "general.startup_delay=2",
        "general.shutdown_timeout=3",
        "system.display=std",
        "system.efi_keys=yes",
        "system.controller=megasas",
        "system.tpm=yes",
        "system.tpm_version=v1.2",
        "disk.cache=writeback",
        "disk.discard=yes",
        "disk.backup=no",
        "disk.skip_replication=yes",
        "disk.io_thread=no",
        "disk.aio=threads",
        "disk.size=0.5",
        "cpu.sockets=2",
        "cpu.type=kvm64",
        "memory.minimum=512",
        "memory.ksm=no",
        "network.vlan=7",
        "network.model=virtio",
        "network.mac=BC:24:11:00:00:01",
        "network.firewall=no",
        "network.mtu=1400",
        "network.rate=12.5",
        "network.multiqueue=4",
        "confirm.start=yes",
    ];
    let facts = World::default().facts();
    let plan = Plan::new(&answers(&said, &facts), &facts).unwrap();
    insta::assert_snapshot!(parameters(&plan), @"
    vmid=105
    name=web
    onboot=1
    startup=order=1,up=2,down=3
    ostype=l26
    sockets=2
    cores=2
    cpu=kvm64
    numa=0
    memory=2048
    balloon=512
    allow-ksm=0
    bios=ovmf
    machine=q35
    scsihw=megasas
    vga=std
    agent=1
    efidisk0=ceph-pool:1,efitype=4m,pre-enrolled-keys=1
    tpmstate0=ceph-pool:1,version=v1.2
    ide2=cephfs:iso/nixos-minimal-25.05.805252.b43c397f6c21-x86_64-linux.iso,media=cdrom
    scsi0=ceph-pool:0.5,cache=writeback,discard=on,ssd=on,backup=0,replicate=0,aio=threads
    net0=virtio=BC:24:11:00:00:01,bridge=vmbr9,tag=7,rate=12.5,queues=4,mtu=1400
    ");
    insta::assert_snapshot!(plan.pvesh_lines()[1..].join("\n"), @"
    pvesh set /nodes/pve1/qemu/105/config --serial0 socket --vga serial0
    pvesh create /nodes/pve1/qemu/105/status/start
    pvesh create /cluster/ha/resources --sid vm:105 --state started
    ");
    assert_eq!(sent(&["network.none=yes"], &facts, "net0"), None);
    let serial = ["system.display=serial1"];
    assert_eq!(sent(&serial, &facts, "serial1").as_deref(), Some("socket"));
    assert_eq!(sent(&serial, &facts, "vga").as_deref(), Some("serial1"));
}

#[test]
fn each_medium_comes_to_its_own_drive() {
    let facts = World::default().facts();
    let drive = |said: &[&str]| sent(said, &facts, "ide2").unwrap();
    assert!(drive(&[]).starts_with("cephfs:iso/nixos-minimal-25.05"));
    let debian = "cephfs:iso/debian-13.1.0-amd64-netinst.iso,media=cdrom";
    assert_eq!(drive(&["os.iso=debian"]), debian);
    assert_eq!(drive(&["os.iso=debian-13.1.0-amd64-netinst.iso"]), debian);
    assert_eq!(drive(&["os.media=drive"]), "cdrom,media=cdrom");
    assert_eq!(drive(&["os.media=none"]), "none,media=cdrom");
    let none = answers(&["os.media=none"], &facts);
    assert!(!none.get(Field::Iso).unwrap().shown && !none.get(Field::IsoStorage).unwrap().shown);
}

#[test]
fn the_images_are_asked_for_again_when_the_storage_changes() {
    let mut facts = World::default().facts();
    facts.forget_all(|query| matches!(query, Query::Isos(..)));
    let isos = |storage: &str| Query::Isos("pve1".parse().unwrap(), storage.parse().unwrap());
    let mut draft = draft(&[]);
    assert_eq!(facts.ask(&draft), [isos("cephfs")]);
    draft.set("os.storage=local").unwrap();
    assert_eq!(facts.ask(&draft), [isos("local")]);
    facts.learn(isos("local"), Ok(Found::Isos(Vec::new())));
    let answers = resolve(&draft, &facts);
    insta::assert_snapshot!(problems(&answers).join("\n"), @"os.iso: there is no ISO image on 'local': choose another storage, or no media");
}
