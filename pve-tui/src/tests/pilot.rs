//! Keys in, screen out: the program without a terminal.

use crossterm::event::KeyCode;
use crossterm::event::KeyEvent;
use crossterm::event::KeyModifiers;
use pve_provision::create::Draft;
use pve_provision::create::Plan;
use pve_provision::create::Stage;
use pve_provision::create::Template;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::world::World;
use super::world::realms;
use crate::app::Effect;
use crate::app::Message;
use crate::app::Model;
use crate::app::update;
use crate::login::Known;
use crate::login::Reached;
use crate::login::Shown;
use crate::login::Wish;
use crate::style::Theme;
use crate::view::view;

/// The certificate that the server of the tests shows.
pub(super) const PIN: &str = "7E:4A:10:28:DD:FA:2F:74:07:5C:02:5B:64:3A:50:AD:97:C0:45:01:EF:24:22:5E:3B:AC:3C:AD:3E:F8:8C:AA";

/// The program, and a server that answers as the world is.
pub(super) struct Pilot {
    pub(super) model: Model,
    pub(super) world: World,
    terminal: Terminal<TestBackend>,
    /// What the program wanted made.
    pub(super) creates: Vec<(Plan, Stage)>,
    /// What the program wanted of the login and nobody answered.
    pub(super) wishes: Vec<Wish>,
}

impl Pilot {
    /// A program that was just started.
    pub(super) fn at_login(known: Vec<Known>) -> Self {
        let theme = Theme { colours: true };
        let model = Model::new(known, Template::builtin(), Draft::default(), theme);
        let terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        Self { model, world: World::default(), terminal, creates: Vec::new(), wishes: Vec::new() }
    }

    /// A program in which somebody has logged in.
    pub(super) fn in_wizard(world: World) -> Self {
        let mut pilot = Self::at_login(Vec::new());
        pilot.world = world;
        pilot.type_text("pve1.example.org");
        pilot.press("Enter");
        pilot.trusted();
        pilot.send(Message::Reached(Ok(Reached::In("root@pam".to_owned()))));
        pilot.wishes.clear();
        pilot
    }

    /// The server shows a certificate that the system vouches for.
    pub(super) fn trusted(&mut self) {
        self.shows(PIN, true);
        let address = "pve1.example.org".parse().unwrap();
        self.send(Message::Realms(address, Ok(realms())));
    }

    /// The server shows a certificate.
    pub(super) fn shows(&mut self, fingerprint: &str, trusted_by_system: bool) {
        let shown = Shown {
            fingerprint: fingerprint.parse().unwrap(),
            subject: "CN=pve1.example.org, OU=PVE Cluster Node, O=Proxmox VE".to_owned(),
            issuer: "CN=Proxmox Virtual Environment".to_owned(),
            trusted_by_system,
        };
        self.send(Message::Probed("pve1.example.org".parse().unwrap(), Ok(shown)));
    }

    pub(super) fn send(&mut self, message: Message) {
        let effect = update(&mut self.model, message);
        self.act(effect);
    }

    fn act(&mut self, effect: Option<Effect>) {
        match effect {
            Some(Effect::Ask(queries)) => {
                for query in queries {
                    if let Some(found) = self.world.answer(&query) {
                        self.send(Message::Found(query, found));
                    }
                }
            }
            Some(Effect::Create(plan, stage)) => self.creates.push((*plan, stage)),
            Some(Effect::Login(wish)) => self.wishes.push(wish),
            Some(Effect::Suspend) | None => {}
        }
    }

    /// Presses keys, named as in the help: `Down Down Enter Ctrl-R x`.
    pub(super) fn press(&mut self, keys: &str) {
        for name in keys.split(' ') {
            self.send(Message::Key(key(name)));
        }
    }

    pub(super) fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.send(Message::Key(KeyCode::Char(c).into()));
        }
    }

    pub(super) fn resize(&mut self, width: u16, height: u16) {
        self.terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    }

    /// What is on the screen, without what is blank at the ends of lines.
    pub(super) fn screen(&mut self) -> String {
        self.terminal.draw(|frame| view(&self.model, frame)).unwrap();
        let buffer = self.terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let lines = buffer.content.chunks(width).map(|cells| {
            let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
            line.trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// The buffer with its styles.
    pub(super) fn buffer(&mut self) -> ratatui::buffer::Buffer {
        self.terminal.draw(|frame| view(&self.model, frame)).unwrap();
        self.terminal.backend().buffer().clone()
    }
}

fn key(name: &str) -> KeyEvent {
    let (name, modifiers) = match name.strip_prefix("Ctrl-") {
        Some(rest) => (rest, KeyModifiers::CONTROL),
        None => (name, KeyModifiers::NONE),
    };
    let code = match name {
        "Up" => KeyCode::Up,
        "Down" => KeyCode::Down,
        "Tab" => KeyCode::Tab,
        "Home" => KeyCode::Home,
        "End" => KeyCode::End,
        "PgUp" => KeyCode::PageUp,
        "PgDn" => KeyCode::PageDown,
        "Enter" => KeyCode::Enter,
        "Space" => KeyCode::Char(' '),
        "Esc" => KeyCode::Esc,
        "Delete" => KeyCode::Delete,
        "Backspace" => KeyCode::Backspace,
        "F1" => KeyCode::F(1),
        other => KeyCode::Char(other.chars().next().unwrap()),
    };
    KeyEvent::new(code, modifiers)
}
