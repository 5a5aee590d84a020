//! Every `Default` of the specification's page, read from a carried copy of it.

use std::collections::BTreeMap;

use super::*;

const PAGE: &str = include_str!("specification/wizard.md");

/// A line of the page that tells a default: its screen, the fields above it, and the line.
fn defaults() -> Vec<(String, String)> {
    let mut screen = String::new();
    let mut subject = String::new();
    let mut found = Vec::new();
    for line in PAGE.lines() {
        if let Some(title) = line.strip_prefix("#### ") {
            title.clone_into(&mut screen);
            continue;
        }
        let text = line.trim_start().trim_start_matches("- ");
        if line.trim_start().starts_with("- Default") || line.starts_with("Default") {
            let place = if screen.is_empty() { "Authentication" } else { &screen };
            found.push((format!("{place}: {subject}"), text.to_owned()));
        } else if line.trim_start().starts_with("- ") {
            text.clone_into(&mut subject);
        }
    }
    found
}

/// What the resolver answers where the page tells a default. The values are said as the page says
/// them, so that the page itself is what is compared with.
fn ours(place: &str, line: &str, answers: &Answers) -> Option<String> {
    let disk = |field| Key::disk(0, field);
    let key: Key = match (place, line) {
        ("General: VM ID", _) => Field::Vmid.into(),
        ("General: Resource Pool", _) => Field::Pool.into(),
        ("General: High Availability (HA) (enabled/disabled)", _) => Field::Ha.into(),
        (
            "General: start at boot (enabled/disabled)"
            | "Confirm: Start at boot (enabled/disabled)",
            _,
        ) => Field::StartAtBoot.into(),
        (place, _) if place.starts_with("OS: Let them choose the storage") => {
            Field::IsoStorage.into()
        }
        (place, _) if place.starts_with("OS: Let them choose the iso") => Field::Iso.into(),
        ("OS: Let the user select the Guest type and Version", line) => {
            if line.starts_with("Default Type") {
                Field::OsType.into()
            } else {
                Field::OsVersion.into()
            }
        }
        ("System: Graphic card", _) => Field::Display.into(),
        ("System: Machine", _) => Field::Machine.into(),
        ("System: Formware BIOS", _) => Field::Bios.into(),
        ("System: Add EFI Disk (enabled/disabled)", _) => Field::Efi.into(),
        ("System: EFI storage", _) => Field::EfiStorage.into(),
        ("System: Pre-Enroll keys (enabled/disabled)", _) => Field::EfiKeys.into(),
        ("System: SCSI Controller", _) => Field::Controller.into(),
        ("System: Qemu Agent (enabled/disabled)", _) => Field::Agent.into(),
        ("System: TPM (enabled/disabled)", _) => Field::Tpm.into(),
        ("Disks: Bus/Device", line) => {
            disk(if line.starts_with("Default BUS") { Field::DiskBus } else { Field::DiskDevice })
        }
        ("Disks: Storage", _) => disk(Field::DiskStorage),
        ("Disks: Disk size (GiB)", _) => disk(Field::DiskSize),
        ("Disks: Format", _) => disk(Field::DiskFormat),
        ("Disks: Cache", _) => disk(Field::DiskCache),
        ("Disks: Discard", _) => disk(Field::DiskDiscard),
        ("Disks: IO Thread", _) => disk(Field::DiskIoThread),
        ("Disks: SSD emulation", _) => disk(Field::DiskSsd),
        ("Disks: Backup", _) => disk(Field::DiskBackup),
        ("Disks: Skip replication", _) => disk(Field::DiskSkipReplication),
        ("Disks: Async IO", _) => disk(Field::DiskAio),
        ("CPU: Cores", _) => Field::Cores.into(),
        ("CPU: Sockets", _) => Field::Sockets.into(),
        ("CPU: CPU Type", _) => Field::CpuType.into(),
        ("Memory: Memory size (MiB)", _) => Field::MemorySize.into(),
        ("Memory: Min Memory (MiB)", _) => Field::MemoryMinimum.into(),
        ("Memory: Ballooning (enabled/disabled)", _) => Field::Ballooning.into(),
        ("Memory: Allow KSM (enabled/disabled)", _) => Field::Ksm.into(),
        ("Network: No Network device (enabled/disabled)", _) => Field::NoNetwork.into(),
        ("Network: Bridge", _) => Field::Bridge.into(),
        ("Network: VLAN Tag", _) => Field::Vlan.into(),
        ("Network: Model", _) => Field::Model.into(),
        ("Network: MAC Address", _) => Field::Mac.into(),
        ("Network: Firewall (enabled/disabled)", _) => Field::Firewall.into(),
        ("Network: Disconnected (connected (enabled)/disconnected (disabled))", _) => {
            Field::Disconnected.into()
        }
        ("Network: MTU", _) => Field::Mtu.into(),
        ("Network: Rate Limit (MB/s)", _) => Field::Rate.into(),
        ("Network: Multiqueue (integer)", _) => Field::Multiqueue.into(),
        _ => return None,
    };
    let answer = answers.get(key).unwrap();
    assert_eq!(answer.origin, Origin::Default, "{key}");
    assert!(answer.problems.is_empty() && answer.notes.is_empty(), "{key}: {answer:?}");
    Some(in_the_pages_words(key.field, &answer.shown_value()))
}

