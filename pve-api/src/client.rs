//! A client that is logged in: sends requests, renews, repeats what is safe, decodes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::decode::decode;
use crate::error::Error;
use crate::error::Result;
use crate::id::TokenId;
use crate::id::UserId;
use crate::list::List;
use crate::request::Request;
use crate::session::Session;
use crate::transport::Credential;
use crate::transport::Transport;
use crate::transport::Upload;

/// Who a client speaks as.
#[derive(Clone)]
pub(crate) enum Auth {
    Nobody,
    Token(TokenId, Credential),
    Session(Arc<Session>),
}

/// A client of the Proxmox VE API.
///
/// Clones are cheap and share connections and session. A dropped call may still have had its
/// effect, like one whose answer was lost.
#[derive(Clone)]
pub struct Client {
    transport: Arc<Transport>,
    auth: Auth,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("account", &self.account()).finish_non_exhaustive()
    }
}

/// How long to wait before a read whose answer was lost is repeated.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

impl Client {
    pub(crate) fn new(transport: Arc<Transport>, auth: Auth) -> Self {
        Self { transport, auth }
    }

    /// The account or the API token by which the client is known to the server.
    pub fn account(&self) -> String {
        match &self.auth {
            Auth::Nobody => "nobody".to_owned(),
            Auth::Token(id, _) => id.to_string(),
            Auth::Session(session) => session.user().to_string(),
        }
    }

    /// The account behind the login or the token.
    pub fn user(&self) -> Option<&UserId> {
        match &self.auth {
            Auth::Nobody => None,
            Auth::Token(id, _) => Some(id.user()),
            Auth::Session(session) => Some(session.user()),
        }
    }

    /// Gives this client, and all its clones, the session of a fresh login of the same account.
    ///
    /// For work that stopped at [`Error::NeedsLogin`]: log in again, adopt, go on. Returns `false`,
    /// and changes nothing, for another account, a token, or a client with other addresses or
    /// another trust: a ticket never goes to a server that did not grant it.
    pub fn adopt(&self, fresh: &Self) -> bool {
        match (&self.auth, &fresh.auth) {
            (Auth::Session(old), Auth::Session(new)) => {
                self.transport.is_same_server(&fresh.transport) && old.adopt(new)
            }
            _ => false,
        }
    }

    /// Sends a request and decodes the `data` of its answer.
    pub(crate) async fn get<T: DeserializeOwned>(&self, request: Request) -> Result<T> {
        let body = self.send(&request).await?;
        decode(&request.call, &body)
    }

    /// Sends a request that answers with a list; an item that cannot be read is set aside.
    pub(crate) async fn list<T: DeserializeOwned>(&self, request: Request) -> Result<List<T>> {
        let body = self.send(&request).await?;
        List::decode(&request.call, &body)
    }

    /// Sends a request whose answer says nothing more.
    pub(crate) async fn done(&self, request: Request) -> Result<()> {
        self.send(&request).await.map(drop)
    }

    /// Sends a request, and reads whose answer was lost once or twice more.
    pub(crate) async fn send(&self, request: &Request) -> Result<Bytes> {
        let mut pauses = PAUSES.iter();
        loop {
            match self.send_once(request).await {
                Err(error @ Error::Interrupted { .. }) => match pauses.next() {
                    Some(pause) => {
                        tracing::debug!(%error, "asking again");
                        tokio::time::sleep(*pause).await;
                    }
                    None => return Err(error),
                },
                result => return result,
            }
        }
    }

    /// Sends a request, and once more with a new ticket if the old one was refused: a request
    /// that was refused for its ticket was not carried out, whatever its method.
    async fn send_once(&self, request: &Request) -> Result<Bytes> {
        let call = &request.call;
        let limit = self.transport.timeouts.answer;
        let session = match &self.auth {
            Auth::Nobody => {
                return self.transport.send(request, None, limit).await?.success(request);
            }
            Auth::Token(_, token) => {
                return self.transport.send(request, Some(token), limit).await?.success(request);
            }
            Auth::Session(session) => session,
        };
        let fresh = self.transport.timeouts.ticket_life / 2;
        let pass = session.pass_for(&self.transport, call, fresh).await?;
        let answer = self.transport.send(request, Some(&pass.credential), limit).await?;
        if answer.status != 401 {
            return answer.success(request);
        }
        tracing::debug!(%call, reason = answer.reason, "ticket refused");
        let pass = session.pass_after(&self.transport, call, &pass).await?;
        let answer = self.transport.send(request, Some(&pass.credential), limit).await?;
        if answer.status == 401 {
            return Err(Error::NeedsLogin { call: call.clone() });
        }
        answer.success(request)
    }

    /// Sends a body that can be read only once; a refused ticket is therefore not followed by a
    /// second try, but by a renewal for the next one.
    pub(crate) async fn upload(&self, request: &Request, upload: Upload) -> Result<Bytes> {
        let call = &request.call;
        let transport = &self.transport;
        let session = match &self.auth {
            Auth::Nobody => return transport.upload(request, None, upload).await?.success(request),
            Auth::Token(_, token) => {
                return transport.upload(request, Some(token), upload).await?.success(request);
            }
            Auth::Session(session) => session,
        };
        // The ticket has to last until the whole file is there.
        let fresh = transport.timeouts.ticket_life / 16;
        let pass = session.pass_for(transport, call, fresh).await?;
        let answer = transport.upload(request, Some(&pass.credential), upload).await?;
        if answer.status != 401 {
            return answer.success(request);
        }
        session.pass_after(transport, call, &pass).await?;
        Err(Error::NotSent { call: call.clone(), source: Box::new(TicketRefused) })
    }
}

/// Why an upload was not accepted, and that it may be now.
#[derive(Debug, Error)]
#[error("the session's ticket was refused and has been renewed")]
struct TicketRefused;
