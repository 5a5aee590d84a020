//! The wizard's real binary in a terminal, against the simulated cluster.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use pve_e2e::programs::program;
use pve_e2e::wizard;
use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::sim::Fault;
use pve_sim::sim::FaultAnswer;
use pve_sim::world::access::Totp;

#[path = "../../../../pve-tui/tests/it/pty.rs"]
#[expect(dead_code, reason = "it serves other tests, too")]
mod pty;

use pty::Pty;
use pty::is_given_back;

const ENTER: &str = "\r";
const DOWN: &str = "\x1b[B";
const PAGE_DOWN: &str = "\x1b[6~";
const CTRL_C: &str = "\x03";
const PASSWORD: &str = "simulated";

fn wizard_on(sim: &Sim) -> Pty {
    let url = sim.https_url().unwrap();
    Pty::start(program("pve-tui").unwrap(), &["--server", &url], &[])
}

/// Accepts the certificate for good.
fn trust(pty: &mut Pty, sim: &Sim) {
    pty.until_text("SHA-256 fingerprint");
    let fingerprint = sim.fingerprint();
    let (first, second) = fingerprint.split_at(48);
    pty.until_text(first);
    pty.until_text(second);
    pty.press(&format!("{DOWN}{DOWN}{ENTER}"));
    pty.until_text("pam (the node's own accounts)");
}

fn log_in(pty: &mut Pty, account: &str) {
    pty.press(&format!("{account}{ENTER}{PASSWORD}{ENTER}"));
}

/// From General to the button that creates.
fn to_the_button(pty: &mut Pty) {
    for screen in ["[OS", "[System", "[Disks", "[CPU", "[Memory", "[Network", "[Confirm"] {
        pty.press(PAGE_DOWN);
        pty.until_text(screen);
    }
    pty.press(&format!("{DOWN}{DOWN}"));
    pty.until_text("VM 100 on pve1");
}

fn configuration(sim: &Sim, name: &str) -> Option<String> {
    sim.world(|world| world.guests.get(&100)?.configuration.get(name).map(str::to_owned))
}

/// All files below a directory, as text.
fn texts(directory: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all += &texts(&path);
        } else {
            all += &fs::read_to_string(path).unwrap();
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_is_made_by_pressing_keys_and_the_terminal_is_given_back() {
    let sim = wizard::cluster(Config::default()).await.unwrap();
    tokio::task::block_in_place(|| {
        let mut pty = wizard_on(&sim);
        trust(&mut pty, &sim);
        log_in(&mut pty, "root");
        pty.until_text("[General]");
        to_the_button(&mut pty);
        pty.press(ENTER);
        pty.until_text("[+] The VM is made.");
        pty.until_text("console=kvm&xtermjs=1&vmid=100&node=pve1");
        assert_eq!(configuration(&sim, "serial0").as_deref(), Some("socket"));
        assert_eq!(configuration(&sim, "vga").as_deref(), Some("serial0"));
        assert!(configuration(&sim, "ide2").unwrap().contains(wizard::ISO));
        pty.press(CTRL_C);
        assert_eq!(pty.end(), 0);
        assert!(is_given_back(pty.screen()));
        let written = String::from_utf8_lossy(&pty.written).into_owned();
        let kept = texts(pty.home.path());
        assert!(!written.contains(PASSWORD) && !kept.contains(PASSWORD));
        assert!(kept.contains(&sim.fingerprint()) && kept.contains("root@pam"), "{kept}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_away_is_passed_over_for_another_of_its_cluster() {
    let sim = wizard::cluster(Config::default()).await.unwrap();
    let url = sim.https_url().unwrap();
    let address = url.trim_start_matches("https://");
    tokio::task::block_in_place(|| {
        // Nobody listens at the first one.
        let servers = format!("127.0.0.1:1,{address}");
        let mut pty = Pty::start(program("pve-tui").unwrap(), &["--server", &servers], &[]);
        trust(&mut pty, &sim);
        log_in(&mut pty, "root");
        pty.until_text("[General]");
        pty.until_text(&format!("root@pam at {address}"));
        pty.until_text("pve1");
        pty.press(CTRL_C);
        assert_eq!(pty.end(), 0);
        let kept = texts(pty.home.path());
        assert!(kept.contains(&format!("{address},127.0.0.1:1 root@pam")), "{kept}");
        assert!(kept.contains(&format!("{address} {}", sim.fingerprint())), "{kept}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_second_factor_a_console_that_failed_is_set_by_trying_again() {
    let config = Config::default();
    let careful = config.accounts.iter().find(|account| account.totp.is_some()).unwrap().clone();
    let sim = wizard::cluster(config).await.unwrap();
    let answer = FaultAnswer::Answer {
        status: 500,
        text: "unable to write the configuration".to_owned(),
        errors: std::collections::BTreeMap::new(),
    };
    sim.faults().add(Fault::once("^PUT /nodes/pve1/qemu/100/config", answer));
    tokio::task::block_in_place(|| {
        let mut pty = wizard_on(&sim);
        trust(&mut pty, &sim);
        log_in(&mut pty, &careful.user);
        pty.until_text("Second factor");
        let totp = Totp::new(careful.totp.as_deref().unwrap()).unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        pty.press(&format!("{}{ENTER}", totp.code(totp.step(now))));
        pty.until_text("[General]");
        to_the_button(&mut pty);
        pty.press(ENTER);
        pty.until_text("but its serial console could not be set up");
        pty.until_text("qm set 100 --serial0 socket --vga serial0");
        assert_eq!(configuration(&sim, "serial0"), None);
        pty.press(ENTER);
        pty.until_text("[+] The VM is made.");
        assert_eq!(configuration(&sim, "serial0").as_deref(), Some("socket"));
        pty.press(CTRL_C);
        assert_eq!(pty.end(), 0);
    });
}
