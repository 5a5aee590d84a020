//! A guest's configuration and the file it is written to.

use std::collections::BTreeMap;

use percent_encoding::AsciiSet;
use percent_encoding::CONTROLS;
use percent_encoding::utf8_percent_encode;
use sha1::Digest;
use sha1::Sha1;

/// What a description's lines escape: control characters, `%`, `:` and all that is not ASCII.
const COMMENT: &AsciiSet = &CONTROLS.add(b'%').add(b':');

/// Options by name, what waits for the next start, and snapshots' absence: they are not modelled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The options of the top section, `description` among them.
    pub options: BTreeMap<String, String>,
    /// Values that wait for a start.
    pub pending: BTreeMap<String, String>,
    /// Options whose removal waits for a start.
    pub pending_delete: Vec<String>,
}

impl Configuration {
    /// The value of an option as it is in force.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    /// The value of an option as it will be after the next start.
    pub fn wanted(&self, key: &str) -> Option<&str> {
        if self.pending_delete.iter().any(|gone| gone == key) {
            return None;
        }
        self.pending.get(key).or_else(|| self.options.get(key)).map(String::as_str)
    }

    /// All options as they will be after the next start.
    pub fn merged(&self) -> BTreeMap<String, String> {
        let mut merged = self.options.clone();
        merged.extend(self.pending.clone());
        merged.retain(|key, _| !self.pending_delete.contains(key));
        merged
    }

    /// Applies what waits for a start.
    pub fn apply_pending(&mut self) {
        self.options = self.merged();
        self.pending.clear();
        self.pending_delete.clear();
    }

    /// The lock, if an operation holds the configuration.
    pub fn lock(&self) -> Option<&str> {
        self.get("lock")
    }

    /// The file's text: description as comment lines, options by name, then what is pending.
    pub fn file(&self) -> String {
        let mut text = String::new();
        if let Some(description) = self.get("description") {
            for line in description.split('\n') {
                text.push('#');
                text.extend(utf8_percent_encode(line, COMMENT));
                text.push('\n');
            }
        }
        section(&mut text, &self.options);
        if !self.pending.is_empty() || !self.pending_delete.is_empty() {
            text.push_str("\n[PENDING]\n");
            let mut pending = self.pending.clone();
            if !self.pending_delete.is_empty() {
                pending.insert("delete".to_owned(), self.pending_delete.join(","));
            }
            section(&mut text, &pending);
        }
        text
    }

    /// The SHA-1 of the file, which writers may send back.
    pub fn digest(&self) -> String {
        hex::encode(Sha1::digest(self.file().as_bytes()))
    }

    /// The lowest free `unusedN`.
    pub fn free_unused(&self) -> String {
        (0..256)
            .map(|index| format!("unused{index}"))
            .find(|key| !self.options.contains_key(key))
            .unwrap_or_else(|| "unused255".to_owned())
    }

    /// Slots that hold a drive, with their values, in the order of their names.
    pub fn drives(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options
            .iter()
            .filter(|(key, _)| is_disk_slot(key))
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

fn section(text: &mut String, options: &BTreeMap<String, String>) {
    for (key, value) in options.iter().filter(|(key, _)| *key != "description") {
        text.push_str(key);
        text.push_str(": ");
        text.push_str(value);
        text.push('\n');
    }
}

/// Whether an option is a drive: `scsi0` is, `scsihw` and `unused0` are not.
pub fn is_disk_slot(key: &str) -> bool {
    let stem = key.trim_end_matches(|letter: char| letter.is_ascii_digit());
    stem.len() < key.len()
        && matches!(stem, "ide" | "sata" | "scsi" | "virtio" | "efidisk" | "tpmstate")
}

#[cfg(test)]
mod tests {
    use super::Configuration;

    #[test]
    fn a_file_has_the_description_on_top_and_the_options_by_name() {
        let mut configuration = Configuration::default();
        for (key, value) in [("name", "a"), ("cores", "2"), ("description", "one: ä\ntwo 100%")] {
            configuration.options.insert(key.to_owned(), value.to_owned());
        }
        configuration.pending.insert("cores".to_owned(), "4".to_owned());
        assert_eq!(
            configuration.file(),
            "#one%3A %C3%A4\n#two 100%25\ncores: 2\nname: a\n\n[PENDING]\ncores: 4\n"
        );
    }
}
