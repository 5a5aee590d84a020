//! The keymap: one table, from which both what a key does and the help are read.

use crossterm::event::KeyCode;
use crossterm::event::KeyEvent;
use crossterm::event::KeyModifiers;

/// What a key asks for, wherever the focus is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Up,
    Down,
    First,
    Last,
    PageUp,
    PageDown,
    Open,
    Toggle,
    Reset,
    Undo,
    Reload,
    Back,
    Request,
    LogIn,
    Help,
    Suspend,
    Quit,
}

/// One line of the keymap.
pub(crate) struct Binding {
    pub(crate) action: Action,
    keys: &'static [(KeyCode, KeyModifiers)],
    /// The keys as they are written on a keyboard.
    pub(crate) shown: &'static str,
    /// What they do.
    pub(crate) what: &'static str,
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

const fn bind(
    action: Action,
    keys: &'static [(KeyCode, KeyModifiers)],
    shown: &'static str,
    what: &'static str,
) -> Binding {
    Binding { action, keys, shown, what }
}

/// All bindings, in the order of the help.
pub(crate) static BINDINGS: &[Binding] = &[
    bind(
        Action::Down,
        &[(KeyCode::Down, NONE), (KeyCode::Tab, NONE)],
        "Down, Tab",
        "to the next field; in a text it is taken first",
    ),
    bind(
        Action::Up,
        &[(KeyCode::Up, NONE), (KeyCode::BackTab, SHIFT), (KeyCode::BackTab, NONE)],
        "Up, Shift-Tab",
        "to the field before",
    ),
    bind(Action::First, &[(KeyCode::Home, NONE)], "Home", "to the first field"),
    bind(Action::Last, &[(KeyCode::End, NONE)], "End", "to the last field"),
    bind(
        Action::PageDown,
        &[(KeyCode::PageDown, NONE), (KeyCode::Char('n'), CTRL)],
        "PgDn, Ctrl-N",
        "to the next screen",
    ),
    bind(
        Action::PageUp,
        &[(KeyCode::PageUp, NONE), (KeyCode::Char('p'), CTRL)],
        "PgUp, Ctrl-P",
        "to the screen before",
    ),
    bind(
        Action::Open,
        &[(KeyCode::Enter, NONE)],
        "Enter",
        "change the field, open the list, press the button",
    ),
    bind(Action::Toggle, &[(KeyCode::Char(' '), NONE)], "Space", "switch yes and no"),
    bind(
        Action::Reset,
        &[(KeyCode::Delete, NONE), (KeyCode::Backspace, NONE), (KeyCode::Char('d'), CTRL)],
        "Delete",
        "take back what was said here; on a disk: remove it",
    ),
    bind(Action::Undo, &[(KeyCode::Char('u'), CTRL)], "Ctrl-U", "undo the last change"),
    bind(Action::Reload, &[(KeyCode::Char('r'), CTRL)], "Ctrl-R", "ask the server again"),
    bind(Action::Back, &[(KeyCode::Esc, NONE)], "Esc", "close, give up, go back"),
    bind(
        Action::Request,
        &[(KeyCode::Char('t'), CTRL)],
        "Ctrl-T",
        "the request as text, for pvesh and for qm",
    ),
    bind(Action::LogIn, &[(KeyCode::Char('g'), CTRL)], "Ctrl-G", "log in anew; answers stay"),
    bind(Action::Help, &[(KeyCode::F(1), NONE), (KeyCode::Char('?'), NONE)], "F1, ?", "this help"),
    bind(
        Action::Suspend,
        &[(KeyCode::Char('z'), CTRL)],
        "Ctrl-Z",
        "back to the shell for a while; fg returns",
    ),
    bind(
        Action::Quit,
        &[(KeyCode::Char('c'), CTRL), (KeyCode::Char('q'), CTRL)],
        "Ctrl-C, Ctrl-Q",
        "leave",
    ),
];

/// What a key asks for.
pub(crate) fn action(key: KeyEvent) -> Option<Action> {
    let is_meant = |binding: &&Binding| {
        binding.keys.iter().any(|(code, modifiers)| {
            // How a terminal tells Shift with a character differs; the character says it all.
            let mut pressed = key.modifiers;
            if let KeyCode::Char(_) = code {
                pressed.remove(SHIFT);
            }
            *code == key.code && *modifiers == pressed
        })
    };
    BINDINGS.iter().find(is_meant).map(|binding| binding.action)
}

/// The keys of an action as they are written.
pub(crate) fn shown(action: Action) -> &'static str {
    let binding = BINDINGS.iter().find(|binding| binding.action == action);
    binding.map_or("", |binding| binding.shown)
}

/// The character that a key types, if it types one.
pub(crate) fn typed(key: KeyEvent) -> Option<char> {
    match key.code {
        KeyCode::Char(c) if !key.modifiers.intersects(CTRL | KeyModifiers::ALT) => Some(c),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things() {
        let all: Vec<_> = BINDINGS.iter().flat_map(|binding| binding.keys).collect();
        for (index, key) in all.iter().enumerate() {
            assert!(!all[..index].contains(key), "{key:?}");
        }
    }

    #[test]
    fn every_action_has_a_key_and_a_word() {
        for binding in BINDINGS {
            assert!(!shown(binding.action).is_empty() && !binding.what.is_empty());
            let (code, modifiers) = binding.keys[0];
            assert_eq!(action(KeyEvent::new(code, modifiers)), Some(binding.action));
        }
    }
}
