//! The way in.

use pve_api::Factors;
use pve_api::Trust;
use secrecy::ExposeSecret as _;

use super::pilot::PIN;
use super::pilot::Pilot;
use super::world::realms;
use crate::app::Message;
use crate::app::Part;
use crate::login::Known;
use crate::login::Reached;
use crate::login::Wish;

fn known(pin: &str) -> Known {
    Known {
        name: "lab".to_owned(),
        authority: None,
        address: "pve1.example.org".parse().unwrap(),
        pins: vec![pin.parse().unwrap()],
        user: "ops".to_owned(),
        realm: "pve".to_owned(),
    }
}

fn named() -> Pilot {
    let mut pilot = Pilot::at_login(Vec::new());
    pilot.type_text("pve1.example.org");
    pilot.press("Enter");
    pilot
}

#[test]
fn the_login_begins_with_the_server() {
    let mut pilot = Pilot::at_login(Vec::new());
    insta::assert_snapshot!("login-default", pilot.screen());
    pilot.type_text("pve1.example.org");
    pilot.press("Enter");
    insta::assert_snapshot!("login-loading", pilot.screen());
    assert!(matches!(pilot.wishes.as_slice(), [Wish::Probe(_)]));
}

#[test]
fn a_server_that_cannot_be_reached_is_told_with_its_reason() {
    let mut pilot = named();
    let reason = "cannot connect to pve1.example.org:8006: connection refused".to_owned();
    pilot.send(Message::Probed("pve1.example.org".parse().unwrap(), Err(reason)));
    insta::assert_snapshot!("login-error", pilot.screen());
    pilot.press("Ctrl-r");
    assert!(matches!(pilot.wishes.last(), Some(Wish::Probe(_))));
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_shown_and_the_focus_is_on_refusing() {
    let mut pilot = named();
    pilot.shows(PIN, false);
    insta::assert_snapshot!("login-certificate", pilot.screen());
    pilot.press("Enter");
    assert!(pilot.screen().contains("its certificate was refused"));
    assert_eq!(pilot.wishes.len(), 1, "nothing but the probe was sent");
}

#[test]
fn an_accepted_certificate_is_pinned_and_remembered_only_if_so_chosen() {
    for (keys, pins) in [("Down Enter", 0), ("Down Down Enter", 1)] {
        let mut pilot = named();
        pilot.shows(PIN, false);
        pilot.press(keys);
        let Some(Wish::Realms(_, trust)) = pilot.wishes.last() else { panic!("no realms asked") };
        assert_eq!(*trust, Trust::Fingerprints(vec![PIN.parse().unwrap()]));
        let address = "pve1.example.org".parse().unwrap();
        pilot.send(Message::Realms(address, Ok(realms())));
        pilot.press("Down Down");
        pilot.type_text("root");
        pilot.press("Enter");
        pilot.type_text("secret?");
        pilot.press("Enter Enter");
        let Some(Wish::Password { user, password, keep }) = pilot.wishes.last() else {
            panic!("no login")
        };
        assert_eq!(user.to_string(), "root@pam");
        assert_eq!(password.expose_secret(), "secret?");
        assert_eq!(keep.pin.iter().count(), pins);
    }
}

#[test]
fn a_changed_certificate_is_refused_without_a_way_around() {
    let mut pilot = Pilot::at_login(vec![known(&"AB".repeat(32))]);
    pilot.press("Enter Enter");
    pilot.shows(PIN, true);
    insta::assert_snapshot!("login-changed", pilot.screen());
    pilot.press("Up Up Enter End Enter");
    assert!(matches!(pilot.wishes.as_slice(), [Wish::Probe(_)]));
}

#[test]
fn a_remembered_certificate_needs_no_question_and_the_account_is_remembered() {
    let mut pilot = Pilot::at_login(vec![known(PIN)]);
    pilot.press("Enter");
    insta::assert_snapshot!("login-servers", pilot.screen());
    pilot.press("Enter");
    pilot.shows(PIN, false);
    let address = "pve1.example.org".parse().unwrap();
    pilot.send(Message::Realms(address, Ok(realms())));
    let screen = pilot.screen();
    assert!(screen.contains("ops") && screen.contains("pve (Proxmox VE's accounts)"), "{screen}");
}

#[test]
fn pam_is_preselected_and_a_realm_that_needs_a_browser_cannot_be_taken() {
    let mut pilot = named();
    pilot.trusted();
    pilot.press("Home Down Down");
    assert!(pilot.screen().contains("pam (the node's own accounts)"));
    pilot.press("Enter End Enter");
    insta::assert_snapshot!("login-realms", pilot.screen());
}

#[test]
fn a_refused_login_says_so_and_forgets_the_password() {
    let mut pilot = named();
    pilot.trusted();
    pilot.press("Down Down");
    pilot.type_text("root@pve");
    pilot.press("Enter");
    pilot.type_text("wrong");
    insta::assert_snapshot!("login-typing", pilot.screen());
    pilot.press("Enter Enter");
    insta::assert_snapshot!("login-busy", pilot.screen());
    let Some(Wish::Password { user, .. }) = pilot.wishes.last() else { panic!("no login") };
    assert_eq!(user.to_string(), "root@pve");
    pilot.send(Message::Reached(Err("not accepted".to_owned())));
    insta::assert_snapshot!("login-refused", pilot.screen());
    pilot.press("End Enter");
    assert!(pilot.screen().contains("the password is missing"));
}

#[test]
fn a_second_factor_is_asked_for_and_answered() {
    let mut pilot = named();
    pilot.trusted();
    pilot.press("Down Down");
    pilot.type_text("root");
    pilot.press("Enter");
    pilot.type_text("secret");
    pilot.press("Enter Enter");
    let mut factors = Factors::default();
    (factors.totp, factors.recovery) = (true, Some(vec![0, 3]));
    pilot.send(Message::Reached(Ok(Reached::Factor(factors))));
    insta::assert_snapshot!("login-factor", pilot.screen());
    pilot.type_text("123456");
    pilot.press("Enter Enter");
    let Some(Wish::Factor { kind, code }) = pilot.wishes.last() else { panic!("no answer") };
    assert_eq!((kind.as_str(), code.expose_secret()), ("totp", "123456"));
    pilot.send(Message::Reached(Err("the code was not accepted".to_owned())));
    assert!(pilot.screen().contains("! the code was not accepted"));
    pilot.send(Message::Reached(Ok(Reached::In("root@pam".to_owned()))));
    assert_eq!(pilot.model.part, Part::Wizard);
}

#[test]
fn an_account_whose_factors_need_a_browser_is_told_what_to_do() {
    let mut pilot = named();
    pilot.trusted();
    let mut factors = Factors::default();
    factors.webauthn = true;
    pilot.send(Message::Reached(Ok(Reached::Factor(factors))));
    insta::assert_snapshot!("login-browser", pilot.screen());
}

#[test]
fn a_token_is_an_alternative() {
    let mut pilot = named();
    pilot.trusted();
    pilot.press("Home Down Enter End Enter");
    insta::assert_snapshot!("login-token", pilot.screen());
    pilot.press("Down");
    pilot.type_text("ops@pve!ci=x?");
    pilot.press("Enter Enter");
    let Some(Wish::Token { token, .. }) = pilot.wishes.last() else { panic!("no token") };
    assert_eq!(token.expose_secret(), "ops@pve!ci=x?");
    assert!(!pilot.screen().contains("x?"));
}

#[test]
fn logging_in_anew_loses_nothing_that_was_said() {
    let mut pilot = Pilot::in_wizard(super::world::World::default());
    pilot.press("Down Down");
    pilot.type_text("web");
    pilot.press("Enter Ctrl-g");
    assert_eq!(pilot.model.part, Part::Login);
    pilot.press("Esc");
    assert_eq!(pilot.model.part, Part::Wizard);
    pilot.press("Ctrl-g");
    pilot.send(Message::Reached(Ok(Reached::In("root@pam".to_owned()))));
    assert_eq!(pilot.model.part, Part::Wizard);
    assert!(pilot.screen().contains("web"));
}
