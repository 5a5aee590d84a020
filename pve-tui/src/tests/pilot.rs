//! Keys in, screen out: the program without a terminal.

use crossterm::event::KeyCode;
use crossterm::event::KeyEvent;
use crossterm::event::KeyModifiers;
use pve_api::Address;
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
use crate::drawn::Drawn;
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
        let model = Model::new(known, Vec::new(), Template::builtin(), Draft::default(), theme);
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
        self.send(Message::Realms(at("pve1.example.org"), Ok(realms())));
    }

    /// The server shows a certificate.
    pub(super) fn shows(&mut self, fingerprint: &str, trusted_by_system: bool) {
        let shown = shown(fingerprint, trusted_by_system);
        self.send(Message::Probed(at("pve1.example.org"), vec![Ok(shown)]));
    }

    pub(super) fn send(&mut self, message: Message) {
        let effect = update(&mut self.model, message);
        self.act(effect);
        // Before the next key there is always a screen.
        self.draw();
    }

    fn draw(&mut self) {
        let mut drawn = Drawn::default();
        self.terminal.draw(|frame| drawn = view(&self.model, frame)).unwrap();
        self.model.drawn = drawn;
    }

    /// Clicks where a text is on the screen.
    pub(super) fn click(&mut self, text: &str) {
        let screen = self.screen();
        let found = screen.lines().enumerate().find(|(_, line)| line.contains(text));
        let Some((row, line)) = found else { panic!("no {text} on\n{screen}") };
        let column = line[..line.find(text).unwrap()].chars().count();
        let place = |number: usize| u16::try_from(number).unwrap();
        self.send(Message::Click(place(column), place(row)));
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
        self.draw();
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
        self.draw();
        self.terminal.backend().buffer().clone()
    }
}

/// The addresses, written with commas between them.
pub(super) fn at(addresses: &str) -> Vec<Address> {
    addresses.split(',').map(|address| address.parse().unwrap()).collect()
}

/// A certificate that a server shows.
pub(super) fn shown(fingerprint: &str, trusted_by_system: bool) -> Shown {
    Shown {
        fingerprint: fingerprint.parse().unwrap(),
        subject: "CN=pve1.example.org, OU=PVE Cluster Node, O=Proxmox VE".to_owned(),
        issuer: "CN=Proxmox Virtual Environment".to_owned(),
        trusted_by_system,
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
