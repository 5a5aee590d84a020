//! Making the VM, and how that can end.

use pve_provision::Event;
use pve_provision::Step;
use pve_provision::create::End;
use pve_provision::create::Failure;
use pve_provision::create::Field;
use pve_provision::create::Remedy;
use pve_provision::create::Stage;
use serde_json::json;

use super::pilot::PIN;
use super::pilot::Pilot;
use super::pilot::at;
use super::pilot::shown;
use super::world::World;
use super::world::read;
use crate::app::Message;
use crate::app::Overlay;
use crate::app::Part;

/// A wizard whose VM is being made.
fn creating() -> Pilot {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("Down Down");
    pilot.type_text("web");
    pilot.press("Enter PgDn PgDn PgDn PgDn PgDn PgDn PgDn Down Down Enter");
    assert_eq!((pilot.model.part, pilot.creates.len()), (Part::Progress, 1));
    pilot
}

fn event(pilot: &mut Pilot, step: Step, kind: &serde_json::Value) {
    let event = json!({
        "number": 0, "time": "2026-01-02T03:04:05Z", "step": step.name(), "kind": kind,
    });
    pilot.send(Message::Event(Box::new(read::<Event>(&event))));
}

fn begun(pilot: &mut Pilot) {
    event(pilot, Step::CheckingPrivileges, &json!({ "started": "comparing privileges" }));
    event(pilot, Step::CheckingPrivileges, &json!({ "done": "root@pam may do all of it" }));
    event(pilot, Step::CreatingThroughApi, &json!({ "started": "creating VM 105 on pve1" }));
    let line = json!({ "line": { "stream": "stdout", "text": "scsi0: successfully created" } });
    event(pilot, Step::CreatingThroughApi, &line);
}

fn failure(step: Step, reason: &str, remedy: Remedy) -> Failure {
    Failure { step, reason: reason.to_owned(), fields: Vec::new(), remedy }
}

fn end(pilot: &mut Pilot, end: End) -> String {
    pilot.send(Message::Ended(Box::new(end)));
    pilot.screen()
}

#[test]
fn the_steps_and_the_log_of_the_task_are_shown_as_they_come() {
    let mut pilot = creating();
    begun(&mut pilot);
    insta::assert_snapshot!("progress-running", pilot.screen());
}

#[test]
fn leaving_meanwhile_says_what_goes_on_without_us() {
    let mut pilot = creating();
    begun(&mut pilot);
    pilot.press("Ctrl-c");
    insta::assert_snapshot!("progress-leave", pilot.screen());
    pilot.press("Esc");
    assert!(!pilot.model.quit && pilot.model.overlay.is_none());
    pilot.press("Ctrl-c Enter");
    assert!(pilot.model.quit);
}

#[test]
fn a_made_vm_is_told_with_its_place_and_its_console() {
    let mut pilot = creating();
    begun(&mut pilot);
    let warnings = vec!["the disk is on a local storage".to_owned()];
    let screen = end(&mut pilot, End::Made { warnings });
    insta::assert_snapshot!("end-made", screen);
}

#[test]
fn another_like_this_keeps_the_answers_and_takes_another_number() {
    let mut pilot = creating();
    end(&mut pilot, End::Made { warnings: Vec::new() });
    pilot.press("Enter");
    assert_eq!(pilot.model.part, Part::Wizard);
    let sheet = &pilot.model.wizard.as_ref().unwrap().sheet;
    assert_eq!(sheet.answers.text(Field::Name), "web");
    assert!(sheet.draft.said(Field::Vmid.into()).is_none());
}

#[test]
fn a_number_that_was_taken_meanwhile_is_exchanged_by_one_key() {
    let mut pilot = creating();
    begun(&mut pilot);
    let remedy = Remedy::TakeNumber(Some("106".parse().unwrap()));
    let reason = "unable to create VM 105: VM 105 already exists on node 'pve2'";
    let failure = failure(Step::CreatingThroughApi, reason, remedy);
    let screen = end(&mut pilot, End::NothingMade(failure));
    insta::assert_snapshot!("end-nothing-made", screen);
    pilot.press("Enter");
    let (plan, stage) = pilot.creates.last().unwrap();
    assert_eq!((plan.vmid().to_string().as_str(), stage), ("106", &Stage::Create));
}

