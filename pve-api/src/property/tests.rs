use super::*;

fn read<T: Format>(text: &str) -> Property<T> {
    text.parse().unwrap()
}

#[test]
fn what_was_not_touched_keeps_its_order_and_spelling() {
    let text = "backup=no,file=local:1/a.qcow2,iothread=on,x-new=7,size=50M";
    let mut disk = read::<Drive>(text);
    assert_eq!((disk.backup, disk.iothread), (Some(false), Some(true)));
    assert_eq!(disk.to_string(), text);
    disk.change(|disk| {
        disk.iothread = None;
        disk.size = Some("1G".to_owned());
        disk.discard = Some(Discard::On);
    })
    .unwrap();
    assert_eq!(disk.to_string(), "backup=no,file=local:1/a.qcow2,x-new=7,size=1G,discard=on");
    disk.change(|disk| disk.backup = Some(true)).unwrap();
    assert_eq!(disk.to_string(), "backup=1,file=local:1/a.qcow2,x-new=7,size=1G,discard=on");
}

#[test]
fn a_network_card_may_name_its_model_in_three_ways() {
    for text in [
        "virtio=BC:24:11:4F:C2:7E,bridge=vmbr0",
        "model=virtio,macaddr=BC:24:11:4F:C2:7E,bridge=vmbr0",
        "bridge=vmbr0,virtio=bc:24:11:4f:c2:7e,tag=5",
    ] {
        let card = read::<NetDevice>(text);
        assert_eq!(card.model, Some(NetModel::Virtio), "{text}");
        assert_eq!(
            card.address.map(|address| address.to_string()).as_deref(),
            Some("BC:24:11:4F:C2:7E")
        );
        assert_eq!(card.to_string(), text);
    }
    let mut card = read::<NetDevice>("virtio,bridge=vmbr0");
    assert_eq!((card.model.clone(), card.address), (Some(NetModel::Virtio), None));
    let address = "BC:24:11:00:00:01".parse().unwrap();
    card.change(|card| card.address = Some(address)).unwrap();
    assert_eq!(card.to_string(), "virtio,bridge=vmbr0,macaddr=BC:24:11:00:00:01");
    card.change(|card| (card.model, card.address) = (Some(NetModel::E1000), None)).unwrap();
    assert_eq!(card.to_string(), "e1000,bridge=vmbr0");
}

#[test]
fn a_new_property_string_begins_with_its_bare_key() {
    let disk = Property::new(Drive {
        file: Some("ceph-pool:32".to_owned()),
        ssd: Some(true),
        iothread: Some(true),
        ..Drive::default()
    })
    .unwrap();
    insta::assert_snapshot!(disk, @"ceph-pool:32,iothread=1,ssd=1");
    let card = Property::new(NetDevice {
        model: Some(NetModel::Virtio),
        bridge: Some("vmbr9".to_owned()),
        firewall: Some(true),
        ..NetDevice::default()
    })
    .unwrap();
    insta::assert_snapshot!(card, @"virtio,bridge=vmbr9,firewall=1");
    let boot = Boot { order: Some("scsi0;net0".to_owned()), ..Boot::default() };
    let boot = Property::new(boot).unwrap();
    insta::assert_snapshot!(boot, @"order=scsi0;net0");
}

#[test]
fn nonsense_is_refused() {
    for text in ["ip", "ip=1,ip=2", "x"] {
        assert!(text.parse::<Property<IpConfig>>().is_err(), "{text}");
    }
    assert!("virtio,virtio=BC:24:11:4F:C2:7E".parse::<Property<NetDevice>>().is_err());
    assert!("local:1,iothread=perhaps".parse::<Property<Drive>>().is_err());
}

#[test]
fn a_value_that_the_text_cannot_hold_is_refused_and_changes_nothing() {
    let text = "local:1/a.raw,size=50M";
    for bad in ["a,ssd=1", "a,", ",", "a,b"] {
        let drive = |serial: &str| Drive { serial: Some(serial.to_owned()), ..Drive::default() };
        assert!(Property::new(drive(bad)).is_err(), "{bad:?}");
        let file = Drive { file: Some(bad.to_owned()), ..Drive::default() };
        assert!(Property::new(file).is_err(), "{bad:?}");
        let mut disk = read::<Drive>(text);
        assert!(disk.change(|disk| disk.serial = Some(bad.to_owned())).is_err(), "{bad:?}");
        assert_eq!((disk.as_str(), &disk.serial), (text, &None));
    }
    let nothing = Drive { file: Some(String::new()), ..Drive::default() };
    assert!(Property::new(nothing).is_err(), "a bare value that is empty is none");
    let error = Property::new(Cpu { model: Some("a,b".to_owned()), ..Cpu::default() });
    insta::assert_snapshot!(error.unwrap_err(), @"not a property string: 'a,b' cannot stand under 'cputype'");
    let extra = |key: &str, value: Value| Drive {
        extra: [(key.to_owned(), value)].into_iter().collect(),
        ..Drive::default()
    };
    for (key, value) in [("a,b", "1".into()), ("a=b", "1".into()), ("a", vec![1, 2].into())] {
        assert!(Property::new(extra(key, value)).is_err(), "{key}");
    }
}

#[test]
fn a_value_with_an_equals_sign_keeps_its_meaning() {
    let file = Some("nfs:iso/a=b.iso".to_owned());
    let mut disk = Property::new(Drive { file: file.clone(), ..Drive::default() }).unwrap();
    assert_eq!(disk.to_string(), "file=nfs:iso/a=b.iso");
    assert_eq!(read::<Drive>(disk.as_str()).file, file);
    disk.change(|disk| disk.serial = Some("c=d".to_owned())).unwrap();
    assert_eq!(disk.to_string(), "file=nfs:iso/a=b.iso,serial=c=d");
    let mut bare = read::<Drive>("local:iso/a.iso,media=cdrom");
    bare.change(|disk| disk.file.clone_from(&file)).unwrap();
    assert_eq!(bare.to_string(), "file=nfs:iso/a=b.iso,media=cdrom");
}

#[test]
fn a_model_that_is_not_known_stays_one_beside_an_address() {
    let card = NetDevice {
        model: Some("new-card".into()),
        address: Some("BC:24:11:00:00:01".parse().unwrap()),
        ..NetDevice::default()
    };
    let card = Property::new(card).unwrap();
    assert_eq!(card.to_string(), "new-card,macaddr=BC:24:11:00:00:01");
    assert_eq!(read::<NetDevice>(card.as_str()).model, card.model);
}

proptest::proptest! {
    #[test]
    fn what_is_written_is_read_back_or_refused(
        file in ".{0,12}", serial in "[a,=b ]{0,6}", ssd: Option<bool>, other in "[a,=;]{0,5}"
    ) {
        let drive = Drive {
            file: Some(file),
            serial: Some(serial),
            ssd,
            extra: [("other".to_owned(), other.into())].into_iter().collect(),
            ..Drive::default()
        };
        if let Ok(property) = Property::new(drive.clone()) {
            proptest::prop_assert_eq!(&read::<Drive>(property.as_str()).value, &drive);
            proptest::prop_assert_eq!(property.value, drive);
        }
    }
}
