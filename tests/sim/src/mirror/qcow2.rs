//! Writes small true qcow2 images, version 3, that `qemu-img check` finds nothing wrong with.
//!
//! In the file: header, refcount table, refcount blocks, L1 table, L2 tables, data. All numbers are
//! big-endian; every cluster has the count 1.

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;

const CLUSTER_BITS: u32 = 16;
const CLUSTER: u64 = 1 << CLUSTER_BITS;
/// Entries of a table of 64-bit offsets that fills one cluster.
const OFFSETS: u64 = CLUSTER / 8;
/// Entries of a block of 16-bit counts that fills one cluster.
const COUNTS: u64 = CLUSTER / 2;
const HEADER_LENGTH: u32 = 104;
/// Says of a cluster that its count is exactly 1.
const COPIED: u64 = 1 << 63;

/// An image to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Qcow2 {
    /// The size of the disk that the guest sees, in bytes.
    pub virtual_size: u64,
    /// How much of it is allocated, from its beginning, in bytes.
    pub allocated: u64,
    /// What stands in there.
    pub fill: Fill,
}

/// What stands in the allocated part of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Noise, the same for the same number.
    Noise(u64),
    /// Zeros that take no room where the file is kept.
    Holes,
}

/// Where things stand, in clusters.
struct Layout {
    blocks: u64,
    l1: u64,
    l1_clusters: u64,
    l1_entries: u64,
    l2: u64,
    l2_tables: u64,
    data: u64,
    data_clusters: u64,
    end: u64,
}

impl Layout {
    fn of(image: &Qcow2) -> Self {
        let data_clusters = image.allocated.min(image.virtual_size).div_ceil(CLUSTER);
        let l1_entries = image.virtual_size.div_ceil(CLUSTER * OFFSETS).max(1);
        let l1_clusters = l1_entries.div_ceil(OFFSETS);
        let l2_tables = data_clusters.div_ceil(OFFSETS);
        let others = 2 + l1_clusters + l2_tables + data_clusters;
        // Each block counts itself too.
        let blocks = others.div_ceil(COUNTS - 1);
        let l1 = 2 + blocks;
        let l2 = l1 + l1_clusters;
        let data = l2 + l2_tables;
        Self {
            blocks,
            l1,
            l1_clusters,
            l1_entries,
            l2,
            l2_tables,
            data,
            data_clusters,
            end: data + data_clusters,
        }
    }
}

impl Qcow2 {
    /// Writes the image into an empty file.
    pub fn write(&self, file: File) -> io::Result<()> {
        let layout = Layout::of(self);
        if layout.blocks > OFFSETS || layout.l1_clusters > OFFSETS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "an image that large has more tables",
            ));
        }
        file.set_len(layout.end * CLUSTER)?;
        let mut file = BufWriter::with_capacity(256 * 1024, file);
        file.write_all(&self.header(&layout))?;
        at(&mut file, 1)?;
        for block in 0..layout.blocks {
            file.write_all(&((2 + block) * CLUSTER).to_be_bytes())?;
        }
        at(&mut file, 2)?;
        for _ in 0..layout.end {
            file.write_all(&1_u16.to_be_bytes())?;
        }
        at(&mut file, layout.l1)?;
        for table in 0..layout.l2_tables {
            file.write_all(&(COPIED | ((layout.l2 + table) * CLUSTER)).to_be_bytes())?;
        }
        at(&mut file, layout.l2)?;
        for cluster in 0..layout.data_clusters {
            file.write_all(&(COPIED | ((layout.data + cluster) * CLUSTER)).to_be_bytes())?;
        }
        if let Fill::Noise(seed) = self.fill {
            at(&mut file, layout.data)?;
            let mut noise = Noise::new(seed);
            for _ in 0..layout.data_clusters * OFFSETS {
                file.write_all(&noise.next().to_be_bytes())?;
            }
        }
        file.flush()
    }

    fn header(&self, layout: &Layout) -> Vec<u8> {
        // A full table of refcount blocks is one cluster; so few L1 entries fit into 32 bits.
        let l1_entries = u32::try_from(layout.l1_entries).unwrap_or(u32::MAX);
        let mut header = Vec::new();
        header.extend(b"QFI\xfb");
        header.extend(3_u32.to_be_bytes());
        header.extend([0; 12]); // no backing file
        header.extend(CLUSTER_BITS.to_be_bytes());
        header.extend(self.virtual_size.to_be_bytes());
        header.extend([0; 4]); // not encrypted
        header.extend(l1_entries.to_be_bytes());
        header.extend((layout.l1 * CLUSTER).to_be_bytes());
        header.extend(CLUSTER.to_be_bytes()); // the refcount table
        header.extend(1_u32.to_be_bytes()); // and its length in clusters
        header.extend([0; 12]); // no snapshots
        header.extend([0; 24]); // no features
        header.extend(4_u32.to_be_bytes()); // counts of 16 bits
        header.extend(HEADER_LENGTH.to_be_bytes());
        header
    }
}

fn at(file: &mut BufWriter<File>, cluster: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(cluster * CLUSTER)).map(|_| ())
}

/// Numbers without a pattern, after Marsaglia's xorshift.
struct Noise(u64);

impl Noise {
    fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Command;

    use super::CLUSTER;
    use super::Fill;
    use super::Qcow2;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn the_qemu_tools_find_nothing_wrong_with_an_image() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image.qcow2");
        for (virtual_size, allocated, fill) in [
            (2048 * MIB, MIB, Fill::Noise(7)),
            (10 * MIB, 64 * MIB, Fill::Noise(8)),
            (512, 0, Fill::Holes),
            (1000 * 1000 * 1000, 1024 * MIB, Fill::Holes),
            (4096 * MIB, 3000 * MIB, Fill::Holes),
            // All but the blocks themselves would fit into one block of counts.
            (4096 * MIB, 32761 * CLUSTER, Fill::Holes),
        ] {
            Qcow2 { virtual_size, allocated, fill }.write(File::create(&path).unwrap()).unwrap();
            let check = Command::new("qemu-img")
                .args(["check", "--output=json"])
                .arg(&path)
                .output()
                .unwrap();
            let told: serde_json::Value = serde_json::from_slice(&check.stdout).unwrap();
            assert_eq!(check.status.code(), Some(0), "{told}");
            for wrong in ["check-errors", "leaks", "corruptions"] {
                assert!(told[wrong].as_u64().unwrap_or(0) == 0, "{told}");
            }
            let info = Command::new("qemu-img")
                .args(["info", "--output=json"])
                .arg(&path)
                .output()
                .unwrap();
            let told: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
            assert_eq!(told["virtual-size"], virtual_size);
            assert_eq!(told["format"], "qcow2");
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn what_stands_in_an_image_can_be_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let [image, raw] = ["image.qcow2", "image.raw"].map(|name| directory.path().join(name));
        Qcow2 { virtual_size: MIB, allocated: MIB / 2, fill: Fill::Noise(7) }
            .write(File::create(&image).unwrap())
            .unwrap();
        let convert =
            Command::new("qemu-img").args(["convert", "-O", "raw"]).args([&image, &raw]).status();
        assert!(convert.unwrap().success());
        let raw = std::fs::read(raw).unwrap();
        let (noise, rest) = raw.split_at(raw.len() / 2);
        assert!(noise.chunks(4096).all(|chunk| chunk.iter().any(|byte| *byte != 0)));
        assert!(rest.iter().all(|byte| *byte == 0));
    }
}
