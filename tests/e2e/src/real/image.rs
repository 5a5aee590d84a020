//! Builds the cloud image and the package repository that belongs to it.
//!
//! Everything comes from Debian packages; nothing is mounted and no loop device is used. The result
//! is kept until its recipe changes.

use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::ensure;
use sha2::Digest;
use sha2::Sha256;

use super::command::Command;
use super::mirror;
use super::recipe;
use super::repository;

/// Where the root file system begins: the space before it is the boot loader's.
const ROOT_OFFSET: u64 = 1 << 20;
const SECTOR: u64 = 512;
/// The part of the first sector that is code; what follows is the partition table.
const BOOT_CODE: usize = 440;
const GRUB: &str = "/usr/lib/grub/i386-pc";

/// The directory in `cache` that holds the image and `packages/`; built when it is
/// not there. `server` is the address that the guest gets its packages from.
pub(super) fn built(cache: &Path, server: &str) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(cache)?;
    // Released when the file is closed, even if this process is killed.
    let lock = File::create(cache.join("lock"))?;
    lock.lock().context("cannot lock the image directory")?;
    let directory = cache.join(format!("image-{}", key(server)));
    if !directory.exists() {
        println!("building the cloud image from Debian packages, which takes a minute or two");
        remove_all_images(cache)?;
        let building = cache.join("building");
        fs::create_dir(&building)?;
        build(&building, server)?;
        fs::rename(&building, &directory)?;
    }
    Ok(directory)
}

/// Changes whenever the text of the recipe or of the builder does.
fn key(server: &str) -> String {
    let texts = [
        include_str!("image.rs"),
        include_str!("recipe.rs"),
        include_str!("repository.rs"),
        mirror::SUITE,
        server,
    ];
    let digest = texts.iter().fold(Sha256::new(), Sha256::chain_update);
    hex::encode(&digest.finalize()[..8])
}

/// Images of earlier recipes, and what an interrupted build has left.
fn remove_all_images(cache: &Path) -> anyhow::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let below = format!(" {}/", cache.display());
    ensure!(!mounts.contains(&below), "something is mounted below {}", cache.display());
    for entry in fs::read_dir(cache)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("image-") || name == "building" {
            fs::remove_dir_all(entry.path()).context("cannot remove an old image")?;
        }
    }
    Ok(())
}

fn build(directory: &Path, server: &str) -> anyhow::Result<()> {
    let (root, packages) = (directory.join("root"), directory.join(recipe::REPOSITORY));
    fs::create_dir(&packages)?;
    bootstrap(&root, &packages)?;
    let probe = repository::make_package(recipe::PROBE, "1", directory)?;
    fs::copy(&probe, root.join("probe.deb"))?;
    chroot(&root, &["dpkg", "--install", "/probe.deb"])?;
    for file in [root.join("probe.deb"), probe] {
        fs::remove_file(file)?;
    }
    repository::make_package(recipe::PROBE, "2", &packages)?;
    repository::index(&packages)?;
    configure(&root, server)?;
    let disk = directory.join("disk.raw");
    assemble(&root, directory, &disk)?;
    let image = directory.join(recipe::IMAGE_NAME);
    Command::new("qemu-img").args(["convert", "-c", "-O", "qcow2"]).arg(&disk).arg(&image).run()?;
    fs::remove_file(disk)?;
    Ok(fs::remove_dir_all(root)?)
}

/// Installs Debian in `root`, and downloads the agent with all that it needs there to `packages`.
fn bootstrap(root: &Path, packages: &Path) -> anyhow::Result<()> {
    let early = packages.with_file_name("early");
    write_all(&early, recipe::EARLY_FILES)?;
    // It mounts below `root`: in a namespace of its own, and not longer than this process lives.
    let mut mmdebstrap = Command::new("setpriv");
    mmdebstrap.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--mount-proc"]);
    mmdebstrap.args(["--fork", "--kill-child", "mmdebstrap", "--mode=root", "--variant=minbase"]);
    mmdebstrap.arg(format!("--include={}", recipe::PACKAGES.join(",")));
    mmdebstrap.arg("--aptopt=APT::Install-Recommends \"false\"");
    mmdebstrap.args(mirror::options()?.iter().map(|option| format!("--aptopt={option}")));
    mmdebstrap.args(recipe::DPKG_OPTIONS.iter().map(|option| format!("--dpkgopt={option}")));
    mmdebstrap.environment("EARLY", &early).environment("PACKAGES", packages);
    mmdebstrap.environment("AGENT", recipe::AGENT);
    mmdebstrap.arg("--extract-hook=cp --recursive \"$EARLY\"/. \"$1\"");
    mmdebstrap.arg(
        "--customize-hook=APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get install --yes --download-only \
         -o Dir::Cache::archives=\"$PACKAGES\" \"$AGENT\"",
    );
    mmdebstrap.arg(mirror::SUITE).arg(root).args(mirror::sources()?);
    mmdebstrap.run()?;
    fs::remove_dir_all(early)?;
    // apt's own.
    let _ = fs::remove_file(packages.join("lock"));
    fs::remove_dir_all(packages.join("partial")).context("apt has downloaded nothing")
}