#[test]
fn a_missing_privilege_is_told_with_the_line_that_grants_it() {
    let mut pilot = creating();
    let grants = vec!["pveum acl modify /vms/105 --users ops@pve --roles PVEVMAdmin".to_owned()];
    let reason = "ops@pve lacks VM.Allocate on /vms/105 (for making a VM)";
    let failure = failure(Step::CheckingPrivileges, reason, Remedy::Grant(grants));
    let screen = end(&mut pilot, End::NothingMade(failure));
    insta::assert_snapshot!("end-not-permitted", screen);
}

#[test]
fn a_complaint_about_a_field_leads_there_and_is_told_there() {
    let mut pilot = creating();
    let mut failure =
        failure(Step::CreatingThroughApi, "Parameter verification failed", Remedy::None);
    failure.fields.push((Field::CpuType.into(), "no such model".to_owned()));
    end(&mut pilot, End::NothingMade(failure));
    pilot.press("Enter");
    insta::assert_snapshot!("cpu-complaint", pilot.screen());
    pilot.press("Home Down Down Enter Down Enter");
    assert!(!pilot.screen().contains("the server says"));
}

#[test]
fn a_vm_without_its_console_is_told_as_a_vm_that_exists() {
    let mut pilot = creating();
    begun(&mut pilot);
    let command = "qm set 105 --serial0 socket --vga serial0".to_owned();
    let reason = "PUT /nodes/pve1/qemu/105/config: locked: can't lock file, got timeout";
    let failure = failure(Step::SettingUpConsole, reason, Remedy::Command(command));
    let screen = end(&mut pilot, End::WithoutConsole(failure));
    insta::assert_snapshot!("end-without-console", screen);
    pilot.press("Enter");
    assert_eq!(pilot.creates.last().unwrap().1, Stage::Finish);
}

#[test]
fn a_vm_that_did_not_start_is_told_as_incomplete() {
    let mut pilot = creating();
    begun(&mut pilot);
    let command = "ha-manager add vm:105 --state stopped".to_owned();
    let failures = vec![
        failure(Step::StartingVm, "start failed: no KVM virtualisation", Remedy::None),
        failure(Step::AddingToHa, "not permitted", Remedy::Command(command)),
    ];
    let screen = end(&mut pilot, End::Incomplete(failures));
    insta::assert_snapshot!("end-incomplete", screen);
}

#[test]
fn an_unknown_outcome_is_looked_at_before_anything_is_repeated() {
    let mut pilot = creating();
    begun(&mut pilot);
    let upid = "UPID:pve1:0002B55F:001C58D0:674B1F2A:qmcreate:105:root@pam:".parse().unwrap();
    let failure = failure(Step::CreatingThroughApi, "the task goes on without us", Remedy::None);
    let resume = Stage::Follow(upid);
    let screen = end(&mut pilot, End::Unknown { failure, resume: resume.clone() });
    insta::assert_snapshot!("end-unknown", screen);
    pilot.press("Enter");
    assert_eq!(pilot.creates.last().unwrap().1, resume);
}

