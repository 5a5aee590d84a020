//! Every request that the crate can build, against what servers take.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::facts;
use crate::property::*;
use crate::request::Request;
use crate::*;

/// Turns drawn numbers into choices; shrinking them leads to the first and the fewest.
struct Draw<'a>(std::slice::Iter<'a, u64>);

impl Draw<'_> {
    fn number(&mut self, last: u64) -> u64 {
        let drawn = self.0.next().copied().unwrap_or(0);
        if last == u64::MAX { drawn } else { drawn % (last + 1) }
    }

    fn flag(&mut self) -> bool {
        self.number(1) == 1
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| value(self))
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        let last = of.len() as u64 - 1;
        of[usize::try_from(self.number(last)).unwrap()].clone()
    }

    fn text(&mut self, of: &[&str]) -> Option<String> {
        self.maybe(|draw| draw.one(of).to_owned())
    }

    fn up_to<T: TryFrom<u64>>(&mut self, first: u64, last: u64) -> Option<T> {
        self.maybe(|draw| first + draw.number(last - first)).and_then(|n| T::try_from(n).ok())
    }

    fn some_flag(&mut self) -> Option<bool> {
        self.maybe(Draw::flag)
    }

    fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(&mut self, of: &[&str]) -> T {
        self.one(of).parse().unwrap()
    }

    fn vmid(&mut self) -> Vmid {
        Vmid::try_from(100 + u32::try_from(self.number(999_999_899)).unwrap()).unwrap()
    }

    fn node(&mut self) -> NodeName {
        self.id(&["pve1", "a", "node-2"])
    }

    fn drive(&mut self, bus: &str) -> Property<Drive> {
        let mut drive = Drive {
            file: Some(self.one(&["local:32", "none", "local:iso/a b.iso", "local:0"]).to_owned()),
            import_from: self.text(&["local:import/a.qcow2"]),
            media: self.text(&["cdrom", "disk"]),
            format: self.text(&["raw", "qcow2", "vmdk"]),
            cache: self.maybe(|draw| draw.one(CacheMode::KNOWN)),
            discard: self.maybe(|draw| draw.one(Discard::KNOWN)),
            backup: self.some_flag(),
            replicate: self.some_flag(),
            aio: self.text(&["native", "threads", "io_uring"]),
            read_limit: self.up_to::<u32>(1, 1000).map(f64::from),
            write_limit: self.up_to::<u32>(1, 1000).map(f64::from),
            read_operations: self.up_to(1, 100_000),
            write_operations: self.up_to(1, 100_000),
            serial: self.text(&["abc%20d"]),
            size: self.text(&["32G"]),
            ..Drive::default()
        };
        // What the bus does not have is left out, as the types cannot know it.
        if matches!(bus, "scsi" | "virtio") {
            (drive.iothread, drive.read_only) = (self.some_flag(), self.some_flag());
        }
        if bus != "virtio" {
            drive.ssd = self.some_flag();
        }
        drive.try_into().unwrap()
    }

    fn card(&mut self, bridge: &str) -> Property<NetDevice> {
        NetDevice {
            model: Some(self.one(NetModel::KNOWN)),
            address: self.maybe(|_| "BC:24:11:00:00:01".parse().unwrap()),
            bridge: self.text(&[bridge]),
            vlan: self.up_to(1, 4094),
            trunks: self.text(&["2;5-8"]),
            firewall: self.some_flag(),
            link_down: self.some_flag(),
            mtu: self.up_to(1, 65_520),
            rate: self.up_to::<u32>(0, 10_000).map(f64::from),
            queues: self.up_to(0, 64),
            ..NetDevice::default()
        }
        .try_into()
        .unwrap()
    }

    fn hardware(&mut self, config: &mut QemuConfig) {
        config.sockets = self.up_to(1, 4);
        config.cores = self.up_to(1, 256);
        config.vcpus = self.up_to(1, 1024);
        config.cpu = self.maybe(|draw| {
            let cpu = Cpu {
                model: Some(draw.one(&["host", "x86-64-v2-AES", "custom-a"]).to_owned()),
                flags: draw.text(&["+aes;-pcid"]),
                hidden: draw.some_flag(),
                physical_bits: draw.text(&["host", "40"]),
                ..Cpu::default()
            };
            cpu.try_into().unwrap()
        });
        config.cpu_limit = self.up_to::<u32>(0, 128).map(f64::from);
        config.cpu_units = self.up_to(1, 10_000);
        config.numa_enabled = self.some_flag();
        config.memory = self.maybe(|draw| {
            Memory { current: Some(16 + draw.number(4_194_288)), ..Memory::default() }
                .try_into()
                .unwrap()
        });
        config.balloon = self.up_to(0, 4_194_304);
        config.shares = self.up_to(0, 50_000);
        config.allow_ksm = self.some_flag();
        config.bios = self.maybe(|draw| draw.one(Bios::KNOWN));
        config.machine = self.maybe(|draw| {
            let kind = Some(draw.one(&["q35", "pc", "pc-q35-9.2+pve1"]).to_owned());
            let viommu = draw.text(&["intel", "virtio"]);
            MachineType { kind, viommu, sleep: draw.some_flag(), ..MachineType::default() }
                .try_into()
                .unwrap()
        });
        config.scsi_controller = self.maybe(|draw| draw.one(ScsiController::KNOWN));
        config.vga = self.maybe(|draw| {
            let kind = Some(draw.one(&["std", "serial0", "virtio"]).to_owned());
            Vga { kind, memory: draw.up_to(4, 512), ..Vga::default() }.try_into().unwrap()
        });
        config.efi_disk = self.maybe(|draw| {
            EfiDisk {
                file: Some("local:1".to_owned()),
                format: draw.text(&["raw", "qcow2"]),
                kind: draw.text(&["4m", "2m"]),
                pre_enrolled_keys: draw.some_flag(),
                ms_cert: draw.text(&["2023"]),
                ..EfiDisk::default()
            }
            .try_into()
            .unwrap()
        });
        config.tpm = self.maybe(|draw| {
            let file = Some("local:1".to_owned());
            let version = draw.text(&["v2.0", "v1.2"]);
            TpmState { file, version, format: draw.text(&["raw"]), ..TpmState::default() }
                .try_into()
                .unwrap()
        });
        config.audio = self.text(&["device=ich9-intel-hda,driver=none"]);
        config.rng = self.text(&["source=/dev/urandom"]);
        config.smbios = self.text(&["uuid=0d4f3e8a-6c1b-4d53-9c4b-6a1f0a0b0c0d"]);
        config.generation = self.text(&["0d4f3e8a-6c1b-4d53-9c4b-6a1f0a0b0c0d", "1"]);
        config.watchdog = self.text(&["i6300esb"]);
        config.arch = self.text(&["x86_64", "aarch64"]);
        config.affinity = self.text(&["0-3"]);
        config.args = self.text(&["-S"]);
        config.kvm = self.some_flag();
        config.acpi = self.some_flag();
        config.tablet = self.some_flag();
        config.local_time = self.some_flag();
        config.hotplug = self.text(&["network,disk,usb"]);
    }

    fn options(&mut self, config: &mut QemuConfig) {
        config.name = self.text(&["web", "a-1.example.org"]);
        config.description = self.text(&["line 1\nline 2 ü", "&=+%"]);
        config.tags = self.maybe(|draw| {
            let tags: Vec<Tag> = vec![draw.id(&["a", "b-c_d+e.f"]), draw.id(&["_x", "prod"])];
            tags.into_iter().collect()
        });
        config.start_at_boot = self.some_flag();
        config.startup = self.maybe(|draw| {
            let (order, up, down) = (draw.up_to(0, 99), draw.up_to(0, 999), Some(5));
            Startup { order, up, down, ..Startup::default() }.try_into().unwrap()
        });
        config.os = self.maybe(|draw| draw.one(OsType::KNOWN));
        config.protection = self.some_flag();
        config.template = self.some_flag();
        config.lock = self.text(&["backup"]);
        config.agent = self.maybe(|draw| {
            let mut agent = Agent { enabled: Some(draw.flag()), ..Agent::default() };
            agent.trim_clones = draw.some_flag();
            if draw.flag() {
                agent.freeze = draw.some_flag();
            } else {
                agent.freeze_on_backup = draw.some_flag();
            }
            agent.kind = draw.text(&["virtio", "isa"]);
            agent.try_into().unwrap()
        });
        config.boot = self.maybe(|draw| {
            let devices = draw.one(&[&["scsi0"][..], &["scsi0", "net0"]]);
            Boot::from_devices(devices.iter().copied()).try_into().unwrap()
        });
        config.boot_disk = self.text(&["scsi0"]);
        config.hook_script = self.text(&["local:snippets/hook.pl"]);
        config.state_storage = self.text(&["local-lvm"]);
        config.ci_type = self.text(&["nocloud"]);
        config.ci_user = self.text(&["deploy"]);
        config.ci_password = self.maybe(|_| CiPassword::Set("a&b=c".to_owned().into()));
        config.ci_upgrade = self.some_flag();
        config.ci_custom = self.text(&["user=local:snippets/user.yaml"]);
        config.ssh_keys = self.maybe(|_| {
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ a b+c"
                .parse()
                .unwrap()
        });
        config.name_server = self.text(&["192.0.2.1 192.0.2.2"]);
        config.search_domain = self.text(&["example.org"]);
        config.meta = self.text(&["creation-qemu=10.2.2"]);
        config.digest = self.text(&["8fabfa1acee04d1a02a5894e047ab3d5ebef7182"]);
    }

    fn numbered(&mut self, config: &mut QemuConfig) {
        fn put<T, const MAX: u8>(
            draw: &mut Draw<'_>,
            map: &mut Indexed<T, MAX>,
            value: impl Fn(&mut Draw<'_>) -> T,
        ) {
            for _ in 0..draw.number(2) {
                let index = u8::try_from(draw.number(MAX.into())).unwrap();
                let value = value(draw);
                map.insert(index, value).unwrap();
            }
        }
        put(self, &mut config.ide, |draw| draw.drive("ide"));
        put(self, &mut config.sata, |draw| draw.drive("sata"));
        put(self, &mut config.scsi, |draw| draw.drive("scsi"));
        put(self, &mut config.virtio, |draw| draw.drive("virtio"));
        put(self, &mut config.unused, |_| "local:100/vm-100-disk-0.raw".to_owned());
        put(self, &mut config.net, |draw| draw.card("vmbr0"));
        put(self, &mut config.ip_config, |draw| {
            let ip = Some(draw.one(&["dhcp", "192.0.2.7/24"]).to_owned());
            let gateway = draw.text(&["192.0.2.1"]);
            IpConfig { ip, gateway, ip6: draw.text(&["auto"]), ..IpConfig::default() }
                .try_into()
                .unwrap()
        });
        put(self, &mut config.serial, |_| "socket".to_owned());
        put(self, &mut config.parallel, |_| "/dev/parport0".to_owned());
        put(self, &mut config.usb, |_| "host=spice".to_owned());
        put(self, &mut config.host_pci, |_| "0000:01:00.0".to_owned());
        put(self, &mut config.numa, |_| "cpus=0-1,memory=512".to_owned());
        put(self, &mut config.virtiofs, |_| "dirid=share".to_owned());
    }

    fn config(&mut self) -> QemuConfig {
        let mut config = QemuConfig::default();
        self.options(&mut config);
        self.hardware(&mut config);
        self.numbered(&mut config);
        config
    }

    fn update(&mut self) -> ConfigUpdate {
        let mut set = self.config();
        set.description = self.text(&["", "text"]);
        ConfigUpdate {
            set,
            delete: self.one(&[vec![], vec!["net1".to_owned(), "tpmstate0".to_owned()]]),
            revert: self.one(&[vec![], vec!["memory".to_owned()]]),
            digest: self.text(&["8fabfa1acee04d1a02a5894e047ab3d5ebef7182"]),
            force: self.flag(),
        }
    }

    /// A request of every kind that has parameters.
    fn requests(&mut self) -> Vec<Request> {
        let (node, vmid) = (self.node(), self.vmid());
        let storage: StorageId = self.id(&["local", "ceph-pool"]);
        let upid: Upid =
            self.id(&["UPID:pve1:0000088B:0002858F:6B0D7BE0:qmcreate:110:root@pam!ci:"]);
        let user: UserId = self.id(&["root@pam", "jane@example.org@ldap"]);
        let secret = secrecy::SecretString::from(self.one(&["p", "ü &=+%"]).to_owned());
        let half = self.maybe(|_| secrecy::SecretString::from("PVE:!tfa!{}:0::x".to_owned()));
        let shutdown = Shutdown {
            timeout: self.up_to(0, 3600).map(Duration::from_secs),
            force_stop: self.flag(),
        };
        let machine = Create {
            vmid,
            config: self.config(),
            pool: self.maybe(|draw| draw.id(&["lab", "lab/web"])),
            start: self.flag(),
            ha_managed: self.flag(),
            storage: self.maybe(|draw| draw.id(&["local"])),
        };
        let content = self.maybe(|draw| draw.one(Content::KNOWN));
        let pool = self.maybe(|draw| draw.id(&["lab"]));
        let migrate = Migrate {
            target: self.node(),
            online: self.flag(),
            with_local_disks: self.flag(),
            target_storage: self.maybe(|draw| draw.id(&["local"])),
        };
        let destroy = Destroy { purge: self.flag(), unreferenced_disks: self.flag() };
        let download = Download {
            url: self.one(&["https://example.org/a b.iso", "http://192.0.2.1/x"]).to_owned(),
            content: self.one(&[Content::Iso, Content::Import, Content::ContainerTemplate]),
            file_name: "a.qcow2".to_owned(),
            checksum: self.maybe(|draw| Checksum {
                algorithm: draw.one(ChecksumAlgorithm::KNOWN),
                sum: "00ff".to_owned(),
            }),
            verify_certificates: self.flag(),
        };
        let tasks = TaskFilter {
            vmid: self.maybe(Draw::vmid),
            errors: self.flag(),
            running: self.flag(),
            since: self.up_to(0, u64::from(u32::MAX)),
            kind: self.text(&["qmcreate"]),
            limit: self.up_to(0, 1000),
        };
        let state = self.one(HaState::KNOWN);
        let resize = self.one(&[("scsi0", "+10G"), ("virtio3", "32G")]);
        vec![
            login::request(&user, &secret, half.as_ref()),
            access::permissions(self.text(&["/vms/100"]).as_deref()),
            cluster::resources(self.maybe(|draw| draw.one(ResourceFilter::KNOWN)).as_ref()),
            cluster::next_id(self.maybe(Draw::vmid)),
            ha::add(vmid, &state, self.text(&["why"]).as_deref()),
            ha::set_state(vmid, &state),
            pool::pools(pool.as_ref()),
            node::network(&node, self.maybe(|draw| draw.one(NetworkFilter::KNOWN)).as_ref()),
            node::url_metadata(&node, &download.url, self.flag()),
            storage::storages(&node, content.as_ref()),
            storage::content_of(&node, &storage, content.as_ref(), self.maybe(Draw::vmid)),
            storage::download_url(&node, &storage, &download),
            qemu::create(&node, &machine),
            qemu::update(&node, vmid, &endpoint::QEMU_CONFIG_PUT, &self.update()),
            qemu::update(&node, vmid, &endpoint::QEMU_CONFIG_POST, &self.update()),
            qemu::config(&node, vmid, self.flag()),
            qemu::resize(&node, vmid, resize.0, resize.1),
            qemu::shutdown(&node, vmid, &endpoint::QEMU_SHUTDOWN, &shutdown),
            qemu::shutdown(
                &node,
                vmid,
                &endpoint::QEMU_REBOOT,
                &Shutdown { force_stop: false, ..shutdown.clone() },
            ),
            qemu::destroy(&node, vmid, &destroy),
            qemu::migrate(&node, vmid, &migrate),
            qemu::check(&node, vmid, self.maybe(Draw::node).as_ref()),
            qemu::dump(&node, vmid, &self.one(CloudInitFile::KNOWN)),
            task::tasks(&node, &tasks),
            task::log(&upid, self.number(1000), u32::try_from(self.number(500)).unwrap()),
        ]
    }
}