fn configure(root: &Path, server: &str) -> anyhow::Result<()> {
    chroot(root, &[&["systemctl", "enable"], recipe::ENABLED_UNITS].concat())?;
    for unit in recipe::MASKED_UNITS {
        let link = root.join("etc/systemd/system").join(unit);
        if fs::symlink_metadata(&link).is_ok() {
            fs::remove_file(&link)?;
        }
        symlink("/dev/null", link)?;
    }
    for path in recipe::REMOVED.iter().map(|path| root.join(path)) {
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        } else if fs::symlink_metadata(&path).is_ok() {
            fs::remove_file(path)?;
        }
    }
    for entry in fs::read_dir(root.join("etc/ssh"))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("ssh_host_") {
            fs::remove_file(entry.path())?;
        }
    }
    write_all(root, recipe::FILES)?;
    let sources = recipe::guest_sources(server);
    write_all(root, &[("etc/apt/sources.list", &sources)])
}

/// Puts the root file system, a partition table and GRUB on a disk.
fn assemble(root: &Path, directory: &Path, disk: &Path) -> anyhow::Result<()> {
    let kernel = kernel_version(root)?;
    write_all(root, &[("boot/grub/grub.cfg", &recipe::grub_configuration(&kernel))])?;
    let mebibytes = recipe::ROOT_SIZE + 2;
    File::create(disk)?.set_len(mebibytes << 20)?;
    let table = format!("label: dos\nstart={}, type=83, bootable\n", ROOT_OFFSET / SECTOR);
    Command::new("sfdisk").arg("--quiet").arg(disk).input(table).run()?;
    // GRUB 2.06 does not read a file system with these features.
    let features = "^metadata_csum_seed,^orphan_file";
    let mut mke2fs = Command::new("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-L", "cloudimg-root", "-O", features, "-d"]).arg(root);
    mke2fs.args(["-E", &format!("offset={ROOT_OFFSET}")]).arg(disk);
    mke2fs.arg(format!("{}M", recipe::ROOT_SIZE)).run()?;

    let core = directory.join("core.img");
    let mut grub = Command::new("grub-mkimage");
    grub.args(["-O", "i386-pc", "-p", "(hd0,msdos1)/boot/grub", "-o"]).arg(&core);
    grub.args(["biosdisk", "part_msdos", "ext2", "linux", "normal", "configfile", "serial"]);
    grub.args(["terminal", "boot"]).run()?;
    let boot_code = fs::read(Path::new(GRUB).join("boot.img"))?;
    let core_code = fs::read(&core)?;
    ensure!(core_code.len() as u64 <= ROOT_OFFSET - SECTOR, "GRUB does not fit before the root");
    let disk = File::options().write(true).open(disk)?;
    disk.write_all_at(&boot_code[..BOOT_CODE], 0)?;
    disk.write_all_at(&core_code, SECTOR)?;
    Ok(fs::remove_file(core)?)
}

fn kernel_version(root: &Path) -> anyhow::Result<String> {
    for entry in fs::read_dir(root.join("boot"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(version) = name.strip_prefix("vmlinuz-") {
            return Ok(version.to_owned());
        }
    }
    anyhow::bail!("the image has no kernel")
}

fn chroot(root: &Path, command: &[&str]) -> anyhow::Result<()> {
    Command::new("chroot").arg(root).args(command).run()
}

fn write_all(root: &Path, files: &[(&str, &str)]) -> anyhow::Result<()> {
    for (name, text) in files {
        let file = root.join(name);
        fs::create_dir_all(file.parent().unwrap_or(root))?;
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
