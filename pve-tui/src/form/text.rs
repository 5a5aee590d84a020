//! Text in cells: as wide as there is room, and in lines.

use ratatui::text::Span;

/// The text as wide as it may be; what is cut off is marked.
pub(crate) fn clipped(text: &str, width: usize) -> String {
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += Span::raw(c.to_string()).width();
        if used + 1 > width {
            break;
        }
        short.push(c);
    }
    if width > 0 {
        short.push('…');
    }
    short
}

pub(super) fn padded(text: &str, width: usize) -> String {
    let text = clipped(text, width);
    let gap = width.saturating_sub(Span::raw(&text).width());
    format!("{text}{}", " ".repeat(gap))
}

/// The text in lines that are no wider than there is room, broken between words.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let words = line.trim_start_matches(' ');
        let indent = &line[..(line.len() - words.len()).min(width / 2)];
        let mut current = indent.to_owned();
        for word in words.split(' ') {
            let mut word = word;
            let wide = |text: &str| Span::raw(text).width();
            if current != indent && wide(&current) + 1 + wide(word) > width {
                lines.push(std::mem::replace(&mut current, indent.to_owned()));
            }
            if current != indent {
                current.push(' ');
            }
            // A word that is longer than a line is broken anywhere.
            let room = width - indent.len().min(width);
            while current == indent && room > 0 && wide(word) > room {
                let cut = word.char_indices().nth(room).map_or(word.len(), |(at, _)| at);
                lines.push(format!("{indent}{}", &word[..cut]));
                word = &word[cut..];
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines
}

/// A command for a shell in lines that are no wider than there is room, each but the last with a
/// backslash at its end, so that what is copied from the screen is the same command.
pub(crate) fn wrapped_command(command: &str, width: usize) -> Vec<String> {
    let room = width.saturating_sub(2).max(1);
    let mut lines = Vec::new();
    let mut rest = command.to_owned();
    while Span::raw(&rest).width() > width {
        let (mut quoted, mut escaped) = (false, false);
        let (mut cuts, mut within) = (Vec::new(), None);
        for (at, c) in rest.char_indices() {
            if Span::raw(&rest[..at]).width() > room {
                break;
            }
            // Within quotes a backslash would be one, and so would it after another.
            if !quoted && !escaped && at > 0 {
                cuts.push(at);
            }
            if quoted && at > 1 {
                within = Some(at);
            }
            match c {
                _ if escaped => escaped = false,
                '\\' if !quoted => escaped = true,
                '\'' => quoted = !quoted,
                _ => {}
            }
        }
        // An option stays with its value where that can be.
        let last = |start: &str| cuts.iter().rev().find(|at| rest[**at..].starts_with(start));
        let at = last(" --").or_else(|| last(" ")).or(cuts.last());
        match (at, within) {
            (Some(at), _) => {
                let (line, left) = rest.split_at(*at);
                let blank = if left.starts_with(' ') { " " } else { "" };
                lines.push(format!("{line}{blank}\\"));
                rest = String::from(left.strip_prefix(' ').unwrap_or(left));
            }
            // A quotation that is longer than a line becomes two that touch.
            (None, Some(at)) => {
                lines.push(format!("{}'\\", &rest[..at]));
                rest = format!("'{}", &rest[at..]);
            }
            (None, None) => break,
        }
    }
    lines.push(rest);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a shell makes of a text.
    fn run(text: &str) -> String {
        let output = std::process::Command::new("sh").args(["-c", text]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_command_that_is_copied_in_lines_is_the_same_command() {
        let commands = [
            "printf '%s|' set 105 --serial0 socket --vga serial0",
            "printf '%s|' create 105 --ide2 'local:iso/a b c d e f g.iso,media=cdrom' --cores 2",
            "printf '%s|' /nodes/a-very-long-name-of-a-node-that-has-no-blank/qemu --vmid 105",
            "printf '%s|' a",
            r"printf '%s|' set 105 --name 'it'\''s' --description 'they'\''re '\'' here' --cores 2",
            r"printf '%s|' --tags 'it'\''s;they'\''re;we'\'''\''ve;a\b\' --args '\'\''\' --cores 2",
            r"printf '%s|' 'a;b;c;d;e;f;g;h;i;j;k'\'''\'''\'''\'''\'''\'''\'''\''l;m;n;o;p;q;r'",
        ];
        for command in commands {
            for width in 12..80 {
                let lines = wrapped_command(command, width);
                assert_eq!(run(&lines.join("\n")), run(command), "{lines:?}");
                let mut widths = lines.iter().map(|line| Span::raw(line.as_str()).width());
                assert!(widths.all(|wide| wide <= width), "{width}: {lines:?}");
            }
        }
    }

    #[test]
    fn text_is_broken_between_words_and_words_only_where_they_must() {
        assert_eq!(wrapped("a bb ccc", 4), ["a bb", "ccc"]);
        assert_eq!(wrapped("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert_eq!(wrapped("", 3), [""; 0]);
        assert_eq!(wrapped("  a b cde", 5), ["  a b", "  cde"]);
        assert_eq!(clipped("abcdef", 4), "abc…");
        assert_eq!(clipped("漢字漢字", 5), "漢字…");
    }
}
