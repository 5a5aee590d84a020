//! Whatever is logged while the tests run, searched for every secret that they use.

use std::error::Error;
use std::io;
use std::sync::Mutex;
use std::sync::Once;

use percent_encoding::AsciiSet;
use percent_encoding::NON_ALPHANUMERIC;
use percent_encoding::utf8_percent_encode;
use pve_api::CiPassword;
use pve_api::Client;
use pve_api::Create;
use pve_api::Login;
use pve_api::QemuConfig;
use tracing_subscriber::fmt::MakeWriter;

use crate::server::Reply;
use crate::server::Seen;
use crate::server::Server;

pub(crate) const PASSWORD: &str = "correct horse+bättery/staple=&";
pub(crate) const TICKET: &str =
    "PVE:root@pam:6B0D7953::MytZk53BcOknkNmrcEz5k9CDD3Ba2wHvsuEtwT3/RwIW+Q==";
pub(crate) const NEXT_TICKET: &str =
    "PVE:root@pam:6B0D9953::NextZk53BcOknkNmrcEz5k9CDD3Ba2wHvsuEtwT3/RwIW+Q==";
pub(crate) const CSRF: &str = "6B0D7953:8Ru46Pg06ogrQhF6q1sUCauu+JeiyD7n4W6Abc29fGQ";
pub(crate) const HALF_TICKET: &str = "PVE:!tfa!{\"totp\"%3Atrue,\"recovery\"%3A[0,1,2]}:6B0D8E60::KbWInSFLFSt7SrjPP/BiXMjlxkhat3ip8covxBwQeQY+w==";
pub(crate) const CODE: &str = "09182736";
pub(crate) const RECOVERY: &str = "12ab-34cd-56ef-7890";
pub(crate) const TOKEN: &str = "c0ffee00-1234-4321-9999-0123456789ab";
pub(crate) const GUEST_PASSWORD: &str = "guest pässword $6$";

const ALL: [&str; 9] =
    [PASSWORD, TICKET, NEXT_TICKET, CSRF, HALF_TICKET, CODE, RECOVERY, TOKEN, GUEST_PASSWORD];

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Every form in which a secret might show up.
fn forms(secret: &str) -> Vec<String> {
    let percent = utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string();
    let path = utf8_percent_encode(secret, RESERVED).to_string();
    let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let mut forms = vec![
        secret.to_owned(),
        format!("{secret:?}").trim_matches('"').to_owned(),
        percent.to_lowercase(),
        percent,
        path.to_lowercase(),
        path,
        form,
    ];
    // In base64 a text looks different at each of three places; the edges depend on neighbours.
    for shift in 0..3 {
        let mut bytes = vec![0; shift];
        bytes.extend(secret.as_bytes());
        let text = base64(&bytes);
        let text = text.trim_end_matches('=');
        forms.push(text[shift * 2..text.len() - 2].to_owned());
    }
    // The signature of a ticket alone would do.
    if let Some((_, signature)) = secret.split_once("::") {
        forms.push(signature.to_owned());
    }
    forms
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number = three.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
            << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// The secrets that stand in a text.
fn found(text: &str) -> Vec<&'static str> {
    let shown = |secret: &&str| forms(secret).iter().any(|form| text.contains(form.as_str()));
    ALL.iter().filter(|secret| shown(secret)).copied().collect()
}

pub(crate) fn assert_none(text: &str) {
    assert_eq!(found(text), [] as [&str; 0], "in: {text}");
}

/// An error with everything behind it, free of secrets.
pub(crate) fn told(error: &pve_api::Error) -> String {
    assert_none(&format!("{error:?}"));
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    assert_none(&text);
    text
}

/// Where the logs of all tests go.
struct Log {
    /// Lines of this crate and of others that log as it does.
    lines: usize,
    /// Lines of the libraries below: HTTP and TLS.
    below: usize,
    leaks: Vec<String>,
}

impl Log {
    const fn new() -> Mutex<Self> {
        Mutex::new(Self { lines: 0, below: 0, leaks: Vec::new() })
    }

    fn look(&mut self, text: &str) {
        if !found(text).is_empty() {
            self.leaks.push(text.to_owned());
        }
    }
}

static LOG: Mutex<Log> = Log::new();

#[derive(Clone, Copy)]
struct Sink(&'static Mutex<Log>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().unwrap();
        log.lines += 1;
        log.look(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl log::Log for Sink {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let mut log = self.0.lock().unwrap();
        log.below += 1;
        log.look(&format!("{} {}", record.target(), record.args()));
    }

    fn flush(&self) {}
}

fn subscriber(sink: Sink) -> impl tracing::Subscriber + Send + Sync {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(sink)
        .finish()
}

pub(crate) fn watch_logs() {
    static SINK: Sink = Sink(&LOG);
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(subscriber(SINK)).unwrap();
        log::set_logger(&SINK).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
    });
}

