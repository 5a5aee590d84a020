//! How it behaves everywhere: help, small terminals, colours, pasting, secrets.

use pve_provision::create::Field;
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
    pilot.press("Down ?");
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
    assert_eq!(sheet.answers.text(Field::Name), "web-1");
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
    pilot.press("Down");
    for c in "hunter2".chars() {
        pilot.type_text(&c.to_string());
        assert!(!pilot.screen().contains("hunter2"));
    }
    pilot.press("Tab");
    let screen = pilot.screen();
    assert!(!screen.contains("hunter2") && !screen.contains("*******"), "{screen}");
}

#[test]
fn a_text_that_is_being_typed_is_taken_in_when_somebody_turns_the_page() {
    let mut pilot = Pilot::in_wizard(World::default());
    let name = |pilot: &Pilot| {
        let sheet = &pilot.model.wizard.as_ref().unwrap().sheet;
        sheet.answers.text(Field::Name).to_owned()
    };
    pilot.press("Down Down w e b PgDn");
    assert!(pilot.screen().contains("[OS]"));
    assert_eq!(name(&pilot), "web");
    pilot.press("PgUp Down Down x PgUp");
    assert!(pilot.screen().contains("[Template]"));
    assert_eq!(name(&pilot), "x");
    // What is wrong stays to be mended.
    pilot.press("PgDn Down 7 PgDn");
    assert!(pilot.screen().contains("[General]") && pilot.screen().contains("! "));
    pilot.press("Esc PgDn");
    assert!(pilot.screen().contains("[OS]"));
    // The request and the way back to the login need no text to be ended.
    pilot.press("PgUp Down Down y Ctrl-t");
    assert!(pilot.screen().contains("The request"));
    pilot.press("Esc Enter");
    assert_eq!(name(&pilot), "y");
}

#[test]
fn a_long_text_can_be_read_to_its_end_and_says_how_much_there_is() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("Ctrl-t");
    let mut seen = Vec::new();
    for _ in 0..30 {
        let screen = pilot.screen();
        let lines = screen.lines().skip(1).take(22);
        seen.extend(lines.map(str::to_owned));
        pilot.press("Down");
    }
    assert!(seen.iter().any(|line| line.contains("qm set 105 --serial0 socket --vga serial0")));
    let end = pilot.screen();
    assert!(end.contains("more above") && !end.contains("below"), "{end}");
    // However often somebody went too far, one key goes back.
    pilot.press("PgDn PgDn PgDn");
    assert_eq!(pilot.screen(), end);
    pilot.press("Up");
    assert!(pilot.screen().contains("1 below"), "{}", pilot.screen());
    pilot.press("Home");
    assert!(!pilot.screen().contains("above"), "{}", pilot.screen());
}

#[test]
fn the_mouse_goes_where_it_points_and_does_what_a_key_would() {
    let mut pilot = Pilot::in_wizard(World::default());
    let value = |pilot: &Pilot, field: Field| {
        let sheet = &pilot.model.wizard.as_ref().unwrap().sheet;
        sheet.answers.value(field).to_string()
    };
    pilot.click("Start at boot");
    assert_eq!(value(&pilot, Field::StartAtBoot), "yes");
    pilot.click("Name");
    assert!(pilot.screen().contains(">  Name"));
    pilot.type_text("web");
    // What is typed is taken in by going elsewhere.
    pilot.click(" Disks ");
    assert_eq!(value(&pilot, Field::Name), "web");
    assert!(pilot.screen().contains("[Disks]"));
    pilot.click("Disk 0");
    assert!(pilot.screen().contains("[Disks > 0]"));
    pilot.click("Cache");
    pilot.click("Cache");
    pilot.click("Write back");
    assert!(pilot.screen().contains("Write back"), "{}", pilot.screen());
    assert!(pilot.model.wizard.as_ref().unwrap().form.is_browsing());
    pilot.click(" OS ");
    pilot.click("nixos-minimal");
    pilot.click("nixos-minimal");
    pilot.send(Message::Wheel { up: false });
    assert!(pilot.screen().contains("3 of 3"), "{}", pilot.screen());
    pilot.click("debian-13");
    assert!(value(&pilot, Field::Iso).contains("debian"));
    pilot.send(Message::Wheel { up: true });
    assert!(pilot.screen().contains(">  ISO storage"), "{}", pilot.screen());
    pilot.press("Ctrl-t");
    pilot.send(Message::Wheel { up: false });
    assert!(pilot.screen().contains("3 more above"), "{}", pilot.screen());
    // Nothing below a text can be clicked.
    pilot.click("ostype=l26");
    pilot.press("Esc");
    pilot.click("Confirm");
    pilot.click("[ Create VM ]");
    assert_eq!(pilot.creates.len(), 1);
}

#[test]
fn the_mouse_logs_in_and_chooses_what_is_offered() {
    let mut pilot = Pilot::at_login(Vec::new());
    pilot.type_text("pve1.example.org");
    pilot.press("Enter");
    pilot.trusted();
    pilot.click("Password");
    pilot.type_text("secret");
    pilot.click("User   ");
    pilot.type_text("root");
    pilot.click("[ Log in ]");
    pilot.click("[ Log in ]");
    assert!(matches!(pilot.wishes.last(), Some(crate::login::Wish::Password { .. })));
}

#[test]
fn a_wrong_value_keeps_the_focus_so_that_its_reason_is_read() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("PgDn PgDn PgDn PgDn PgDn PgDn Down Down Down Down");
    pilot.type_text("zz");
    pilot.press("Enter");
    let screen = pilot.screen();
    assert!(
        screen.contains(">! MAC address") && screen.contains("is not a MAC address"),
        "{screen}"
    );
    pilot.press("Enter z Down");
    assert!(pilot.screen().contains(">  Firewall"));
}
