//! How things look, with colours and without. Nothing is told by colour alone: every mark has a
//! sign or a word beside it.

use ratatui::style::Color;
use ratatui::style::Modifier;
use ratatui::style::Style;

/// The looks; the colours are among the 16 that every terminal has in its own shades, so that they
/// can be read on light and dark ground.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theme {
    /// Whether colours may be used.
    pub(crate) colours: bool,
}

impl Theme {
    fn coloured(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    /// What has the focus.
    pub(crate) fn focus() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// What stands above something.
    pub(crate) fn title() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What may be overlooked.
    pub(crate) fn quiet() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// What keeps the VM from being made, or went wrong.
    pub(crate) fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What a person should know.
    pub(crate) fn note(self) -> Style {
        self.coloured(Color::Magenta)
    }

    /// What went well.
    pub(crate) fn good(self) -> Style {
        self.coloured(Color::Green).add_modifier(Modifier::BOLD)
    }
}