/// The value in the page's own words, where these are others than the list's.
fn in_the_pages_words(field: Field, value: &str) -> String {
    let flag = matches!(field.row().input, Input::Flag);
    match (field, value) {
        (Field::Vmid, "105") => "next free VM ID above 100",
        (Field::Pool, "") => "Empty",
        (Field::Iso, "nixos-minimal-25.05.805252.b43c397f6c21-x86_64-linux.iso") => {
            "the latest available nixos-minimal iso (schema nixos-minimal-<two digit year>-<two \
             digit month>.<some alphanumeric id or hash>.<architecture e.g. x86_64>-linux.iso"
        }
        (Field::DiskDevice, "0") => "increasing integer starting from 0 (e.g. SCSI0, SCSI1, ...)",
        (Field::DiskSize, "32") => "32 GiB",
        (Field::DiskFormat, "raw" | "Raw disk image") => "RAW (not changeable)",
        (Field::DiskCache, "Default (No cache)") => "no chache",
        (Field::DiskAio, "Default (io_uring)") => "io_uring",
        (Field::MemorySize, "2048") => "2048 MiB",
        (Field::MemoryMinimum, "2048") => "same as Memory size",
        (Field::Model, "VirtIO (paravirtualized)") => "virtio",
        (Field::Mac, "") => "auto-generated by the API",
        (Field::Mtu, "") => "none (Same as the bridge)",
        (Field::Rate, "") => "none (unlimited)",
        (Field::Vlan | Field::Multiqueue, "") => "none",
        (_, "yes") if flag => "enabled",
        (_, "no") if flag => "disabled",
        (_, other) => other,
    }
    .to_owned()
}

#[test]
fn every_default_of_the_page_is_what_an_empty_draft_resolves_to() {
    let facts = World::default().facts();
    let answers = resolve(&Draft::default(), &facts);
    let mut compared = 0;
    for (place, line) in defaults() {
        let (_, said) = line.split_once(": ").or_else(|| line.split_once(' ')).unwrap();
        match ours(&place, &line, &answers) {
            Some(ours) => assert_eq!(ours, said, "{place}"),
            None => assert!(place.starts_with("Authentication"), "{place}: {line} is not compared"),
        }
        compared += 1;
    }
    assert_eq!(compared, 48);
    assert_eq!(problems(&answers), [""; 0]);
    assert_eq!(answers.notes().count(), 0);
}

