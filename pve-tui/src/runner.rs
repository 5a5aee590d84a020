//! Does what the model wants done, and tells it what happened. All I/O of the wizard is here.

use std::error::Error as StdError;

use anyhow::Context as _;
use crossterm::event::Event as Input;
use crossterm::event::EventStream;
use crossterm::event::KeyEventKind;
use crossterm::event::MouseButton;
use crossterm::event::MouseEventKind;
use futures_util::StreamExt as _;
use futures_util::future;
use pve_api::Address;
use pve_api::ApiToken;
use pve_api::Challenge;
use pve_api::Client;
use pve_api::Error;
use pve_api::Login;
use pve_api::ProbeError;
use pve_api::Server;
use pve_api::Settings;
use pve_api::Timeouts;
use pve_api::Trust;
use pve_api::probe;
use pve_provision::create;
use pve_provision::create::Found;
use pve_provision::create::Patience;
use pve_provision::create::Plan;
use pve_provision::create::Query;
use pve_provision::create::Stage;
use pve_provision::create::explain;
use secrecy::ExposeSecret as _;
use secrecy::SecretString;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::app::Effect;
use crate::app::Message;
use crate::app::Model;
use crate::app::update;
use crate::drawn::Drawn;
use crate::known;
use crate::login::Kept;
use crate::login::Reached;
use crate::login::Wish;
use crate::profile::Files;
use crate::terminal::Screen;
use crate::view::view;

/// What comes back from outside.
enum Reply {
    Say(Message),
    /// An answer to a question that was asked in that login.
    Found(usize, Query, Result<Found, String>),
    /// A login that is all the way in.
    In(Client, Kept),
    /// A login that waits for its second factor.
    Half(Challenge, Kept),
}

struct Runner {
    files: Files,
    sender: mpsc::UnboundedSender<Reply>,
    /// Questions that are not answered yet.
    loads: JoinSet<()>,
    server: Option<Server>,
    challenge: Option<(Challenge, Kept)>,
    client: Option<Client>,
    /// How often somebody logged in.
    logins: usize,
}

/// Runs the wizard in the terminal until somebody leaves.
pub(crate) async fn run(
    screen: &mut Screen,
    mut model: Model,
    files: Files,
    first: Option<Effect>,
) -> anyhow::Result<()> {
    let (sender, mut replies) = mpsc::unbounded_channel();
    let mut runner = Runner {
        files,
        sender,
        loads: JoinSet::new(),
        server: None,
        challenge: None,
        client: None,
        logins: 0,
    };
    let mut keys = EventStream::new();
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let mut hang_up = listen(SignalKind::hangup())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    if let Some(effect) = first {
        runner.act(screen, effect)?;
    }
    while !model.quit {
        let mut drawn = Drawn::default();
        screen.terminal.draw(|frame| drawn = view(&model, frame))?;
        model.drawn = drawn;
        // Nothing wakes us but these, so nothing is drawn without a change.
        let mut next = tokio::select! {
            _ = hang_up.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            input = keys.next() => match input {
                Some(Ok(input)) => read(input),
                // The terminal is gone.
                Some(Err(_)) | None => return Ok(()),
            },
            Some(_) = runner.loads.join_next() => None,
            Some(reply) = replies.recv() => runner.take(reply),
        };
        // All that came meanwhile is drawn at once.
        while let Some(message) = next {
            if let Some(effect) = update(&mut model, message) {
                runner.act(screen, effect)?;
            }
            next = replies.try_recv().ok().and_then(|reply| runner.take(reply));
        }
    }
    Ok(())
}

fn read(input: Input) -> Option<Message> {
    match input {
        Input::Key(key) if key.kind != KeyEventKind::Release => Some(Message::Key(key)),
        Input::Paste(text) => Some(Message::Paste(text)),
        Input::Resize(..) => Some(Message::Redraw),
        Input::Mouse(mouse) => match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => {
                Some(Message::Click(mouse.column, mouse.row))
            }
            MouseEventKind::ScrollUp => Some(Message::Wheel { up: true }),
            MouseEventKind::ScrollDown => Some(Message::Wheel { up: false }),
            _ => None,
        },
        _ => None,
    }
}

impl Runner {
    /// Takes in what came back; what the model may know of it goes on.
    fn take(&mut self, reply: Reply) -> Option<Message> {
        Some(match reply {
            Reply::Say(message) => message,
            // Another server may have been asked then.
            Reply::Found(login, ..) if login != self.logins => return None,
            Reply::Found(_, query, found) => Message::Found(query, found),
            Reply::Half(challenge, keep) => {
                let factors = challenge.offered().clone();
                self.challenge = Some((challenge, keep));
                Message::Reached(Ok(Reached::Factor(factors)))
            }
            Reply::In(client, keep) => {
                self.loads.abort_all();
                self.challenge = None;
                if let Err(error) = known::remember(&self.files, &keep) {
                    tracing::warn!(%error, "the server could not be remembered");
                }
                let account = client.account();
                self.client = Some(client);
                self.logins += 1;
                Message::Reached(Ok(Reached::In(account)))
            }
        })
    }

    fn act(&mut self, screen: &mut Screen, effect: Effect) -> anyhow::Result<()> {
        match effect {
            Effect::Login(wish) => self.log_in(wish),
            Effect::Ask(queries) => self.ask(queries),
            Effect::Create(plan, stage) => self.create(*plan, stage),
            Effect::Suspend => screen.suspend()?,
        }
        Ok(())
    }

