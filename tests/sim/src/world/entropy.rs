//! Chance from a seed: addresses, identifiers, process ids.

/// A generator of numbers, `SplitMix64`.
#[derive(Debug, Clone)]
pub struct Entropy(u64);

impl Entropy {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(self.number() % u64::from(limit.max(1))).unwrap_or_default()
    }

    /// An address with the prefix that Proxmox VE gives.
    pub fn mac(&mut self) -> String {
        let bytes = self.number().to_be_bytes();
        format!("BC:24:11:{:02X}:{:02X}:{:02X}", bytes[0], bytes[1], bytes[2])
    }

    /// A random UUID.
    pub fn uuid(&mut self) -> String {
        let high = self.number();
        let low = self.number();
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            (low >> 48) & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff
        )
    }

    /// Text for a salt, as `crypt` spells it.
    pub fn salt(&mut self, length: usize) -> String {
        const LETTERS: &[u8] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        (0..length).map(|_| char::from(LETTERS[self.below(64) as usize])).collect()
    }
}
