//! The variables of the real environment and of `.env`; the former win.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use super::reader::Problem;

/// All variables, each with where it comes from.
///
/// Nothing of `.env` is put into the environment: no command that the server runs sees it.
#[derive(Default)]
pub struct Variables {
    pub(super) values: BTreeMap<String, Variable>,
    pub(super) problems: Vec<Problem>,
}

/// The value of a variable.
pub(super) struct Variable {
    pub(super) value: String,
    pub(super) in_file: bool,
}

impl Variables {
    /// Reads `file`, which may be missing, and adds the environment.
    pub fn load(
        file: &Path,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> io::Result<Self> {
        let mut variables = match fs::read_to_string(file) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("{}: {error}", file.display())));
            }
        };
        for (name, value) in environment {
            // A name that is not UTF-8 is none of ours.
            let Ok(name) = name.into_string() else { continue };
            let value = value.to_string_lossy().into_owned();
            variables.values.insert(name, Variable { value, in_file: false });
        }
        Ok(variables)
    }

    /// The variables of a `.env` file: `NAME=value` in each line, the last of the same name wins.
    ///
    /// A value is `'literal'`, `"with \n, \" and \\"`, or goes to the end of the line or to a `#` behind a
    /// blank. A `$` is a `$`: a password that has one must not be half replaced.
    fn parse(text: &str) -> Self {
        let mut variables = Self::default();
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match assignment(line) {
                Some((name, value)) => {
                    variables.values.insert(name.to_owned(), Variable { value, in_file: true });
                }
                // The line itself is not shown: it may hold a secret.
                None => variables.problems.push(Problem::new(
                    &format!(".env line {}", index + 1),
                    "cannot be read; it must be NAME=value, NAME='value' or NAME=\"value\"",
                )),
            }
        }
        variables
    }
}

fn assignment(line: &str) -> Option<(&str, String)> {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, rest) = line.split_once('=')?;
    let name = name.trim();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if name.is_empty() || !name.bytes().all(fits) {
        return None;
    }
    let value = match rest.trim_start().chars().next() {
        Some('\'') => {
            let (value, rest) = rest.trim_start()[1..].split_once('\'')?;
            is_comment(rest).then(|| value.to_owned())?
        }
        Some('"') => double_quoted(&rest.trim_start()[1..])?,
        _ => plain(rest),
    };
    Some((name, value))
}

fn double_quoted(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return is_comment(characters.as_str()).then_some(value),
            '\\' => value.push(match characters.next()? {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
}

fn plain(text: &str) -> String {
    let mut end = text.len();
    for (index, _) in text.match_indices('#') {
        if text[..index].ends_with(char::is_whitespace) {
            end = index;
            break;
        }
    }
    text[..end].trim().to_owned()
}

fn is_comment(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with('#')
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_its_writer_means_it() {
        let text = r#"
            # a comment
            PLAIN=value # a comment
            BLANKS= 192.0.2.7 , 192.0.2.8
            NONE= # nothing
            HASH=#1#2 #3
            DOLLAR=pa$word${x}
            SINGLE='a # "b" \n $c'   # a comment
            DOUBLE="a # 'b' \"c\" \\ \$d"
            export EXPORTED = yes
            NODE_pve-1=192.0.2.11
            TWICE=first
            TWICE=second
            equals=a=b
        "#;
        let variables = Variables::parse(text);
        let read: Vec<String> = variables
            .values
            .iter()
            .map(|(name, variable)| format!("{name}: {}|", variable.value))
            .collect();
        insta::assert_snapshot!(read.join("\n"), @r#"
        BLANKS: 192.0.2.7 , 192.0.2.8|
        DOLLAR: pa$word${x}|
        DOUBLE: a # 'b' "c" \ $d|
        EXPORTED: yes|
        HASH: #1#2|
        NODE_pve-1: 192.0.2.11|
        NONE: |
        PLAIN: value|
        SINGLE: a # "b" \n $c|
        TWICE: second|
        equals: a=b|
        "#);
        assert_eq!(variables.problems, []);
    }

    #[test]
    fn what_cannot_be_read_is_told_by_its_line() {
        let text = "A=1\nno variable\n=x\nA B=x\nA='open\nA=\"open\\\"\nA='x' y\n";
        let problems: Vec<String> =
            Variables::parse(text).problems.iter().map(Problem::to_string).collect();
        let told: Vec<&str> =
            problems.iter().map(|text| text.split(" cannot").next().unwrap()).collect();
        assert_eq!(told, [2, 3, 4, 5, 6, 7].map(|line| format!(".env line {line}")));
    }
}