/// What the web UI sends for the specification's defaults, as it is written down for 9.1.
const EXAMPLE: &str = "
vmid=105  name=test  pool=lab  tags=nixos;test  ha-managed=1
ide2=cephfs:iso/nixos-minimal-25.05.iso,media=cdrom  ostype=l26
machine=q35  bios=ovmf  efidisk0=ceph-pool:1,efitype=4m,pre-enrolled-keys=0
scsihw=virtio-scsi-single  agent=1
scsi0=ceph-pool:32,iothread=on,ssd=on
sockets=1  cores=2  cpu=host  numa=0
memory=2048
net0=virtio,bridge=vmbr9,firewall=1
";

#[test]
fn the_request_of_the_defaults_is_the_example_without_ha() {
    let draft = draft(&["general.name=test", "general.pool=lab", "general.tags=nixos;test"]);
    let sent = |facts: &Facts| {
        let plan = Plan::new(&resolve(&draft, facts), facts).unwrap();
        plan.parameters().into_iter().collect::<BTreeMap<String, String>>()
    };
    let words = EXAMPLE.split_whitespace().map(|word| word.split_once('=').unwrap());
    let mut example: BTreeMap<String, String> =
        words.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    assert_eq!(example.remove("ha-managed").as_deref(), Some("1"), "HA is a request of its own");
    let mut world = World { isos: vec!["nixos-minimal-25.05.iso"], ..World::default() };
    assert_eq!(sent(&world.facts()), example);
    // Where the storage offers a choice, the format is said.
    world.storages[0] = storage("ceph-pool", "dir", "images", &["qcow2", "raw"]);
    for name in ["efidisk0", "scsi0"] {
        let value = example.get_mut(name).unwrap();
        *value = match name {
            "scsi0" => value.replace(":32,", ":32,format=raw,"),
            _ => format!("{value},format=raw"),
        };
    }
    assert_eq!(sent(&world.facts()), example);
}

