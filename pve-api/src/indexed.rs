//! Numbered keys, such as `scsi0` to `scsi30`, as a map that keeps within its bounds.

use std::collections::BTreeMap;

use thiserror::Error;

/// The values of numbered keys; the greatest number is `MAX`.
#[derive(Debug, Clone, PartialEq)]
pub struct Indexed<T, const MAX: u8>(BTreeMap<u8, T>);

/// A number beyond the greatest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{index} is beyond {max}, the last number")]
pub struct OutOfBounds {
    index: u8,
    max: u8,
}

impl<T, const MAX: u8> Default for Indexed<T, MAX> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T, const MAX: u8> Indexed<T, MAX> {
    /// The greatest number.
    pub const MAX: u8 = MAX;

    /// The value with this number.
    pub fn get(&self, index: u8) -> Option<&T> {
        self.0.get(&index)
    }

    /// The value with this number, to be changed.
    pub fn get_mut(&mut self, index: u8) -> Option<&mut T> {
        self.0.get_mut(&index)
    }

    /// Puts a value in the place of this number, and gives the one that was there.
    pub fn insert(&mut self, index: u8, value: impl Into<T>) -> Result<Option<T>, OutOfBounds> {
        if index > MAX {
            return Err(OutOfBounds { index, max: MAX });
        }
        Ok(self.0.insert(index, value.into()))
    }

    /// Takes the value with this number out.
    pub fn remove(&mut self, index: u8) -> Option<T> {
        self.0.remove(&index)
    }

    /// The lowest number that is not taken.
    pub fn free(&self) -> Option<u8> {
        (0..=MAX).find(|index| !self.0.contains_key(index))
    }

    /// The numbers and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &T)> {
        self.0.iter().map(|(index, value)| (*index, value))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Splits `scsi12` into `scsi` and 12; a number is written without leading zeros.
pub(crate) fn split(key: &str) -> Option<(&str, u8)> {
    let digits = key.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (prefix, number) = key.split_at(key.len() - digits);
    let index: u8 = number.parse().ok()?;
    (!prefix.is_empty() && index.to_string() == number).then_some((prefix, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_beyond_the_last_one_is_refused() {
        let mut disks: Indexed<String, 3> = Indexed::default();
        assert_eq!(disks.insert(3, "a"), Ok(None));
        assert_eq!(disks.insert(3, "b"), Ok(Some("a".to_owned())));
        let error = disks.insert(4, "c").unwrap_err();
        assert_eq!(error.to_string(), "4 is beyond 3, the last number");
        assert_eq!((disks.free(), disks.len(), Indexed::<u8, 3>::MAX), (Some(0), 1, 3));
        for index in 0..3 {
            disks.insert(index, "x").unwrap();
        }
        assert_eq!(disks.free(), None);
    }

    #[test]
    fn a_numbered_key_is_a_word_and_a_plain_number() {
        assert_eq!(split("scsi0"), Some(("scsi", 0)));
        assert_eq!(split("ipconfig31"), Some(("ipconfig", 31)));
        for other in ["name", "scsi01", "5", "", "net300", "smbios"] {
            assert_eq!(split(other), None, "{other}");
        }
    }
}
