//! Names that stand in lists of the server, or do not; and what belongs to which disk.

use super::*;

#[test]
fn what_is_said_and_not_there_is_a_problem_and_never_replaced() {
    let said = ["disk.storage=fast", "network.bridge=vmbr7", "general.node=pve2", "cpu.type=x"];
    let facts = World::default().facts();
    insta::assert_snapshot!(problems(&answers(&said, &facts)).join("\n"), @"general.node: 'pve2': not online");
    let said = ["disk.storage=fast", "network.bridge=vmbr7", "cpu.type=x", "general.pool=p"];
    insta::assert_snapshot!(problems(&answers(&said, &facts)).join("\n"), @"
    general.pool: 'p' is not there; there is lab
    disks.0.storage: 'fast' is not there; there is ceph-pool, local
    cpu.type: 'x' is not there; there is host, kvm64, qemu64, x86-64-v2-AES, EPYC
    network.bridge: 'vmbr7' is not there; there is vmbr0, vmbr9
    ");
}

#[test]
fn a_name_that_is_not_in_its_list_is_answered_with_what_is_known_of_it() {
    let said = ["disk.storage=cephfs", "os.storage=ceph-pool"];
    insta::assert_snapshot!(problems(&answers(&said, &World::default().facts())).join("\n"), @"
    os.storage: 'ceph-pool' holds no ISO images; there is cephfs, local
    disks.0.storage: 'cephfs' holds no disks; there is ceph-pool, local
    ");
    let rights = json!({ "/vms": all_privileges(), "/pool/own": { "VM.Allocate": 1 } });
    let narrow = world(|world| world.permissions = rights);
    let said = ["general.pool=p", "disk.storage=fast", "network.bridge=vmbr7", "os.media=none"];
    insta::assert_snapshot!(problems(&answers(&said, &narrow)).join("\n"), @"
    general.pool: 'p' is not there; there is lab; or it is hidden from this account, which lacks Pool.Audit on /pool/p
    disks.0.storage: 'fast' is not there; there is ceph-pool, local; or it is hidden from this account, which lacks Datastore.Audit and Datastore.AllocateSpace on /storage/fast
    network.bridge: 'vmbr7' is not there; there is vmbr0, vmbr9; or it is hidden from this account, which lacks SDN.Audit and SDN.Use on /sdn/zones/localnetwork/vmbr7
    ");
}

#[test]
fn a_pool_may_be_used_by_whom_it_is_hidden_from() {
    let rights = json!({ "/vms": all_privileges(), "/pool/own": { "VM.Allocate": 1 } });
    let facts = world(|world| world.permissions = rights);
    let said = answers(&["general.pool=own"], &facts);
    insta::assert_snapshot!(notes(&said), @"general.pool: could not be checked: the account may use it, but lacks Pool.Audit on /pool/own");
    let of_template = |pool: &str| {
        let text = format!("[general]\npool = '{pool}'\n[os]\nmedia = 'none'");
        resolve(&Draft::new(Template::parse("mine", &text).unwrap()), &facts)
    };
    assert_eq!(
        (value(&said, "general.pool"), value(&of_template("own"), "general.pool")),
        ("own".into(), "own".into())
    );
    let gone = of_template("gone");
    assert_eq!(value(&gone, "general.pool"), "", "and never another one");
    insta::assert_snapshot!(notes(&gone), @"general.pool: 'gone' is not there");
}

#[test]
fn without_a_list_a_name_is_taken_with_a_note_but_never_what_cannot_be_one() {
    let mut facts = World::default().facts();
    let node = || "pve1".parse().unwrap();
    for query in
        [Query::Pools, Query::Storages(node()), Query::Bridges(node()), Query::CpuModels(node())]
    {
        facts.learn(query, Err("timed out".to_owned()));
    }
    let good = [
        "general.pool=lab/web",
        "os.iso=nas:iso/debian.iso",
        "disk.storage=fast",
        "disk.format=raw",
        "system.efi_storage=fast",
        "network.bridge=vmbr7",
        "cpu.type=kvm64",
    ];
    let taken = answers(&good, &facts);
    insta::assert_snapshot!(notes(&taken), @"
    general.pool: could not be checked: timed out
    os.iso: could not be checked: timed out
    system.efi_storage: could not be checked: timed out
    disks.0.storage: could not be checked: timed out
    cpu.type: could not be checked: timed out
    network.bridge: could not be checked: timed out
    ");
    assert_eq!(problems(&taken), [""; 0]);
    let plan = Plan::new(&taken, &facts).unwrap();
    assert_eq!(plan.create.pool.as_ref().map(ToString::to_string).as_deref(), Some("lab/web"));
    assert!(parameters(&plan).contains("ide2=nas:iso/debian.iso,media=cdrom"));
    let mut mine = Draft::new(Template::parse("mine", "[general]\npool = 'a b'").unwrap());
    for bad in [
        "os.iso=debian.iso",
        "disk.storage=fast:1,format=raw",
        "system.efi_storage=a b",
        "network.bridge=vmbr0,tag=5",
        "cpu.type=host,hidden=1",
    ] {
        mine.set(bad).unwrap();
    }
    let refused = resolve(&mine, &facts);
    insta::assert_snapshot!(problems(&refused).join("\n"), @"
    general.pool: 'a b' is not a pool name (letters, digits, '-', '_' or '.'; at most three levels, parted by '/')
    os.storage: has to be said, since the list could not be had
    os.iso: 'debian.iso' is not a volume id (<storage>:iso/<file>.iso), and without a list nothing else can be found
    disks.0.storage: 'fast:1,format=raw' is not a storage name (a letter, then letters, digits, '-', '_' or '.')
    cpu.type: 'host,hidden=1' is not a CPU model (letters, digits, '-', '_' or '.')
    network.bridge: 'vmbr0,tag=5' is not a bridge (letters, digits, '-', '_' or '.')
    ");
    assert!(Plan::new(&refused, &facts).is_err());
    let elsewhere = ["os.storage=cephfs", "os.iso=nas:iso/debian.iso"];
    insta::assert_snapshot!(problems(&answers(&elsewhere, &facts)).join("\n"), @"os.iso: is on 'nas', and not on 'cephfs'");
}

#[test]
fn a_name_is_checked_before_its_list_is_there() {
    let mut facts = World::default().facts();
    facts.forget_all(|query| matches!(query, Query::Pools | Query::Bridges(_)));
    let said = ["general.pool=a b", "network.bridge=vmbr0,tag=5"];
    insta::assert_snapshot!(problems(&answers(&said, &facts)).join("\n"), @"
    general.pool: 'a b' is not a pool name (letters, digits, '-', '_' or '.'; at most three levels, parted by '/')
    network.bridge: 'vmbr0,tag=5' is not a bridge (letters, digits, '-', '_' or '.')
    ");
    let mut unknown = World::default().facts();
    unknown.learn(Query::IsFree("120".parse().unwrap()), Err("timed out".to_owned()));
    insta::assert_snapshot!(notes(&answers(&["general.vmid=120"], &unknown)), @"general.vmid: could not be checked: timed out");
}

#[test]
fn an_image_that_is_said_says_its_storage() {
    let mut facts = World::default().facts();
    let query = Query::Isos("pve1".parse().unwrap(), "local".parse().unwrap());
    facts.learn(query, Ok(Found::Isos(read(&json!([{ "volid": "local:iso/own.iso" }])))));
    let drive = sent(&["os.iso=local:iso/own.iso"], &facts, "ide2");
    assert_eq!(drive.as_deref(), Some("local:iso/own.iso,media=cdrom"));
    let elsewhere = ["os.storage=cephfs", "os.iso=local:iso/own.iso"];
    assert!(
        problems(&answers(&elsewhere, &facts))[0]
            .starts_with("os.iso: 'local:iso/own.iso' is not there")
    );
}

#[test]
fn only_what_somebody_said_is_told_to_be_left_out() {
    let facts = World::default().facts();
    let text = "[[disks]]\nsize = 1\n[[disks]]\nbus = 'virtio'\nssd = true\nsize = 2";
    let mut draft = Draft::new(Template::parse("two", text).unwrap());
    draft.set("os.media=none").unwrap();
    assert_eq!(notes(&resolve(&draft, &facts)), "", "the template said it");
    draft.remove_disk(0, 2);
    let answers = resolve(&draft, &facts);
    assert_eq!(
        (value(&answers, "disks.0.bus").as_str(), value(&answers, "disks.0.size").as_str()),
        ("virtio", "2")
    );
    assert_eq!(notes(&answers), "", "and nobody else did");
    draft.set("disks.0.ssd=no").unwrap();
    assert_eq!(notes(&resolve(&draft, &facts)), "", "it has none, as was said");
    draft.set("disks.0.ssd=yes").unwrap();
    insta::assert_snapshot!(notes(&resolve(&draft, &facts)), @"disks.0.ssd: has no meaning here and is left out");
    let old = world(|world| world.version = "8.4.9");
    insta::assert_snapshot!(notes(&self::answers(&["memory.ksm=no"], &old)), @"memory.ksm: this version of Proxmox VE cannot switch it off for one VM, so it stays on");
    assert_eq!(notes(&self::answers(&["memory.ksm=yes"], &old)), "");
    assert_eq!(notes(&self::answers(&[], &old)), "");
}

#[test]
fn one_disk_of_a_template_is_changed_and_the_others_stay() {
    let facts = World::default().facts();
    let text = "[os]\nmedia = 'none'\n[disk]\nstorage = 'ceph-pool'\n\
        [[disks]]\nsize = 1\n[[disks]]\nsize = 2\n[[disks]]\nsize = 3";
    let mut draft = Draft::new(Template::parse("three", text).unwrap());
    draft.set("disks.1.size=20").unwrap();
    let disks = |draft: &Draft| {
        let plan = Plan::new(&resolve(draft, &facts), &facts).unwrap();
        let disks = plan.parameters().into_iter().filter(|(name, _)| name.starts_with("scsi"));
        let disks = disks.filter(|(name, _)| name != "scsihw");
        disks.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    insta::assert_snapshot!(disks(&draft), @"scsi0=ceph-pool:1,iothread=on scsi1=ceph-pool:20,iothread=on scsi2=ceph-pool:3,iothread=on");
    draft.remove_disk(0, 3);
    insta::assert_snapshot!(disks(&draft), @"scsi0=ceph-pool:20,iothread=on scsi1=ceph-pool:3,iothread=on");
}
