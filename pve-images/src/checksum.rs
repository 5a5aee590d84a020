//! Checksums, and the lists in which publishers give them.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;
use sha2::Digest;
use sha2::Sha256;
use sha2::Sha512;

/// How a checksum is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// Digits of the sum.
    const fn digits(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// A checksum; its text is `sha512:<digits in lower case>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Sum {
    algorithm: Algorithm,
    digits: String,
}

impl Sum {
    fn new(algorithm: Algorithm, digits: &str) -> Option<Self> {
        let fits =
            digits.len() == algorithm.digits() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        fits.then(|| Self { algorithm, digits: digits.to_ascii_lowercase() })
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.digits)
    }
}

impl FromStr for Sum {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split_once(':')
            .and_then(|(name, digits)| {
                let algorithm = Algorithm::ALL.into_iter().find(|known| known.name() == name)?;
                Self::new(algorithm, digits)
            })
            .ok_or_else(|| format!("'{text}' is not a checksum"))
    }
}

impl TryFrom<String> for Sum {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Sum> for String {
    fn from(sum: Sum) -> Self {
        sum.to_string()
    }
}

/// Finds a file's sum in a list.
///
/// Lines are those of `sha512sum` and `sha256sum` (`<digits>  <name>`, with `*` before the name in binary mode), where
/// the number of digits says which it is, or BSD's (`SHA256 (<name>) = <digits>`).
/// A name may begin with `./`. Anything else is skipped: comments, signatures, other algorithms.
pub(crate) fn find(list: &str, name: &str) -> Option<Sum> {
    list.lines().find_map(|line| {
        let line = line.trim();
        let (listed, sum) = bsd(line).or_else(|| coreutils(line))?;
        (listed.strip_prefix("./").unwrap_or(listed) == name).then_some(sum)
    })
}

fn bsd(line: &str) -> Option<(&str, Sum)> {
    let (tag, rest) = line.split_once(" (")?;
    let algorithm =
        Algorithm::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(tag))?;
    let (name, digits) = rest.rsplit_once(") = ")?;
    Some((name, Sum::new(algorithm, digits.trim())?))
}

fn coreutils(line: &str) -> Option<(&str, Sum)> {
    let (digits, name) = line.split_once([' ', '\t'])?;
    let algorithm = Algorithm::ALL.into_iter().find(|known| known.digits() == digits.len())?;
    let name = name.trim_start_matches([' ', '\t']);
    Some((name.strip_prefix('*').unwrap_or(name), Sum::new(algorithm, digits)?))
}

/// Computes a sum piece by piece.
pub(crate) enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(state) => state.update(bytes),
            Self::Sha512(state) => state.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Sum {
        match self {
            Self::Sha256(state) => {
                Sum { algorithm: Algorithm::Sha256, digits: hex::encode(state.finalize()) }
            }
            Self::Sha512(state) => {
                Sum { algorithm: Algorithm::Sha512, digits: hex::encode(state.finalize()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The sum of some bytes, as a list would give it.
    fn sum(algorithm: Algorithm, bytes: &[u8]) -> Sum {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(bytes);
        hasher.finish()
    }

    #[test]
    fn the_sums_are_those_of_the_standard() {
        assert_eq!(
            sum(Algorithm::Sha256, b"abc").to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            sum(Algorithm::Sha512, b"abc").to_string(),
            "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        );
    }

    #[test]
    fn the_lists_of_the_three_publishers_are_read() {
        let (short, long) = ("a".repeat(64), "B".repeat(128));
        let debian = format!(
            "{long}  debian-12-generic-amd64.json\n{long}  debian-12-generic-amd64.qcow2\n"
        );
        let ubuntu = format!("{short} *ubuntu-24.04-server-cloudimg-amd64.img\n");
        let rocky = format!(
            "# Rocky-9-GenericCloud-Base.latest.x86_64.qcow2: 609222656 bytes\n\
             SHA256 (Rocky-9-GenericCloud-Base.latest.x86_64.qcow2) = {short}\n"
        );
        for (list, name, digits) in [
            (&debian, "debian-12-generic-amd64.qcow2", format!("sha512:{}", "b".repeat(128))),
            (&ubuntu, "ubuntu-24.04-server-cloudimg-amd64.img", format!("sha256:{short}")),
            (&rocky, "Rocky-9-GenericCloud-Base.latest.x86_64.qcow2", format!("sha256:{short}")),
        ] {
            assert_eq!(find(list, name).unwrap().to_string(), digits);
            assert_eq!(find(list, &name[1..]), None, "part of a name is not the name");
        }
    }

    #[test]
    fn lines_that_are_nothing_are_skipped() {
        let short = "a".repeat(64);
        let list = format!(
            "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nMD5 (a.img) = {short}\nSHA512 (a.img) = {short}\n\
             {}  a.img\n{short}a  a.img\nzz{}  a.img\n\r\n{short}  ./a.img\r\n",
            "a".repeat(40),
            "a".repeat(62),
        );
        assert_eq!(find(&list, "a.img").unwrap().to_string(), format!("sha256:{short}"));
    }

    fn name() -> impl Strategy<Value = String> {
        "[A-Za-z0-9][A-Za-z0-9 ()._+-]{0,30}[A-Za-z0-9]"
    }

    proptest! {
        #[test]
        fn what_was_listed_is_found_in_any_format(
            files in proptest::collection::btree_map(name(), any::<Vec<u8>>(), 1..8),
            formats in proptest::collection::vec((0..4_u8, any::<bool>(), any::<bool>()), 8),
            chosen: prop::sample::Index,
        ) {
            let mut lines = Vec::new();
            for ((name, bytes), (format, long, upper)) in files.iter().zip(&formats) {
                let algorithm = if *long { Algorithm::Sha512 } else { Algorithm::Sha256 };
                let mut digits = sum(algorithm, bytes).digits;
                if *upper {
                    digits = digits.to_ascii_uppercase();
                }
                lines.push(match format {
                    0 => format!("{digits}  {name}\n"),
                    1 => format!("{digits} *{name}\r\n"),
                    2 => format!("{digits}  ./{name}\n"),
                    _ => format!("# {name}: 1 bytes\n{} ({name}) = {digits}\n", algorithm.name().to_uppercase()),
                });
            }
            let list = lines.concat();
            let at = chosen.index(files.len());
            let (name, bytes) = files.iter().nth(at).unwrap();
            let algorithm = if formats[at].1 { Algorithm::Sha512 } else { Algorithm::Sha256 };
            prop_assert_eq!(find(&list, name), Some(sum(algorithm, bytes)));
            prop_assert_eq!(find(&list, "?absent"), None);
        }

        #[test]
        fn any_text_is_read_without_a_panic(list in ".{0,400}", name in ".{0,20}") {
            let _ = find(&list, &name);
        }

        #[test]
        fn a_sum_reads_back_from_its_text(bytes: Vec<u8>, long: bool) {
            let algorithm = if long { Algorithm::Sha512 } else { Algorithm::Sha256 };
            let sum = sum(algorithm, &bytes);
            prop_assert_eq!(sum.to_string().parse::<Sum>(), Ok(sum));
        }

        #[test]
        fn pieces_give_the_sum_of_the_whole(bytes: Vec<u8>, at: prop::sample::Index) {
            let at = at.index(bytes.len() + 1);
            let mut hasher = Hasher::new(Algorithm::Sha512);
            hasher.update(&bytes[..at]);
            hasher.update(&bytes[at..]);
            prop_assert_eq!(hasher.finish(), sum(Algorithm::Sha512, &bytes));
        }
    }
}
