//! What holds for the screens: rows, problems, what has to be asked.

use pve_api::NodeName;
use pve_provision::create::Draft;
use pve_provision::create::Fact;
use pve_provision::create::Field;
use pve_provision::create::Key;
use pve_provision::create::Plan;
use pve_provision::create::Privileges;
use pve_provision::create::Query;
use pve_provision::create::Screen;
use pve_provision::create::resolve;

use super::Page;
use super::Place;
use super::REMEMBERED;
use super::Sheet;
use super::Wish;
use super::confirm;
use super::rows;
use crate::form::Row;

impl Sheet {
    /// The rows of the screen that is shown.
    pub(crate) fn rows(&self) -> Vec<Row<'_, Place>> {
        match (self.page, self.disk) {
            (Page::Template, _) => rows::of_templates(&self.templates, self.draft.template()),
            (Page::Of(Screen::Disks), Some(disk)) => {
                rows::of_disk(disk, &self.answers, &self.complaints)
            }
            (Page::Of(Screen::Disks), None) => rows::of_disks(&self.answers, &self.complaints),
            (Page::Of(Screen::Confirm), _) => confirm::rows(self),
            (Page::Of(screen), _) => rows::of_screen(screen, &self.answers, &self.complaints),
        }
    }

    /// Whether something on the screen keeps the VM from being made.
    pub(crate) fn has_problem(&self, page: Page) -> bool {
        let Page::Of(screen) = page else { return false };
        let here = |key: &Key| key.field.row().screen == screen;
        self.answers.problems().any(|(key, _)| here(&key))
            || self.complaints.iter().any(|(key, _)| here(key))
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut Draft)) {
        let before = self.draft.clone();
        change(&mut self.draft);
        if self.draft != before {
            self.past.push(before);
            if self.past.len() > REMEMBERED {
                self.past.remove(0);
            }
        }
    }

    /// What the server complained about is answered anew.
    pub(super) fn heard(&mut self, key: Key) {
        self.complaints.retain(|(at, _)| *at != key);
    }

    /// Resolves anew, and says what has to be asked.
    pub(super) fn refresh(&mut self) -> Option<Wish> {
        self.resolve();
        self.ask()
    }

    pub(super) fn resolve(&mut self) {
        self.answers = resolve(&self.draft, &self.facts);
        self.plan = Plan::new(&self.answers, &self.facts);
        self.privileges = match (&self.plan, self.facts.permissions()) {
            (Ok(plan), Fact::There(granted)) => Privileges::new(plan, granted, &self.facts.account),
            _ => Privileges::default(),
        };
    }

    /// What has to be asked; from now on it counts as asked.
    pub(super) fn ask(&mut self) -> Option<Wish> {
        let queries = self.facts.ask(&self.draft);
        (!queries.is_empty()).then_some(Wish::Ask(queries))
    }

    /// Forgets what the server said about a field; where it said nothing, all that failed.
    pub(super) fn forget_for(&mut self, place: &Place) {
        let node: Option<NodeName> = self.answers.text(Field::Node).parse().ok();
        let of_node = |other: &NodeName| node.as_ref() == Some(other);
        let failed: Vec<Query> = self.facts.failures().map(|(query, _)| query.clone()).collect();
        let field = match place {
            Place::Key(key) => Some(key.field),
            Place::Disk(_) => Some(Field::DiskStorage),
            _ => None,
        };
        let storages =
            [Field::IsoStorage, Field::EfiStorage, Field::TpmStorage, Field::DiskStorage];
        self.facts.forget_all(|query| match (field, query) {
            (Some(Field::Node | Field::Ha), Query::Nodes | Query::Cluster | Query::Permissions)
            | (Some(Field::Vmid), Query::NextId | Query::IsFree(_))
            | (Some(Field::Pool), Query::Pools)
            | (Some(Field::Tags), Query::Options) => true,
            (Some(Field::Iso), Query::Isos(node, _))
            | (Some(Field::Bridge), Query::Bridges(node))
            | (Some(Field::CpuType), Query::CpuModels(node)) => of_node(node),
            (Some(field), Query::Storages(node)) if storages.contains(&field) => of_node(node),
            (_, query) => failed.contains(query),
        });
    }
}
