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

#[cfg(test)]
mod tests {
    use super::*;

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
