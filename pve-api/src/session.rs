//! A ticket and its renewal: before half of its life, once for all callers, by the ticket itself.
//!
//! A renewal that fails is told to all who waited for it, and is not asked again for each. As long
//! as the server takes the ticket, that it cannot be renewed stops nobody.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::SystemTime;

use http::HeaderValue;
use percent_encoding::utf8_percent_encode;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use thiserror::Error;
use tokio::time::Instant;

use crate::endpoint;
use crate::error::Call;
use crate::error::Error;
use crate::error::Result;
use crate::id::UserId;
use crate::login;
use crate::login::Granted;
use crate::login::Outcome;
use crate::request::RESERVED;
use crate::request::Request;
use crate::transport::Credential;
use crate::transport::Transport;

/// A ticket as the server granted it.
struct Ticket {
    /// Counts the tickets of a session, so that a caller can say which one was refused.
    number: u64,
    text: SecretString,
    credential: Credential,
    /// Stands still while a laptop sleeps …
    since: Instant,
    /// … and this one jumps when somebody sets the clock: the greater age counts.
    since_clock: SystemTime,
}

impl Ticket {
    fn new(number: u64, granted: &Granted) -> Option<Self> {
        Some(Self {
            number,
            text: granted.ticket.clone(),
            credential: Credential::Ticket {
                cookie: cookie(&granted.ticket)?,
                csrf: secret_header(granted.csrf.expose_secret())?,
            },
            since: Instant::now(),
            since_clock: SystemTime::now(),
        })
    }

    fn age(&self) -> Duration {
        self.since.elapsed().max(self.since_clock.elapsed().unwrap_or_default())
    }
}

fn cookie(ticket: &SecretString) -> Option<HeaderValue> {
    let escaped = utf8_percent_encode(ticket.expose_secret(), RESERVED);
    secret_header(&format!("PVEAuthCookie={escaped}"))
}

/// A header that no log shows.
pub(crate) fn secret_header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// After a renewal that failed, an old ticket is used for so long before the next one.
const REST: Duration = Duration::from_secs(30);

/// What is asked with: the headers, and what was known when they were handed out.
pub(crate) struct Pass {
    pub(crate) credential: Credential,
    ticket: Arc<Ticket>,
    /// How many renewals had ended by then.
    renewals: u64,
}

/// What all callers know of the ticket.
struct State {
    ticket: Arc<Ticket>,
    /// How many renewals have ended, well or not.
    renewals: u64,
    /// When and why the last renewal of this ticket failed.
    failed: Option<(Instant, Failure)>,
    /// Whether the server has refused both the ticket and its renewal.
    dead: bool,
}

/// Why a ticket could not be renewed.
#[derive(Debug, Clone)]
enum Failure {
    /// The server does not want to. It is not asked again: each refusal takes three seconds.
    Refused,
    /// It was not to be had for now.
    Broke(Arc<Error>),
}

