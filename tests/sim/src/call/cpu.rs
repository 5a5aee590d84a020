//! Whether a node can run a processor model: QEMU refuses to start what the host lacks.

use crate::schema::Properties;

/// The flags that each level adds to the one before, as `/proc/cpuinfo` spells them.
const LEVELS: [(&str, &[&str]); 4] = [
    ("x86-64-v2", &["cx16", "lahf_lm", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3"]),
    ("x86-64-v2-AES", &["aes"]),
    ("x86-64-v3", &["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"]),
    ("x86-64-v4", &["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"]),
];

/// The flags that a model needs and a host lacks; other models than the levels run anywhere.
pub(super) fn lacking(cpu: &str, flags: &str) -> Vec<&'static str> {
    let cpu = Properties::parse(cpu);
    let model = cpu.bare().or_else(|| cpu.get("cputype")).unwrap_or_default();
    let Some(level) = LEVELS.iter().position(|(name, _)| *name == model) else {
        return Vec::new();
    };
    let there = |flag: &&&str| flags.split(' ').any(|known| known == **flag);
    let needed = LEVELS[..=level].iter().flat_map(|(_, needed)| *needed);
    needed.filter(|flag| !there(flag)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::lacking;
    use crate::world::FLAGS;

    #[test]
    fn a_level_needs_the_flags_of_all_levels_below_it() {
        assert!(lacking("x86-64-v4", FLAGS).is_empty());
        assert_eq!(lacking("x86-64-v3", &FLAGS.replace(" abm ", " ")), ["abm"]);
        assert_eq!(lacking("x86-64-v3", &FLAGS.replace(" aes ", " ")), ["aes"]);
        assert!(lacking("x86-64-v2", &FLAGS.replace(" aes ", " ")).is_empty());
        assert!(lacking("kvm64", "").is_empty());
    }
}
