//! The look at a file's first bytes: is it a qcow2 image that stands on its own?

/// The bytes that decide; a header of version 3 has at least so many.
pub(crate) const HEADER: usize = 104;

const MAGIC: [u8; 4] = *b"QFI\xfb";
/// How files begin that xz, gzip, zstd and bzip2 have made.
const PACKED: [&[u8]; 4] = [b"\xfd7zXZ\0", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh"];
/// The header of version 2 ends here.
const HEADER_2: usize = 72;
/// Incompatible feature: the guest's data lies in another file.
const DATA_FILE: u64 = 1 << 2;

/// Looks at the first bytes of a file, all of them when it is shorter than [`HEADER`].
///
/// A backing or data file would make the image read another file of the machine that imports it.
pub(crate) fn check(header: &[u8]) -> Result<(), &'static str> {
    if !header.starts_with(&MAGIC) {
        return Err(if looks_like_html(header) {
            "it is a web page, perhaps that of a proxy or a login portal"
        } else if PACKED.iter().any(|magic| header.starts_with(magic)) {
            "it is compressed, and nothing is unpacked here"
        } else {
            "it does not begin like a qcow2 image"
        });
    }
    match number(header, 4).map(|word| word >> 32) {
        Some(2) if header.len() >= HEADER_2 => {}
        Some(3) if header.len() >= HEADER => {
            if number(header, 72).is_none_or(|features| features & DATA_FILE != 0) {
                return Err("it keeps its data in another file");
            }
        }
        Some(2 | 3) | None => return Err("it ends within the qcow2 header"),
        Some(_) => return Err("its qcow2 version is neither 2 nor 3"),
    }
    if number(header, 8) != Some(0) {
        return Err("it needs a backing file");
    }
    Ok(())
}

/// The big-endian 64-bit number at an offset.
fn number(header: &[u8], offset: usize) -> Option<u64> {
    header.get(offset..)?.first_chunk().copied().map(u64::from_be_bytes)
}

fn looks_like_html(header: &[u8]) -> bool {
    let text = header.trim_ascii_start();
    let begins =
        |word: &[u8]| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    begins(b"<!doctype html") || begins(b"<html")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A header as `qemu-img create` writes it.
    fn header(version: u32) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&version.to_be_bytes());
        bytes[20..24].copy_from_slice(&16_u32.to_be_bytes());
        bytes[24..32].copy_from_slice(&(3_u64 << 30).to_be_bytes());
        bytes[100..104].copy_from_slice(&104_u32.to_be_bytes());
        bytes
    }

    #[test]
    fn an_image_on_its_own_passes() {
        assert_eq!(check(&header(2)), Ok(()));
        assert_eq!(check(&header(3)), Ok(()));
        assert_eq!(check(&header(2)[..HEADER_2]), Ok(()));
    }

    #[test]
    fn what_is_not_an_image_is_named() {
        let html = check(b"\n<!DOCTYPE HTML><html><body>Please log in</body></html>").unwrap_err();
        assert!(html.contains("web page"), "{html}");
        for bytes in [&b""[..], b"QFI", b"<", &[0; HEADER], b"PK\x03\x04"] {
            assert!(check(bytes).unwrap_err().contains("does not begin"), "{bytes:?}");
        }
        assert!(check(b"\xfd7zXZ\0\0\x04").unwrap_err().contains("compressed"));
        assert!(check(&header(4)).unwrap_err().contains("version"));
    }

    proptest! {
        #[test]
        fn any_backing_file_is_refused(offset in 1_u64.., version in 2_u32..=3) {
            let mut bytes = header(version);
            bytes[8..16].copy_from_slice(&offset.to_be_bytes());
            prop_assert_eq!(check(&bytes), Err("it needs a backing file"));
        }

        #[test]
        fn the_data_file_bit_decides_among_all_features(features: u64) {
            let mut bytes = header(3);
            bytes[72..80].copy_from_slice(&features.to_be_bytes());
            prop_assert_eq!(check(&bytes).is_err(), features & 4 != 0);
        }

        #[test]
        fn a_header_that_is_cut_never_passes(length in 0..HEADER) {
            prop_assert!(check(&header(3)[..length]).is_err());
        }

        #[test]
        fn any_bytes_are_looked_at_without_a_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            magic: bool,
        ) {
            if magic && bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&MAGIC);
            }
            let _ = check(&bytes);
        }
    }
}