    fn log_in(&mut self, wish: Wish) {
        let sender = self.sender.clone();
        let say = move |reply| drop(sender.send(reply));
        match wish {
            Wish::Probe(addresses) => self.probe(addresses),
            Wish::Realms(addresses, trust) => self.realms(addresses, trust),
            Wish::Password { user, password, keep } => {
                let Some(server) = self.server.clone() else { return };
                tokio::spawn(async move {
                    say(match server.login(&user, &password).await {
                        Ok(Login::Done(client)) => Reply::In(client, keep),
                        Ok(Login::SecondFactor(challenge)) => Reply::Half(challenge, keep),
                        Err(error) => refused(&error, PASSWORD),
                    });
                });
            }
            Wish::Token { token, keep } => {
                let Some(server) = self.server.clone() else { return };
                tokio::spawn(async move { say(try_token(&server, &token, keep).await) });
            }
            Wish::Factor { kind, code } => {
                let Some((challenge, keep)) = self.challenge.clone() else { return };
                tokio::spawn(async move {
                    let code = code.expose_secret();
                    let answer = match &*kind {
                        "totp" => challenge.totp(code).await,
                        "recovery" => challenge.recovery(code).await,
                        _ => challenge.yubico(code).await,
                    };
                    say(match answer {
                        Ok(client) => Reply::In(client, keep),
                        Err(error) => refused(&error, CODE),
                    });
                });
            }
        }
    }

    /// Looks at all certificates side by side.
    fn probe(&mut self, addresses: Vec<Address>) {
        self.server = None;
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let connect = Timeouts::default().connect;
            let shown = future::join_all(addresses.iter().map(|address| async move {
                let shown = probe(address, connect).await;
                shown.map(Into::into).map_err(|error| unreachable(&error))
            }));
            let shown = shown.await;
            let _ = sender.send(Reply::Say(Message::Probed(addresses, shown)));
        });
    }

    fn realms(&mut self, addresses: Vec<Address>, trust: Trust) {
        let sender = self.sender.clone();
        let say = move |message| drop(sender.send(Reply::Say(message)));
        let settings = Settings { addresses, trust, timeouts: Timeouts::default() };
        match Server::new(&settings) {
            Err(error) => say(Message::Realms(settings.addresses, Err(whole(&error)))),
            Ok(server) => {
                self.server = Some(server.clone());
                tokio::spawn(async move {
                    let realms = server.realms().await;
                    let realms = realms.map(|list| list.items).map_err(|error| explain(&error));
                    say(Message::Realms(settings.addresses, realms));
                });
            }
        }
    }

    /// Asks everything side by side.
    fn ask(&mut self, queries: Vec<Query>) {
        let Some(client) = &self.client else { return };
        for query in queries {
            let (client, sender, login) = (client.clone(), self.sender.clone(), self.logins);
            self.loads.spawn(async move {
                let found = create::load(&client, &query).await;
                let _ = sender.send(Reply::Found(login, query, found));
            });
        }
    }

    fn create(&self, plan: Plan, stage: Stage) {
        let Some(client) = self.client.clone() else { return };
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let say = |message| drop(sender.send(Reply::Say(message)));
            let report = |event| say(Message::Event(Box::new(event)));
            let end = create::run(&client, &plan, stage, &Patience::default(), report).await;
            say(Message::Ended(Box::new(end)));
        });
    }
}

const PASSWORD: &str = "not accepted: user, realm or password is wrong, or the account is disabled, \
                        expired or locked; the server does not tell which";
const TOKEN: &str =
    "not accepted: the token's name or secret is wrong, or it is disabled or expired";
const CODE: &str = "not accepted: a code works once, and not for long";

/// A refusal in words by which a person can act.
fn refused(error: &Error, unauthorized: &str) -> Reply {
    let text = match error {
        Error::Unauthorized { .. } => unauthorized.to_owned(),
        Error::NotSent { .. } => format!("the server cannot be reached: {}", explain(error)),
        Error::Untrusted { .. } => format!("nothing was sent: {}", explain(error)),
        _ => explain(error),
    };
    Reply::Say(Message::Reached(Err(text)))
}

/// A token is tried by a call that everybody may make.
async fn try_token(server: &Server, token: &SecretString, keep: Kept) -> Reply {
    let token: ApiToken = match token.expose_secret().trim().parse() {
        Ok(token) => token,
        Err(error) => return Reply::Say(Message::Reached(Err(whole(&error)))),
    };
    let client = server.token(&token);
    match client.version().await {
        Ok(_) => {
            let keep = match client.user() {
                Some(user) => {
                    Kept { user: user.user().to_owned(), realm: user.realm().to_string(), ..keep }
                }
                None => keep,
            };
            Reply::In(client, keep)
        }
        Err(error) => refused(&error, TOKEN),
    }
}

/// Why no certificate could be had.
pub(crate) fn unreachable(error: &ProbeError) -> String {
    let mut cause: &dyn StdError = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let cause = cause.to_string();
    match (error, cause.split_once(" (os error ")) {
        // Which layer of a connection failed is nobody's concern.
        (ProbeError::Connect { .. }, Some((words, _))) => format!("{error}: {words}"),
        (ProbeError::Connect { .. }, None) => format!("{error}: {cause}"),
        _ => whole(error),
    }
}

/// An error with its causes, as one sentence.
fn whole(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}