#[test]
fn every_request_is_one_that_servers_take() {
    let table = facts::table();
    let mut names = BTreeSet::new();
    let mut count = 0;
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 400,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let names_cell = std::cell::RefCell::new((&mut names, &mut count));
    let result = runner.run(&proptest::collection::vec(any::<u64>(), 700), |numbers| {
        for request in Draw(numbers.iter()).requests() {
            let endpoint = request.endpoint;
            let fact = table
                .iter()
                .find(|fact| fact.method == endpoint.method.as_str() && fact.path == endpoint.path)
                .ok_or_else(|| {
                    TestCaseError::fail(format!("{} is not in the table", endpoint.path))
                })?;
            let parameters = request.parameters.exposed();
            facts::check(fact, &parameters)
                .map_err(|problem| TestCaseError::fail(format!("{}: {problem}", request.call)))?;
            // What is encoded is what the server decodes.
            let encoded = request.parameters.encode();
            let decoded: Vec<(String, String)> =
                url::form_urlencoded::parse(encoded.as_bytes()).into_owned().collect();
            prop_assert!(
                decoded
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str()))
                    .eq(parameters.iter().copied())
            );
            let mut cell = names_cell.borrow_mut();
            *cell.1 += 1;
            cell.0.extend(parameters.iter().map(|(name, _)| (*name).to_owned()));
        }
        Ok(())
    });
    if let Err(proptest::test_runner::TestError::Fail(reason, _)) = result {
        panic!("{reason}");
    }
    result.unwrap();
    assert_eq!(count, 400 * 25);
    // Everything that a configuration can say was said.
    for name in QemuConfig::ONE.iter().filter(|name| !["meta", "digest"].contains(name)) {
        assert!(names.contains(*name), "{name} was never sent");
    }
    for (prefix, _) in QemuConfig::MANY {
        let sent = names.iter().any(|name| indexed::split(name).is_some_and(|(p, _)| p == *prefix));
        assert!(sent, "{prefix} was never sent");
    }
    assert!(!names.contains("meta"), "the server does not take it");
}