#[test]
fn a_vm_that_may_be_there_keeps_its_number_wherever_somebody_logs_in_then() {
    // Before anybody looked whether the number is free, and after.
    for silent in [Vec::new(), vec!["IsFree"]] {
        // Back and in again; or in again at another node, because this one is away.
        for server in ["pve1.example.org", "pve2.example.org"] {
            let mut pilot = creating();
            (pilot.world.next_id, pilot.world.silent) = (106, silent.clone());
            let failure = failure(Step::CreatingThroughApi, "the session has ended", Remedy::LogIn);
            end(&mut pilot, End::Unknown { failure, resume: Stage::Create });
            if server == "pve1.example.org" {
                pilot.press("Down Enter Ctrl-g");
            } else {
                pilot.press("Enter Home");
                pilot.type_text(server);
                pilot.press("Enter");
                pilot.send(Message::Probed(at(server), vec![Ok(shown(PIN, true))]));
            }
            assert_eq!(pilot.model.part, Part::Login);
            let reached = crate::login::Reached::In("root@pam".to_owned());
            pilot.send(Message::Reached(Ok(reached)));
            assert_eq!(pilot.model.part, Part::Wizard);
            // However much is undone.
            for undone in [false, true] {
                if undone {
                    pilot.press("Ctrl-u Ctrl-u");
                }
                let sheet = &pilot.model.wizard.as_ref().unwrap().sheet;
                assert_eq!(sheet.facts.next_id().there().unwrap().get(), 106);
                assert_eq!(sheet.answers.number(Field::Vmid), Some(105));
                assert_eq!(sheet.plan.is_err(), silent.is_empty(), "taken, if that is known");
            }
        }
    }
}

#[test]
fn a_number_that_is_taken_at_once_is_looked_at_when_somebody_is_back() {
    let mut pilot = creating();
    let remedy = Remedy::TakeNumber(Some("106".parse().unwrap()));
    let taken = failure(Step::CreatingThroughApi, "VM 105 already exists", remedy);
    end(&mut pilot, End::NothingMade(taken));
    pilot.press("Enter");
    assert_eq!(pilot.creates.len(), 2);
    pilot.world.next_id = 107;
    let failed = failure(Step::CreatingThroughApi, "no space left", Remedy::None);
    end(&mut pilot, End::NothingMade(failed));
    pilot.press("Down Enter");
    let sheet = &pilot.model.wizard.as_ref().unwrap().sheet;
    assert_eq!(sheet.facts.open().count(), 0, "all that counts as asked was answered");
    let taken = sheet.facts.is_free("106".parse().unwrap()).there();
    assert_eq!((pilot.model.part, taken), (Part::Wizard, Some(&false)));
}

#[test]
fn a_session_that_died_is_taken_up_again_where_it_was() {
    let mut pilot = creating();
    let failure = failure(Step::CreatingThroughApi, "the session has ended", Remedy::LogIn);
    let screen = end(&mut pilot, End::NothingMade(failure));
    insta::assert_snapshot!("end-session", screen);
    pilot.press("Enter");
    assert_eq!(pilot.model.part, Part::Login);
    let reached = crate::login::Reached::In("root@pam".to_owned());
    pilot.send(Message::Reached(Ok(reached)));
    assert_eq!(pilot.model.part, Part::Progress);
    pilot.press("Down Enter");
    assert_eq!(pilot.creates.len(), 2);
}

#[test]
fn leaving_with_answers_asks_first_and_without_does_not() {
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("Ctrl-c");
    assert!(pilot.model.quit);
    let mut pilot = Pilot::in_wizard(World::default());
    pilot.press("Down Down");
    pilot.type_text("web");
    pilot.press("Enter Ctrl-c");
    assert!(matches!(pilot.model.overlay, Some(Overlay::Leave(_))));
}

#[test]
fn a_long_verdict_can_be_read_whole_in_a_small_terminal() {
    let mut pilot = creating();
    begun(&mut pilot);
    let grants: Vec<String> = (0..30)
        .map(|number| format!("pveum acl modify /vms/{number} --users ops@pve --roles PVEVMAdmin"))
        .collect();
    let reason = "ops@pve lacks much";
    let failure = failure(Step::CheckingPrivileges, reason, Remedy::Grant(grants.clone()));
    let screen = end(&mut pilot, End::NothingMade(failure));
    insta::assert_snapshot!("end-long", screen);
    let mut seen = screen;
    for _ in 0..4 {
        pilot.press("PgDn");
        seen += &pilot.screen();
    }
    for grant in &grants {
        assert!(seen.contains(grant), "{grant}");
    }
    let last = pilot.screen();
    assert!(!last.contains("below"), "{last}");
    // The log is above it, and one key goes back however far somebody went.
    pilot.press("PgDn PgDn PgUp");
    assert!(pilot.screen().contains("below"));
    pilot.press("PgUp PgUp PgUp PgUp PgUp PgUp");
    assert!(pilot.screen().contains("[*] comparing privileges"));
    assert!(pilot.screen().contains("[ Try again ]"));
}

