//! Picking from a list, which is filtered by typing. It keeps the id of what is highlighted, so
//! that a list that changes meanwhile does not move it.

use tui_input::Input;

use super::row::Kind;

/// A list that is open.
#[derive(Clone)]
pub(crate) struct Picker {
    pub(crate) filter: Input,
    /// The id of what is highlighted; `None` until somebody moved.
    at: Option<String>,
}

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) id: &'a str,
    pub(crate) label: &'a str,
    pub(crate) detail: &'a str,
    /// Why it cannot be taken.
    pub(crate) unusable: Option<&'a str>,
    /// In a list of several: whether it is in.
    pub(crate) checked: Option<bool>,
    /// Whether it is what was typed, and not offered by anybody.
    pub(crate) typed: bool,
}

impl Item<'_> {
    /// Whether that is its id or its name.
    fn is(&self, text: &str) -> bool {
        self.id == text || self.label == text
    }
}

impl Picker {
    pub(crate) fn new(filter: Input) -> Self {
        Self { filter, at: None }
    }

    /// The lines that fit the filter.
    pub(crate) fn items<'a>(&'a self, kind: &Kind<'a>) -> Vec<Item<'a>> {
        let filter = self.filter.value().trim();
        let wanted = filter.to_lowercase();
        let fits = |text: &str| wanted.is_empty() || text.to_lowercase().contains(&wanted);
        let mut items = Vec::new();
        match kind {
            Kind::Choice { choices, none, free, .. } => {
                if let (Some(none), true) = (none, wanted.is_empty()) {
                    items.push(plain("", none));
                }
                for choice in *choices {
                    if fits(&choice.label) || fits(&choice.value) || fits(&choice.detail) {
                        let item = Item {
                            detail: &choice.detail,
                            unusable: choice.unusable.as_deref(),
                            ..plain(&choice.value, &choice.label)
                        };
                        items.push(item);
                    }
                }
                if *free && !filter.is_empty() && !items.iter().any(|item| item.is(filter)) {
                    items.insert(0, Item { typed: true, ..plain(filter, filter) });
                }
            }
            Kind::List { items: chosen, offered } => {
                let offered = offered.iter().map(|choice| choice.value.as_str());
                let added = chosen.iter().map(String::as_str);
                let mut all: Vec<&str> = offered.chain(added).filter(|text| fits(text)).collect();
                all.sort_unstable();
                all.dedup();
                for text in all {
                    let checked = chosen.iter().any(|item| item == text);
                    items.push(Item { checked: Some(checked), ..plain(text, text) });
                }
                if !filter.is_empty() && !items.iter().any(|item| item.id == filter) {
                    let new = Item { typed: true, checked: Some(false), ..plain(filter, filter) };
                    items.insert(0, new);
                }
            }
            _ => {}
        }
        items
    }

    /// The place of what is highlighted among the items: where somebody moved to; else what is
    /// exactly as it was typed, be it offered or not; else the first that fits.
    pub(crate) fn position(&self, kind: &Kind<'_>, items: &[Item<'_>]) -> usize {
        let filter = self.filter.value().trim();
        let at = match (&self.at, kind) {
            (Some(at), _) => items.iter().position(|item| item.id == at),
            (None, Kind::Choice { chosen, .. }) if filter.is_empty() => {
                items.iter().position(|item| item.id == *chosen)
            }
            (None, _) => items.iter().position(|item| item.is(filter)),
        };
        at.unwrap_or(0)
    }

    /// Moves what is highlighted.
    pub(crate) fn go(&mut self, kind: &Kind<'_>, to: impl Fn(usize, usize) -> usize) {
        let items = self.items(kind);
        let last = items.len().saturating_sub(1);
        let target = to(self.position(kind, &items), last).min(last);
        self.at = items.get(target).map(|item| item.id.to_owned());
    }

    /// Begins anew after the filter was changed.
    pub(crate) fn refiltered(&mut self) {
        self.at = None;
    }
}

fn plain<'a>(id: &'a str, label: &'a str) -> Item<'a> {
    Item { id, label, detail: "", unusable: None, checked: None, typed: false }
}
