//! How it behaves everywhere: help, small terminals, colours, pasting, secrets.

use ratatui::style::Color;
use ratatui::style::Modifier;

use super::pilot::Pilot;
use super::world::World;
use crate::app::Message;
use crate::style::Theme;

#[test]
fn the_help_is_the_keymap() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("?");
    insta::assert_snapshot!("help", pilot.screen());
    pilot.press("Esc");
    assert!(!pilot.screen().contains("Esc closes"));
}

#[test]
fn a_question_mark_can_be_typed_into_a_password() {
    let mut pilot = Pilot::at_login(Vec::new());
    pilot.type_text("pve1.example.org");
    pilot.press("Enter");
    pilot.trusted();
    pilot.press("Down Down Down ?");
    assert!(!pilot.screen().contains("Esc closes"));
    pilot.press("F1");
    assert!(pilot.screen().contains("Esc closes"));
}

#[test]
fn a_small_terminal_is_told_plainly_and_loses_nothing() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("Down Down w e b");
    let before = pilot.screen();
    pilot.resize(60, 20);
    pilot.send(Message::Redraw);
    insta::assert_snapshot!("too-small", pilot.screen());
    pilot.resize(80, 24);
    assert_eq!(pilot.screen(), before);
    // Nothing panics, however small it is.
    for (width, height) in [(1, 1), (79, 24), (80, 23), (200, 60)] {
        pilot.resize(width, height);
        pilot.screen();
    }
}

#[test]
fn without_colours_the_same_is_told() {
    let worlds = [World::default(), World::bare(), World::failing(&["Nodes", "Pools"])];
    for world in worlds {
        let mut pilot = Pilot::in_wizard(world);
        let coloured = pilot.screen();
        pilot.model.theme = Theme { colours: false };
        assert_eq!(pilot.screen(), coloured);
        let buffer = pilot.buffer();
        for cell in &buffer.content {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        }
        assert!(buffer.content.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
    }
}

#[test]
fn what_is_pasted_is_typed_as_one_line() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("Down Down");
    pilot.send(Message::Paste("web-1\r\nrm -rf /\n".to_owned()));
    pilot.press("Enter");
    let sheet = &pilot.model.wizard.as_ref().unwrap().sheet;
    assert_eq!(sheet.answers.text(pve_provision::create::Field::Name), "web-1");
}

#[test]
fn a_long_list_is_filtered_and_stays_quick_to_use() {
    let mut world = World::default();
    world.isos.extend((0..2000).map(|number| format!("image-{number:04}.iso")));
    let mut pilot = Pilot::in_wizard(world);
    pilot.press("PgDn Down Down Enter");
    pilot.type_text("image-17");
    insta::assert_snapshot!("os-long-list", pilot.screen());
}

#[test]
fn a_password_is_nowhere_on_the_screen() {
    let mut pilot = Pilot::at_login(Vec::new());
    pilot.type_text("pve1.example.org");
    pilot.press("Enter");
    pilot.trusted();
    pilot.press("Down Down Down");
    for c in "hunter2".chars() {
        pilot.type_text(&c.to_string());
        assert!(!pilot.screen().contains("hunter2"));
    }
    pilot.press("Enter");
    let screen = pilot.screen();
    assert!(!screen.contains("hunter2") && !screen.contains("*******"), "{screen}");
}
