//! The screen System.

use pve_api::Content;

use super::Choices;
use super::Resolver;
use super::Rule;
use super::disks::offered_formats;
use super::disks::settle_format;
use super::os::settle_storage;
use crate::create::field::Field;

const DISPLAYS: [(&str, &str); 15] = [
    ("default", "Default"),
    ("std", "Standard VGA"),
    ("vmware", "VMware compatible"),
    ("qxl", "SPICE"),
    ("qxl2", "SPICE dual monitor"),
    ("qxl3", "SPICE three monitors"),
    ("qxl4", "SPICE four monitors"),
    ("serial0", "Serial terminal 0"),
    ("serial1", "Serial terminal 1"),
    ("serial2", "Serial terminal 2"),
    ("serial3", "Serial terminal 3"),
    ("virtio", "VirtIO-GPU"),
    ("virtio-gl", "VirGL GPU"),
    ("none", "none"),
    ("cirrus", "Cirrus Logic"),
];

const CONTROLLERS: [(&str, &str); 6] = [
    ("lsi", "LSI 53C895A"),
    ("lsi53c810", "LSI 53C810"),
    ("virtio-scsi-pci", "VirtIO SCSI"),
    ("virtio-scsi-single", "VirtIO SCSI single"),
    ("megasas", "MegaRAID SAS 8708EM2"),
    ("pvscsi", "VMware PVSCSI"),
];

pub(super) fn resolve(cx: &mut Resolver<'_>) {
    let version = cx.answers.text(Field::OsVersion).to_owned();
    let is_win11 = version == "win11";
    cx.settle(Field::Display, Rule::choice("default", Choices::fixed(&DISPLAYS)));
    let display = cx.answers.text(Field::Display);
    if display != "serial0" && display != "default" {
        cx.note(Field::Display, "becomes the serial terminal 0 once the VM is made");
    }
    let machines = Choices::fixed(&[("i440fx", "Default (i440fx)"), ("q35", "q35")]);
    cx.settle(Field::Machine, Rule::choice(if is_win11 { "q35" } else { "i440fx" }, machines));
    let firmwares = Choices::fixed(&[("seabios", "Default (SeaBIOS)"), ("ovmf", "OVMF (UEFI)")]);
    cx.settle(Field::Bios, Rule::choice(if is_win11 { "ovmf" } else { "seabios" }, firmwares));
    efi(cx);
    // Systems that are older than the drivers of VirtIO.
    let controller = if ["w2k", "wxp"].contains(&&*version) { "lsi" } else { "virtio-scsi-single" };
    cx.settle(Field::Controller, Rule::choice(controller, Choices::fixed(&CONTROLLERS)));
    cx.settle(Field::Agent, Rule::of(false));
    cx.settle(Field::Tpm, Rule::of(is_win11));
    let tpm = cx.answers.is_on(Field::Tpm);
    settle_storage(cx, Field::TpmStorage, &Content::Images, tpm);
    let versions = Choices::fixed(&[("v2.0", "v2.0"), ("v1.2", "v1.2")]);
    cx.settle(Field::TpmVersion, Rule::choice("v2.0", versions).shown(tpm));
}

fn efi(cx: &mut Resolver<'_>) {
    let is_uefi = cx.answers.text(Field::Bios) == "ovmf";
    cx.settle(Field::Efi, Rule::of(true).shown(is_uefi));
    let wanted = cx.answers.is_on(Field::Efi);
    if is_uefi && !wanted {
        cx.note(Field::Efi, "without it the firmware forgets its settings at every stop");
    }
    settle_storage(cx, Field::EfiStorage, &Content::Images, wanted);
    let formats = offered_formats(cx, Field::EfiStorage.into()).map_or(0, |formats| formats.len());
    let shown = wanted && formats > 1;
    settle_format(cx, Field::EfiFormat.into(), Field::EfiStorage.into(), shown);
    cx.settle(Field::EfiKeys, Rule::of(true).shown(wanted));
}
