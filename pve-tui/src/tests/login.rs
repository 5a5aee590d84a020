//! The way in.

use pve_api::Factors;
use pve_api::Trust;
use secrecy::ExposeSecret as _;

use super::pilot::PIN;
use super::pilot::Pilot;
use super::pilot::at;
use super::pilot::shown;
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
        addresses: at("pve1.example.org"),
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
    pilot.send(Message::Probed(at("pve1.example.org"), vec![Err(reason)]));
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
        pilot.send(Message::Realms(at("pve1.example.org"), Ok(realms())));
        pilot.type_text("root");
        pilot.press("Enter");
        pilot.type_text("secret?");
        pilot.press("Enter");
        let Some(Wish::Password { user, password, keep }) = pilot.wishes.last() else {
            panic!("no login")
        };
        assert_eq!(user.to_string(), "root@pam");
        assert_eq!(password.expose_secret(), "secret?");
        assert_eq!(keep.pins.len(), pins);
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
    pilot.send(Message::Realms(at("pve1.example.org"), Ok(realms())));
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
fn realms_that_are_not_there_or_could_not_be_had_are_told() {
    let cases = [
        ("login-realms-loading", None),
        ("login-realms-empty", Some(Ok(Vec::new()))),
        ("login-realms-error", Some(Err("GET /access/domains: interrupted".to_owned()))),
    ];
    for (name, answer) in cases {
        let mut pilot = named();
        pilot.shows(PIN, true);
        if let Some(answer) = answer {
            pilot.send(Message::Realms(at("pve1.example.org"), answer));
        }
        pilot.press("Up");
        insta::assert_snapshot!(name, pilot.screen());
    }
}