pub(crate) fn assert_none_logged() {
    assert_eq!(LOG.lock().unwrap().leaks, [] as [&str; 0]);
}

#[test]
fn a_leak_into_any_log_is_found() {
    static PLANTED: Mutex<Log> = Log::new();
    let sink = Sink(&PLANTED);
    tracing::subscriber::with_default(subscriber(sink), || {
        tracing::trace!(cookie = TICKET, "asking");
        tracing::trace!("asking");
    });
    let below = format!("send: PVEAPIToken=root@pam!ci={TOKEN}");
    for text in ["send", &below] {
        log::Log::log(&sink, &log::Record::builder().args(format_args!("{text}")).build());
    }
    let log = PLANTED.lock().unwrap();
    assert_eq!((log.lines, log.below, log.leaks.len()), (2, 2, 2), "{:?}", log.leaks);
}

#[test]
fn a_planted_leak_is_found_in_every_form() {
    for secret in ALL {
        for form in forms(secret) {
            assert_eq!(found(&format!("cookie <{form}>")), [secret], "{form}");
        }
        let basic = base64(format!("root@pam:{secret}!").as_bytes());
        assert_eq!(found(&basic), [secret]);
    }
    assert_eq!(base64(b"Man"), "TWFu");
    assert_eq!(base64(b"Ma"), "TWE=");
    assert!(found("GET /version PVE:root@pam: 6B0D7953").is_empty());
}

fn everything(seen: &Seen) -> Reply {
    let form = seen.form();
    match (seen.line().as_str(), form.get("password").map(String::as_str)) {
        ("POST /api2/json/access/ticket", Some(PASSWORD)) => {
            Reply::data(&format!(r#"{{"NeedTFA":1,"ticket":{HALF_TICKET:?}}}"#))
        }
        ("POST /api2/json/access/ticket", Some(password)) if password.ends_with(CODE) => {
            Reply::data(&format!(r#"{{"ticket":"{TICKET}","CSRFPreventionToken":"{CSRF}"}}"#))
        }
        ("POST /api2/json/access/ticket", _) => Reply::status(
            401,
            "authentication failure",
            r#"{"data":null,"message":"authentication failure\n"}"#,
        ),
        // A server that repeats what it was sent.
        ("POST /api2/json/nodes/pve1/qemu", _) => Reply::status(
            400,
            "Parameter verification failed.",
            &format!(
                r#"{{"data":null,"errors":{{"cipassword":"got '{GUEST_PASSWORD}'"}},"message":"no {GUEST_PASSWORD}\n"}}"#
            ),
        ),
        ("GET /api2/json/nodes", _) => {
            Reply::status(401, "permission denied - invalid PVE ticket", "")
        }
        _ => Reply::Cut,
    }
}

#[tokio::test]
async fn no_secret_is_logged_or_told_by_an_error() {
    let server = Server::start(everything).await;
    let user = "root@pam".parse().unwrap();
    let Login::SecondFactor(challenge) =
        server.door().login(&user, &PASSWORD.to_owned().into()).await.unwrap()
    else {
        panic!("a second factor is asked for")
    };
    assert_none(&format!("{challenge:?}"));
    told(&challenge.recovery(RECOVERY).await.unwrap_err());
    let session: Client = challenge.totp(CODE).await.unwrap();
    let node = "pve1".parse().unwrap();
    let config = QemuConfig {
        ci_password: Some(CiPassword::Set(GUEST_PASSWORD.to_owned().into())),
        ..QemuConfig::default()
    };
    let machine = Create::new("100".parse().unwrap(), config);
    assert_none(&format!("{machine:?} {:?}", machine.parameters()));
    for client in [session, server.client()] {
        assert_none(&format!("{client:?}"));
        let error = client.node(&node).create(&machine).await.unwrap_err();
        assert!(told(&error).ends_with("refused: no …: cipassword: got '…'"), "{}", told(&error));
        told(&client.version().await.unwrap_err());
        told(&client.cluster().ha().remove(machine.vmid).await.unwrap_err());
        told(&client.nodes().await.unwrap_err());
    }
    let sent = server.seen();
    assert!(
        sent.iter()
            .any(|seen| seen.form().get("cipassword").map(String::as_str) == Some(GUEST_PASSWORD))
    );
    let log = LOG.lock().unwrap();
    assert!(log.lines > 20, "{} lines at trace", log.lines);
    assert!(log.below > 20, "{} lines of what is below", log.below);
    assert_eq!(log.leaks, [] as [&str; 0]);
}
