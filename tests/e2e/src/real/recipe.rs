//! What the cloud image is made of.
//!
//! It is a Debian 12 that boots by itself, with cloud-init and an SSH server, and without the guest
//! agent: installing that is the init script's work. What it leaves out only costs time on an
//! emulated processor; cloud-init's stages, growing the disk, keys, password, address and host name
//! are as in Debian's own images.

/// The name of Debian's own image.
pub(super) const IMAGE_NAME: &str = "debian-12-generic-amd64.qcow2";

/// MiB of its root file system; what is asked for must be more, so that it is seen to grow.
pub(super) const ROOT_SIZE: u64 = 1400;

pub(super) const PACKAGES: &[&str] = &[
    "cloud-guest-utils",
    "cloud-init",
    "dbus",
    "e2fsprogs",
    "fdisk",
    "initramfs-tools",
    "iproute2",
    "linux-image-cloud-amd64",
    "login",
    "netbase",
    "openssh-server",
    "passwd",
    "procps",
    "sudo",
    "systemd-sysv",
    "tzdata",
    "udev",
    "zstd",
];

/// What the guest gets from the package repository of the test.
pub(super) const AGENT: &str = "qemu-guest-agent";

/// The directory of that repository.
pub(super) const REPOSITORY: &str = "packages";

/// A package that the image has in version 1 and the repository in version 2.
pub(super) const PROBE: &str = "pve-e2e-probe";

pub(super) const DPKG_OPTIONS: &[&str] = &[
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
];

/// Before packages are configured: an initrd with the drivers of the simulated hardware alone.
pub(super) const EARLY_FILES: &[(&str, &str)] = &[
    ("etc/initramfs-tools/conf.d/small", "MODULES=list\nCOMPRESS=zstd\nCOMPRESSLEVEL=3\n"),
    (
        "etc/initramfs-tools/modules",
        "virtio_pci\nvirtio_scsi\nvirtio_net\nsd_mod\next4\ncrc32c_generic\n",
    ),
];

/// After all packages are configured.
pub(super) const FILES: &[(&str, &str)] = &[
    ("etc/fstab", "LABEL=cloudimg-root / ext4 defaults,noatime 0 1\n"),
    ("etc/hostname", "localhost\n"),
    ("etc/machine-id", ""),
    (
        "etc/cloud/cloud.cfg.d/90_image.cfg",
        "datasource_list: [ NoCloud, None ]\n\
         apt: { preserve_sources_list: true }\n\
         ssh_genkeytypes: [ ed25519 ]\n\
         system_info: { network: { renderers: [ networkd ] } }\n",
    ),
    (
        "etc/cloud/cloud.cfg.d/91_fast.cfg",
        "cloud_init_modules: [ write-files, growpart, resizefs, set_hostname, update_hostname, \
         update_etc_hosts, users-groups, ssh ]\n\
         cloud_config_modules: [ set-passwords, runcmd ]\n\
         cloud_final_modules: [ package-update-upgrade-install, scripts-user, final-message ]\n",
    ),
    ("etc/cloud/ds-identify.cfg", "datasource: NoCloud\n"),
];

/// Files and directories that go at the end.
pub(super) const REMOVED: &[&str] = &[
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/apt/sources.list.d",
    "etc/resolv.conf",
    // cloud-init checks its input against a schema when it finds this, for seconds.
    "usr/lib/python3/dist-packages/jsonschema",
    "usr/lib/python3/dist-packages/pyrsistent",
];

pub(super) const ENABLED_UNITS: &[&str] = &["systemd-networkd", "ssh"];

pub(super) const MASKED_UNITS: &[&str] = &[
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "cloud-init-hotplugd.socket",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "kmod-static-nodes.service",
    "modprobe@configfs.service",
    "modprobe@dm_mod.service",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "modprobe@fuse.service",
    "modprobe@loop.service",
    "proc-sys-fs-binfmt_misc.automount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-binfmt.service",
    "systemd-fsck-root.service",
    "systemd-hwdb-update.service",
    "systemd-journal-flush.service",
    "systemd-machine-id-commit.service",
    "systemd-modules-load.service",
    "systemd-networkd-wait-online.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-rfkill.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
];

const KERNEL_OPTIONS: &str = "root=LABEL=cloudimg-root ro console=tty0 console=ttyS0,115200 \
    net.ifnames=0 quiet loglevel=3 systemd.show_status=0 mitigations=off nokaslr audit=0 \
    apparmor=0 selinux=0 random.trust_cpu=on fsck.mode=skip";

pub(super) fn grub_configuration(kernel: &str) -> String {
    format!(
        "serial --unit=0 --speed=115200\nterminal_input serial console\n\
         terminal_output serial console\nset timeout=0\n\
         linux /boot/vmlinuz-{kernel} {KERNEL_OPTIONS}\ninitrd /boot/initrd.img-{kernel}\nboot\n"
    )
}

/// The only source of packages that the guest knows: a flat repository below `server`.
pub(super) fn guest_sources(server: &str) -> String {
    format!("deb [trusted=yes] {server} {REPOSITORY}/\n")
}