#[test]
fn a_refused_login_says_so_and_forgets_the_password() {
    let mut pilot = named();
    pilot.trusted();
    pilot.type_text("root@pve");
    pilot.press("Enter");
    pilot.type_text("wrong");
    insta::assert_snapshot!("login-typing", pilot.screen());
    pilot.press("Enter");
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
    pilot.type_text("root");
    pilot.press("Enter");
    pilot.type_text("secret");
    pilot.press("Enter");
    let mut factors = Factors::default();
    (factors.totp, factors.recovery) = (true, Some(vec![0, 3]));
    pilot.send(Message::Reached(Ok(Reached::Factor(factors))));
    insta::assert_snapshot!("login-factor", pilot.screen());
    pilot.type_text("123456");
    // Going on is not yet answering.
    pilot.press("Tab");
    assert!(!pilot.wishes.iter().any(|wish| matches!(wish, Wish::Factor { .. })));
    pilot.press("Enter");
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
    pilot.press("Enter");
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

#[test]
fn going_to_the_login_and_leaving_there_asks_before_answers_are_lost() {
    let mut pilot = Pilot::in_wizard(super::world::World::default());
    pilot.press("Down Down");
    pilot.type_text("web");
    pilot.press("Enter Ctrl-g Ctrl-c");
    assert!(!pilot.model.quit);
    assert!(pilot.screen().contains("What was said is not kept."), "{}", pilot.screen());
    pilot.press("Esc Esc");
    assert_eq!(pilot.model.part, Part::Wizard);
    assert!(pilot.screen().contains("web"));
}

#[test]
fn a_secret_is_taken_as_it_is_typed_or_pasted() {
    let secret = |pilot: &mut Pilot| {
        pilot.press("Enter");
        let Some(Wish::Password { password, .. }) = pilot.wishes.pop() else { panic!("no login") };
        password.expose_secret().to_owned()
    };
    let begin = || {
        let mut pilot = named();
        pilot.trusted();
        pilot.type_text("root");
        pilot.press("Enter");
        pilot
    };
    for typed in [" pass", "?x", "  ", " a b ", "n", "\u{e9}\u{4e2d} "] {
        let mut pilot = begin();
        pilot.type_text(typed);
        assert_eq!(secret(&mut pilot), typed);
    }
    for (pasted, taken) in [
        (" a b ", " a b "),
        ("\tx\n", "\tx"),
        ("x\r\n", "x"),
        ("x \r", "x "),
        ("one\ntwo\n", "one\ntwo"),
        ("\u{1b}x", "\u{1b}x"),
    ] {
        let mut pilot = begin();
        pilot.send(Message::Paste(pasted.to_owned()));
        assert_eq!(secret(&mut pilot), taken);
        // Into what is being typed, too.
        let mut pilot = begin();
        pilot.type_text(" ");
        pilot.send(Message::Paste(pasted.to_owned()));
        assert_eq!(secret(&mut pilot), format!(" {taken}"));
    }
}

#[test]
fn an_account_may_be_typed_whole_whatever_became_of_the_realms() {
    let refused = || Err("not reachable".to_owned());
    let account = |typed: &str, before: bool, answer: Result<Vec<_>, String>| {
        let mut pilot = named();
        pilot.shows(PIN, true);
        if before {
            pilot.send(Message::Realms(at("pve1.example.org"), answer));
            pilot.type_text(typed);
            pilot.press("Enter");
        } else {
            pilot.type_text(typed);
            pilot.press("Enter");
            pilot.send(Message::Realms(at("pve1.example.org"), answer));
            // Who logs in where is on the screen before anything is sent.
            let screen = pilot.screen();
            assert!(!screen.contains("@pve") && !screen.contains("@pam"), "{screen}");
        }
        pilot.type_text("secret");
        pilot.press("Enter");
        let Some(Wish::Password { user, .. }) = pilot.wishes.pop() else { panic!("no login") };
        user.to_string()
    };
    for before in [true, false] {
        assert_eq!(account("root@pam", before, refused()), "root@pam");
        assert_eq!(account("ops@pve", before, refused()), "ops@pve");
        assert_eq!(account("root", before, refused()), "root@pam");
        assert_eq!(account("root@pam", before, Ok(realms())), "root@pam");
        assert_eq!(account("ops@pve", before, Ok(realms())), "ops@pve");
        // No realm: a part of the name, as directories have them.
        assert_eq!(account("ops@example.org", before, Ok(realms())), "ops@example.org@pam");
        assert_eq!(account("root@pam", before, Ok(Vec::new())), "root@pam");
        assert_eq!(account("root", before, Ok(Vec::new())), "root@pam");
    }
}

#[test]
fn of_several_addresses_each_certificate_is_asked_about_and_those_that_answer_come_first() {
    const OTHER: &str = "AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB";
    let three = "pve1.example.org,pve2.example.org,pve3.example.org";
    let mut pilot = Pilot::at_login(Vec::new());
    pilot.type_text(three);
    pilot.press("Enter");
    assert!(matches!(&*pilot.wishes, [Wish::Probe(addresses)] if *addresses == at(three)));
    let away = Err("cannot connect to pve1.example.org:8006: connection refused".to_owned());
    let answers = vec![away, Ok(shown(PIN, false)), Ok(shown(OTHER, false))];
    pilot.send(Message::Probed(at(three), answers));
    assert!(pilot.screen().contains("pve2.example.org:8006 (then 1 more)"), "{}", pilot.screen());
    pilot.press("Down Enter");
    let screen = pilot.screen();
    assert!(screen.contains("pve3.example.org:8006") && screen.contains("AB:AB"), "{screen}");
    assert!(screen.contains(">  [ Refuse ]") && pilot.wishes.len() == 1, "{screen}");
    pilot.press("Down Down Enter");
    let Some(Wish::Realms(addresses, trust)) = pilot.wishes.pop() else {
        panic!("no realms asked")
    };
    assert_eq!(addresses, at("pve2.example.org,pve3.example.org,pve1.example.org"));
    assert_eq!(trust, Trust::Fingerprints(vec![PIN.parse().unwrap(), OTHER.parse().unwrap()]));
    pilot.send(Message::Realms(addresses, Ok(realms())));
    pilot.press("Home");
    insta::assert_snapshot!("login-several", pilot.screen());
    pilot.press("End Up Up");
    pilot.type_text("root");
    pilot.press("Enter x Enter");
    let Some(Wish::Password { keep, .. }) = pilot.wishes.pop() else { panic!("no login") };
    assert_eq!(keep.pins, [(at(three)[2].clone(), OTHER.parse().unwrap())]);
}

#[test]
fn a_certificate_stays_with_its_address_however_many_answers_are_on_their_way() {
    let other = "AB".repeat(32);
    let two = "pve1.example.org,pve2.example.org";
    let mut pilot = Pilot::at_login(Vec::new());
    pilot.type_text(two);
    pilot.press("Enter Home Ctrl-r");
    assert!(matches!(&*pilot.wishes, [Wish::Probe(_), Wish::Probe(_)]));
    let away = || Err("cannot connect to pve1.example.org:8006: connection refused".to_owned());
    pilot.send(Message::Probed(at(two), vec![away(), Ok(shown(PIN, false))]));
    assert!(pilot.screen().contains("pve2.example.org:8006"), "{}", pilot.screen());
    // The first one is there meanwhile.
    let answers = vec![Ok(shown(&other, false)), Ok(shown(PIN, false))];
    pilot.send(Message::Probed(at(two), answers));
    let screen = pilot.screen();
    assert!(screen.contains("pve1.example.org:8006") && screen.contains("AB:AB"), "{screen}");
    pilot.press("End Enter End Enter");
    pilot.type_text("root");
    pilot.press("Enter x Enter");
    let Some(Wish::Password { keep, .. }) = pilot.wishes.pop() else { panic!("no login") };
    let pins = [other.parse().unwrap(), PIN.parse().unwrap()];
    assert_eq!(keep.pins, at(two).into_iter().zip(pins).collect::<Vec<_>>());
}

#[test]
fn what_is_remembered_holds_at_once_and_is_kept_by_the_login_that_follows() {
    let other = "AB".repeat(32);
    let begin = |keys: &str| {
        let mut pilot = named();
        pilot.shows(PIN, false);
        pilot.press(keys);
        pilot.press("Home Ctrl-r");
        pilot
    };
    let mut pilot = begin("End Enter");
    pilot.shows(&other, true);
    assert!(pilot.screen().contains("REFUSED"), "{}", pilot.screen());
    assert!(matches!(pilot.wishes.last(), Some(Wish::Probe(_))), "nothing but a look was sent");
    // At another server meanwhile.
    let mut pilot = begin("End Enter");
    pilot.shows(PIN, false);
    for (server, pins) in [("192.0.2.9", 0), ("pve1.example.org", 1)] {
        pilot.press("Home");
        pilot.type_text(server);
        pilot.press("Enter");
        let certificate = shown(PIN, server == "192.0.2.9");
        pilot.send(Message::Probed(at(server), vec![Ok(certificate)]));
        pilot.press("End Up Up");
        pilot.type_text("root");
        pilot.press("Enter x Enter");
        let Some(Wish::Password { keep, .. }) = pilot.wishes.pop() else {
            panic!("no login: {}", pilot.screen())
        };
        assert_eq!((keep.addresses, keep.pins.len()), (at(server), pins));
        pilot.send(Message::Reached(Err("not accepted".to_owned())));
    }
    // What was accepted once is asked about again.
    let mut pilot = begin("Down Enter");
    pilot.shows(PIN, false);
    assert!(pilot.screen().contains("[ Remember ]"), "{}", pilot.screen());
}

#[test]
fn an_account_that_is_typed_whole_waits_for_the_realms() {
    for (answer, whole) in [(Ok(realms()), "ops@pve"), (Err("away".to_owned()), "ops@pve")] {
        let mut pilot = named();
        pilot.shows(PIN, true);
        pilot.type_text("ops@pve");
        pilot.press("Enter x Enter");
        assert!(!pilot.wishes.iter().any(|wish| matches!(wish, Wish::Password { .. })));
        let screen = pilot.screen();
        assert!(screen.contains("the realms are still being asked for"), "{screen}");
        pilot.send(Message::Realms(at("pve1.example.org"), answer));
        assert!(!pilot.screen().contains("still being asked for"), "{}", pilot.screen());
        // The password was not lost.
        pilot.press("Enter");
        let Some(Wish::Password { user, .. }) = pilot.wishes.pop() else { panic!("no login") };
        assert_eq!(user.to_string(), whole);
    }
}

#[test]
fn one_changed_certificate_among_several_refuses_them_all() {
    let pins = vec![(at("pve2.example.org")[0].clone(), "AB".repeat(32).parse().unwrap())];
    let mut pilot = Pilot::at_login(Vec::new());
    pilot.model.login = crate::login::Login::new(Vec::new(), pins);
    pilot.type_text("pve1.example.org,pve2.example.org");
    pilot.press("Enter");
    let answers = vec![Ok(shown(PIN, false)), Ok(shown(PIN, true))];
    pilot.send(Message::Probed(at("pve1.example.org,pve2.example.org"), answers));
    let screen = pilot.screen();
    assert!(screen.contains("REFUSED") && screen.contains("pve2.example.org:8006"), "{screen}");
}

#[test]
fn what_was_typed_is_what_is_taken_unless_somebody_moved() {
    let begin = || Pilot::at_login(vec![Known { addresses: at("192.0.2.11"), ..known(PIN) }]);
    let asked = |pilot: &mut Pilot| {
        let Some(Wish::Probe(addresses)) = pilot.wishes.pop() else { panic!("no server") };
        addresses
    };
    let mut pilot = begin();
    pilot.type_text("192.0.2.1");
    assert!(pilot.screen().contains("> take '192.0.2.1' as it is"), "{}", pilot.screen());
    pilot.press("Enter");
    assert_eq!(asked(&mut pilot), at("192.0.2.1"));
    let mut pilot = begin();
    pilot.type_text("192.0.2.1");
    pilot.press("Down Enter");
    assert_eq!(asked(&mut pilot), at("192.0.2.11"));
    // What is exactly so, wherever it stands among what fits.
    let other = |address| Known { name: String::new(), addresses: at(address), ..known(PIN) };
    let mut pilot = Pilot::at_login(vec![other("192.0.2.1:80"), other("192.0.2.1:8")]);
    pilot.type_text("192.0.2.1:8");
    assert!(pilot.screen().contains("> 192.0.2.1:8 "), "{}", pilot.screen());
    pilot.press("Enter");
    assert_eq!(asked(&mut pilot), at("192.0.2.1:8"));
    // By its name, and by its address.
    for typed in ["lab", "192.0.2.11:8006"] {
        let mut pilot = begin();
        pilot.type_text(typed);
        pilot.press("Enter");
        assert_eq!(asked(&mut pilot), at("192.0.2.11"));
    }
}