#[test]
fn the_request_of_the_defaults_is_the_one_that_is_written_down() {
    let draft = draft(&["general.name=test", "general.pool=lab", "general.tags=nixos;test"]);
    let facts = World::default().facts();
    let answers = resolve(&draft, &facts);
    let plan = Plan::new(&answers, &facts).unwrap();
    insta::assert_snapshot!(parameters(&plan), @"
    vmid=105
    name=test
    tags=nixos;test
    ostype=l26
    sockets=1
    cores=2
    cpu=host
    numa=0
    memory=2048
    bios=ovmf
    machine=q35
    scsihw=virtio-scsi-single
    agent=1
    efidisk0=ceph-pool:1,efitype=4m,pre-enrolled-keys=0
    ide2=cephfs:iso/nixos-minimal-25.05.805252.b43c397f6c21-x86_64-linux.iso,media=cdrom
    scsi0=ceph-pool:32,iothread=on,ssd=on
    net0=virtio,bridge=vmbr9,firewall=1
    pool=lab
    ");
    assert!(plan.ha && !plan.start);
    insta::assert_snapshot!(plan.pvesh_lines().join("\n"), @"
    pvesh create /nodes/pve1/qemu --vmid 105 --name test --tags 'nixos;test' --ostype l26 --sockets 1 --cores 2 --cpu host --numa 0 --memory 2048 --bios ovmf --machine q35 --scsihw virtio-scsi-single --agent 1 --efidisk0 ceph-pool:1,efitype=4m,pre-enrolled-keys=0 --ide2 cephfs:iso/nixos-minimal-25.05.805252.b43c397f6c21-x86_64-linux.iso,media=cdrom --scsi0 ceph-pool:32,iothread=on,ssd=on --net0 virtio,bridge=vmbr9,firewall=1 --pool lab
    pvesh set /nodes/pve1/qemu/105/config --serial0 socket --vga serial0
    pvesh create /cluster/ha/resources --sid vm:105 --state stopped
    ");
    insta::assert_snapshot!(plan.qm_lines().join("\n"), @"
    qm create 105 --name test --tags 'nixos;test' --ostype l26 --sockets 1 --cores 2 --cpu host --numa 0 --memory 2048 --bios ovmf --machine q35 --scsihw virtio-scsi-single --agent 1 --efidisk0 ceph-pool:1,efitype=4m,pre-enrolled-keys=0 --ide2 cephfs:iso/nixos-minimal-25.05.805252.b43c397f6c21-x86_64-linux.iso,media=cdrom --scsi0 ceph-pool:32,iothread=on,ssd=on --net0 virtio,bridge=vmbr9,firewall=1 --pool lab
    qm set 105 --serial0 socket --vga serial0
    ha-manager add vm:105 --state stopped
    ");
}

#[test]
fn the_summary_tells_everything_that_is_made() {
    let facts = World::default().facts();
    let lines = summary(&resolve(&draft(&["general.name=test", "disks.1.size=0.5"]), &facts));
    let lines: Vec<String> = lines
        .iter()
        .map(|line| format!("{:8} {:28} {}", line.screen.title(), line.label, line.value))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    General  Node                         pve1
    General  VM ID                        105
    General  Name                         test
    General  Resource pool                (none)
    General  Tags                         (none)
    General  High availability            yes
    General  Start at boot                no
    General  Start/shutdown order         (any)
    General  Startup delay                (default)
    General  Shutdown timeout             (default)
    OS       CD/DVD drive                 ISO image
    OS       ISO storage                  cephfs
    OS       ISO image                    nixos-minimal-25.05.805252.b43c397f6c21-x86_64-linux.iso
    OS       Guest type                   Linux
    OS       Guest version                6.x - 2.6 Kernel
    System   Graphic card                 Default
    System   Machine                      q35
    System   Firmware (BIOS)              OVMF (UEFI)
    System   Add EFI disk                 yes
    System   EFI storage                  ceph-pool
    System   Pre-enroll keys              no
    System   SCSI controller              VirtIO SCSI single
    System   QEMU agent                   yes
    System   Add TPM                      no
    Disks    Disks                        2
    Disks    Disk 0: Bus                  SCSI
    Disks    Disk 0: Device               0
    Disks    Disk 0: Storage              ceph-pool
    Disks    Disk 0: Disk size            32 GiB
    Disks    Disk 0: Format               Raw disk image
    Disks    Disk 0: Cache                Default (No cache)
    Disks    Disk 0: Discard              no
    Disks    Disk 0: IO thread            yes
    Disks    Disk 0: SSD emulation        yes
    Disks    Disk 0: Backup               yes
    Disks    Disk 0: Skip replication     no
    Disks    Disk 0: Async IO             Default (io_uring)
    Disks    Disk 1: Bus                  SCSI
    Disks    Disk 1: Device               1
    Disks    Disk 1: Storage              ceph-pool
    Disks    Disk 1: Disk size            0.5 GiB
    Disks    Disk 1: Format               Raw disk image
    Disks    Disk 1: Cache                Default (No cache)
    Disks    Disk 1: Discard              no
    Disks    Disk 1: IO thread            yes
    Disks    Disk 1: SSD emulation        yes
    Disks    Disk 1: Backup               yes
    Disks    Disk 1: Skip replication     no
    Disks    Disk 1: Async IO             Default (io_uring)
    CPU      Cores                        2
    CPU      Sockets                      1
    CPU      CPU type                     host
    Memory   Memory size                  2048 MiB
    Memory   Minimum memory               2048 MiB
    Memory   Ballooning                   yes
    Memory   Allow KSM                    yes
    Network  No network device            no
    Network  Bridge                       vmbr9
    Network  VLAN tag                     (none)
    Network  Model                        VirtIO (paravirtualized)
    Network  MAC address                  (auto)
    Network  Firewall                     yes
    Network  Disconnected                 no
    Network  MTU                          (same as bridge)
    Network  Rate limit                   (unlimited)
    Network  Multiqueue                   (none)
    Confirm  Start after creation         no
    ");
}