/// One failure for all who waited for the same renewal.
#[derive(Debug, Error)]
#[error("the session could not be renewed")]
struct NotRenewed(#[source] Arc<Error>);

impl Failure {
    /// What it means to a request that needed the renewal: it was not carried out.
    fn told(self, call: &Call) -> Error {
        let call = call.clone();
        match self {
            Self::Refused => Error::NeedsLogin { call },
            Self::Broke(error) => match &*error {
                Error::Untrusted { certificate, reason, .. } => Error::Untrusted {
                    call,
                    certificate: certificate.clone(),
                    reason: reason.clone(),
                },
                _ => Error::NotSent { call, source: Box::new(NotRenewed(error)) },
            },
        }
    }
}

/// A login that all clones of a client share.
pub(crate) struct Session {
    user: UserId,
    state: Mutex<State>,
    /// Held during a renewal.
    turn: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Session {
    /// A session from a fresh ticket; `None` if the ticket cannot be put into a header.
    pub(crate) fn new(user: UserId, granted: &Granted) -> Option<Self> {
        let ticket = Arc::new(Ticket::new(0, granted)?);
        let state = State { ticket, renewals: 0, failed: None, dead: false };
        Some(Self { user, state: Mutex::new(state), turn: tokio::sync::Mutex::new(()) })
    }

    pub(crate) fn user(&self) -> &UserId {
        &self.user
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self) -> Pass {
        let state = self.state();
        Pass {
            credential: state.ticket.credential.clone(),
            ticket: Arc::clone(&state.ticket),
            renewals: state.renewals,
        }
    }

    /// Takes over the ticket of another session of the same account.
    pub(crate) fn adopt(&self, other: &Self) -> bool {
        if self.user != other.user {
            return false;
        }
        let fresh = Arc::clone(&other.state().ticket);
        let mut state = self.state();
        let ticket = Ticket {
            number: state.ticket.number + 1,
            text: fresh.text.clone(),
            credential: fresh.credential.clone(),
            since: fresh.since,
            since_clock: fresh.since_clock,
        };
        *state =
            State { ticket: Arc::new(ticket), renewals: state.renewals, failed: None, dead: false };
        true
    }

    /// The headers to use now; renews a ticket that is older than `fresh` first.
    pub(crate) async fn pass_for(
        &self,
        transport: &Transport,
        call: &Call,
        fresh: Duration,
    ) -> Result<Pass> {
        let pass = self.pass();
        let expired = pass.ticket.age() >= transport.timeouts.ticket_life;
        let due = {
            let state = self.state();
            if state.dead {
                return Err(Failure::Refused.told(call));
            }
            let rests = match &state.failed {
                None => false,
                Some((_, Failure::Refused)) => true,
                Some((when, Failure::Broke(_))) => !expired && when.elapsed() < REST,
            };
            pass.ticket.age() >= fresh && !rests
        };
        if !due {
            return Ok(pass);
        }
        match self.renew(transport, &pass).await {
            Ok(pass) => Ok(pass),
            // The server has the last word about a ticket that is only old.
            Err(_) if !expired => Ok(pass),
            Err(failure) => Err(self.end(&pass, failure).told(call)),
        }
    }

    /// The headers to use after the server has refused those of `pass`.
    pub(crate) async fn pass_after(
        &self,
        transport: &Transport,
        call: &Call,
        pass: &Pass,
    ) -> Result<Pass> {
        let renewed = self.renew(transport, pass).await;
        renewed.map_err(|failure| self.end(pass, failure).told(call))
    }

    /// Notes that neither a ticket nor its renewal is accepted.
    fn end(&self, pass: &Pass, failure: Failure) -> Failure {
        let mut state = self.state();
        if matches!(failure, Failure::Refused) && state.ticket.number == pass.ticket.number {
            state.dead = true;
        }
        failure
    }

    /// Renews the ticket of `pass`, unless somebody has tried since it was handed out.
    async fn renew(&self, transport: &Transport, pass: &Pass) -> Result<Pass, Failure> {
        let _turn = self.turn.lock().await;
        {
            let state = self.state();
            if state.ticket.number == pass.ticket.number {
                match &state.failed {
                    Some((_, Failure::Refused)) => return Err(Failure::Refused),
                    Some((_, failure)) if state.renewals > pass.renewals => {
                        return Err(failure.clone());
                    }
                    _ => {}
                }
            }
        }
        let ticket = self.pass().ticket;
        if ticket.number == pass.ticket.number {
            let asked = self.ask(transport, &ticket).await;
            let mut state = self.state();
            state.renewals += 1;
            // Another login may have been adopted meanwhile.
            if state.ticket.number == ticket.number {
                match asked {
                    Ok(next) => {
                        tracing::debug!(user = %self.user, "ticket renewed");
                        state.ticket = Arc::new(next);
                        state.failed = None;
                    }
                    Err(failure) => {
                        tracing::debug!(user = %self.user, ?failure, "ticket not renewed");
                        state.failed = Some((Instant::now(), failure.clone()));
                        return Err(failure);
                    }
                }
            }
        }
        Ok(self.pass())
    }

    async fn ask(&self, transport: &Transport, ticket: &Ticket) -> Result<Ticket, Failure> {
        match login::ask(transport, &self.user, &ticket.text, None).await {
            Ok(Outcome::Granted(granted)) => {
                Ticket::new(ticket.number + 1, &granted).ok_or_else(|| {
                    Failure::Broke(Arc::new(Error::Decode {
                        call: Request::new(&endpoint::TICKET, &[]).call,
                        path: "data.ticket".to_owned(),
                        problem: "not fit for a header".to_owned(),
                    }))
                })
            }
            // A valid ticket is never asked for a second factor.
            Ok(Outcome::Challenged(_)) | Err(Error::Unauthorized { .. }) => Err(Failure::Refused),
            Err(error) => Err(Failure::Broke(Arc::new(error))),
        }
    }
}
