//! What was drawn last, as far as a key or the mouse has to know of it: where things lie, and how
//! far a text can be scrolled.

use ratatui::layout::Position;
use ratatui::layout::Rect;

use crate::keys::Action;

/// What lies at a place on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    /// Something that covers what is below it.
    Cover,
    /// A screen's name, by its place among them.
    Page(usize),
    /// A row of the form.
    Row(usize),
    /// A line of the list that is open.
    Item(usize),
}

/// A text of which a part is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// The first line that is shown.
    pub(crate) first: usize,
    /// The last line that can be the first one.
    pub(crate) most: usize,
    /// So many lines are shown.
    pub(crate) height: usize,
}

/// What was drawn last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drawn {
    spots: Vec<(Rect, Spot)>,
    /// The text that the keys scroll.
    pub(crate) text: Part,
}

/// How far a wheel goes by one notch.
const NOTCH: usize = 3;

impl Part {
    /// A part of so many lines that begins at that line, or as near to it as there are lines.
    pub(crate) fn of(lines: usize, height: u16, first: usize) -> Self {
        let height = usize::from(height);
        let most = lines.saturating_sub(height);
        Self { first: first.min(most), most, height }
    }

    /// How many lines lie below.
    pub(crate) fn below(self) -> usize {
        self.most - self.first
    }

    /// The first line after a key, if it is one that scrolls.
    pub(crate) fn after(self, action: Action) -> Option<usize> {
        let page = self.height.saturating_sub(1).max(1);
        let first = match action {
            Action::Up => self.first.saturating_sub(1),
            Action::Down => self.first + 1,
            Action::PageUp => self.first.saturating_sub(page),
            Action::PageDown => self.first + page,
            Action::First => 0,
            Action::Last => self.most,
            _ => return None,
        };
        Some(first.min(self.most))
    }

    /// The first line after the wheel was turned.
    pub(crate) fn turned(self, up: bool) -> usize {
        let first = if up { self.first.saturating_sub(NOTCH) } else { self.first + NOTCH };
        first.min(self.most)
    }
}

impl Drawn {
    pub(crate) fn put(&mut self, area: Rect, spot: Spot) {
        self.spots.push((area, spot));
    }

    /// What lies there; of several things the one that was drawn last.
    pub(crate) fn at(&self, column: u16, row: u16) -> Option<Spot> {
        let place = Position::new(column, row);
        let mut spots = self.spots.iter().rev();
        spots.find(|(area, _)| area.contains(place)).map(|(_, spot)| *spot)
    }
}

/// What of a list or a text is not shown, in words; nothing if all is.
pub(crate) fn more(above: usize, below: usize) -> String {
    match (above, below) {
        (0, 0) => String::new(),
        (0, below) => format!(" {below} more below "),
        (above, 0) => format!(" {above} more above "),
        (above, below) => format!(" {above} more above, {below} below "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_scrolls_beyond_the_text() {
        for lines in 0..40 {
            for height in 1..12 {
                let mut part = Part::of(lines, height, 0);
                let mut seen = Vec::new();
                for action in [Action::PageDown; 50] {
                    seen.extend(part.first..(part.first + part.height).min(lines));
                    part.first = part.after(action).unwrap();
                }
                seen.dedup();
                seen.sort_unstable();
                seen.dedup();
                assert_eq!(seen, (0..lines).collect::<Vec<_>>(), "{lines} in {height}");
                assert_eq!(part.below(), 0);
                // One step back is seen at once, however often somebody went too far.
                let back = part.after(Action::Up).unwrap();
                assert_eq!(back, part.most.saturating_sub(1));
                assert!(part.turned(true) <= part.most && part.turned(false) <= part.most);
            }
        }
    }

    #[test]
    fn what_was_drawn_last_lies_above() {
        let mut drawn = Drawn::default();
        drawn.put(Rect::new(0, 3, 80, 1), Spot::Row(0));
        drawn.put(Rect::new(10, 2, 20, 5), Spot::Cover);
        drawn.put(Rect::new(11, 3, 18, 1), Spot::Item(4));
        assert_eq!(drawn.at(0, 3), Some(Spot::Row(0)));
        assert_eq!(drawn.at(12, 3), Some(Spot::Item(4)));
        assert_eq!(drawn.at(10, 3), Some(Spot::Cover));
        assert_eq!(drawn.at(0, 9), None);
    }
}
