//! A ticket and its renewal: before half of its life, once for all callers, by the ticket itself.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::SystemTime;

use http::HeaderValue;
use percent_encoding::utf8_percent_encode;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use tokio::time::Instant;

use crate::error::Call;
use crate::error::Error;
use crate::error::Result;
use crate::id::UserId;
use crate::login;
use crate::login::Granted;
use crate::login::Outcome;
use crate::request::RESERVED;
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

/// A login that all clones of a client share.
pub(crate) struct Session {
    user: UserId,
    ticket: Mutex<Arc<Ticket>>,
    /// Held during a renewal. It holds the number of a ticket that was refused renewal, so that
    /// callers who waited do not ask again: each refusal takes three seconds.
    renewal: tokio::sync::Mutex<Option<u64>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Session {
    /// A session from a fresh ticket; `None` if the ticket cannot be put into a header.
    pub(crate) fn new(user: UserId, granted: &Granted) -> Option<Self> {
        Some(Self {
            user,
            ticket: Mutex::new(Arc::new(Ticket::new(0, granted)?)),
            renewal: tokio::sync::Mutex::new(None),
        })
    }

    pub(crate) fn user(&self) -> &UserId {
        &self.user
    }

    fn ticket(&self) -> Arc<Ticket> {
        Arc::clone(&self.ticket.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, ticket: Ticket) -> Arc<Ticket> {
        let ticket = Arc::new(ticket);
        *self.ticket.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&ticket);
        ticket
    }

    /// Takes over the ticket of another session of the same account.
    pub(crate) fn adopt(&self, other: &Self) -> bool {
        if self.user != other.user {
            return false;
        }
        let fresh = other.ticket();
        let number = self.ticket().number + 1;
        self.replace(Ticket {
            number,
            text: fresh.text.clone(),
            credential: fresh.credential.clone(),
            since: fresh.since,
            since_clock: fresh.since_clock,
        });
        true
    }

    /// The headers to use now, and the number of their ticket; renews a ticket past half its life.
    pub(crate) async fn credential(
        &self,
        transport: &Transport,
        call: &Call,
    ) -> Result<(Credential, u64)> {
        let ticket = self.ticket();
        let life = transport.timeouts.ticket_life;
        if ticket.age() < life / 2 {
            return Ok((ticket.credential.clone(), ticket.number));
        }
        match self.renewed(transport, call, ticket.number).await {
            Ok(credential) => Ok(credential),
            Err(error @ Error::NeedsLogin { .. }) => Err(error),
            // An old ticket is still good; the next call tries again.
            Err(error) if ticket.age() < life => {
                tracing::debug!(%error, "the ticket could not be renewed yet");
                Ok((ticket.credential.clone(), ticket.number))
            }
            Err(error) => Err(error),
        }
    }

    /// Headers newer than those of ticket `number`, which is too old or was refused.
    pub(crate) async fn renewed(
        &self,
        transport: &Transport,
        call: &Call,
        number: u64,
    ) -> Result<(Credential, u64)> {
        let mut dead = self.renewal.lock().await;
        let ticket = self.ticket();
        if ticket.number > number {
            return Ok((ticket.credential.clone(), ticket.number));
        }
        if *dead == Some(ticket.number) {
            return Err(Error::NeedsLogin { call: call.clone() });
        }
        match login::ask(transport, &self.user, &ticket.text, None).await {
            Ok(Outcome::Granted(granted)) => {
                let next = Ticket::new(ticket.number + 1, &granted)
                    .ok_or_else(|| Error::NeedsLogin { call: call.clone() })?;
                tracing::debug!(user = %self.user, "ticket renewed");
                let ticket = self.replace(next);
                Ok((ticket.credential.clone(), ticket.number))
            }
            // A valid ticket is never asked for a second factor.
            Ok(Outcome::Challenged(_)) | Err(Error::Unauthorized { .. }) => {
                *dead = Some(ticket.number);
                Err(Error::NeedsLogin { call: call.clone() })
            }
            Err(error) => Err(error),
        }
    }
}