#[test]
fn what_comes_is_followed_until_somebody_scrolls_and_again_at_its_end() {
    let mut pilot = creating();
    let say = |pilot: &mut Pilot, number: usize| {
        let text = format!("line {number} of it");
        let line = json!({ "line": { "stream": "stdout", "text": text } });
        event(pilot, Step::CreatingThroughApi, &line);
    };
    for number in 0..100 {
        say(&mut pilot, number);
    }
    assert!(pilot.screen().contains("line 99 of it"));
    pilot.press("Up");
    let before = pilot.screen();
    assert!(!before.contains("line 99 of it") && before.contains("1 below"), "{before}");
    say(&mut pilot, 100);
    assert_eq!(pilot.screen().replace("2 below", "1 below"), before);
    pilot.press("Home");
    assert!(pilot.screen().contains("line 0 of it"));
    pilot.press("PgUp PgUp End");
    say(&mut pilot, 101);
    assert!(pilot.screen().contains("line 101 of it"));
}

#[test]
fn what_was_left_at_one_server_is_not_carried_on_at_another() {
    let failure = || failure(Step::SettingUpConsole, "the session has ended", Remedy::LogIn);
    for (server, part) in [("pve1.example.org", Part::Progress), ("192.0.2.9", Part::Wizard)] {
        let mut pilot = creating();
        end(&mut pilot, End::WithoutConsole(failure()));
        pilot.press("Enter");
        assert_eq!(pilot.model.part, Part::Login);
        if server != "pve1.example.org" {
            pilot.press("Home");
            pilot.type_text(server);
            pilot.press("Enter");
            pilot.send(Message::Probed(at(server), vec![Ok(shown(PIN, true))]));
            // Until somebody is in, it is still the other one.
            assert!(pilot.screen().contains("root@pam at pve1.example.org:8006"));
        }
        let reached = crate::login::Reached::In("root@pam".to_owned());
        pilot.send(Message::Reached(Ok(reached)));
        assert_eq!(pilot.model.part, part, "{server}");
        let screen = pilot.screen();
        assert!(screen.contains(&format!("root@pam at {server}:8006")), "{screen}");
        assert_eq!(screen.contains("[ Try again ]"), part == Part::Progress);
    }
}

#[test]
fn leaving_after_nothing_was_made_asks_before_answers_are_lost() {
    let mut pilot = creating();
    let failed = failure(Step::CreatingThroughApi, "no space left", Remedy::None);
    end(&mut pilot, End::NothingMade(failed));
    pilot.press("Ctrl-c");
    assert!(matches!(pilot.model.overlay, Some(Overlay::Leave(_))) && !pilot.model.quit);
    let mut pilot = creating();
    end(&mut pilot, End::Made { warnings: Vec::new() });
    pilot.press("Ctrl-c");
    assert!(pilot.model.quit);
}

#[test]
fn of_how_far_a_copy_is_only_the_last_word_is_kept() {
    let mut pilot = creating();
    let say = |pilot: &mut Pilot, text: &str| {
        let line = json!({ "line": { "stream": "stdout", "text": text } });
        event(pilot, Step::CreatingThroughApi, &line);
    };
    for text in ["transferred 0.0 B of 1.0 GiB (0.00%)", "transferred 1.0 GiB of 1.0 GiB (100.00%)"]
    {
        say(&mut pilot, text);
    }
    say(&mut pilot, "scsi0: successfully created disk");
    say(&mut pilot, "transferred 0.0 B of 2.0 GiB (0.00%)");
    let screen = pilot.screen();
    assert!(!screen.contains("1.0 GiB (0.00%)"), "{screen}");
    assert!(screen.contains("(100.00%)") && screen.contains("2.0 GiB (0.00%)"), "{screen}");
}
