//! Who may call: addresses, proxies, a token, and no web page of somebody else.
//!
//! All of it is decided from the peer's address and the request's head, before a body is read.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::net::Ipv4Addr;

use axum::http::HeaderMap;
use axum::http::Uri;
use axum::http::header;
use ipnet::IpNet;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use thiserror::Error;

const UNNAMED: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Who may call.
#[derive(Debug, Clone)]
pub struct Access {
    /// The callers that are let in.
    pub allowed: Allowed,
    /// The peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The token that every caller must show, when there is one.
    pub token: Option<SecretString>,
    /// The names, in lower case, under which this server is known; addresses are always known.
    pub host_names: BTreeSet<String>,
}

/// The callers that are let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// Everybody.
    All,
    /// The addresses of these networks.
    Only(Vec<IpNet>),
}

/// Why a caller is not let in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refused {
    /// The address is not allowed.
    #[error("{0} may not call this server (ALLOW_IPS)")]
    Address(IpAddr),
    /// The request was made for a name that is not ours, as a web page does that rebinds its name.
    #[error("'{0}' is not a name of this server (HOST_NAMES)")]
    Host(String),
    /// The request was made by a web page from elsewhere.
    #[error("requests from the web page of another server ('{0}') are refused")]
    Origin(String),
    /// The token is missing or wrong.
    #[error("the header 'Authorization: Bearer <API_TOKEN>' is missing or wrong")]
    Token,
}

impl Access {
    /// Lets a request in or says why not.
    pub fn check(&self, peer: IpAddr, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
        let caller = self.caller(peer, headers);
        if !self.allowed.contains(caller) {
            return Err(Refused::Address(caller));
        }
        self.check_host(uri, headers)?;
        check_origin(uri, headers)?;
        self.check_token(headers)
    }

    /// Whether no request of that peer could be let in, whatever it says.
    pub(crate) fn is_stranger(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        !self.allowed.contains(peer) && !self.trusted_proxies.iter().any(|net| net.contains(&peer))
    }

    /// The address that calls: the peer's, or what trusted proxies say about theirs.
    ///
    /// Read from the right, the first address that is not a trusted proxy's is the caller's; what stands
    /// further left anybody may have written.
    fn caller(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let trusted =
            |address: IpAddr| self.trusted_proxies.iter().any(|net| net.contains(&address));
        let mut caller = peer.to_canonical();
        let forwarded: Vec<_> = headers.get_all("x-forwarded-for").iter().collect();
        for value in forwarded.into_iter().rev() {
            for hop in value.to_str().unwrap_or_default().rsplit(',') {
                if !trusted(caller) {
                    return caller;
                }
                // Whom a proxy cannot name has no address that could be allowed.
                caller = forwarded_address(hop.trim()).unwrap_or(UNNAMED);
            }
        }
        caller
    }

    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
        let header = headers.get_all(header::HOST).iter().map(|value| value.to_str().ok());
        let in_uri = uri.authority().map(|authority| Some(authority.as_str()));
        for authority in header.chain(in_uri) {
            let authority = authority.unwrap_or_default();
            if !self.is_known(host_of(authority)) {
                return Err(Refused::Host(authority.to_owned()));
            }
        }
        Ok(())
    }

    fn is_known(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        host == "localhost"
            || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
            || self.host_names.contains(&host)
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let Some(token) = &self.token else { return Ok(()) };
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        match shown {
            Some(shown) if same(shown.as_bytes(), token.expose_secret().as_bytes()) => Ok(()),
            _ => Err(Refused::Token),
        }
    }
}

impl Allowed {
    fn contains(&self, address: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Only(networks) => networks.iter().any(|network| network.contains(&address)),
        }
    }
}

/// Refuses what a browser sends on behalf of a page that this server did not serve.
fn check_origin(uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        let host = headers.get(header::HOST).and_then(|value| value.to_str().ok());
        let host = host.or_else(|| uri.authority().map(axum::http::uri::Authority::as_str));
        if !host.is_some_and(|host| is_same_origin(origin, host)) {
            return Err(Refused::Origin(origin.to_owned()));
        }
    }
    match headers.get("sec-fetch-site") {
        Some(site) if site.as_bytes() == b"cross-site" => {
            Err(Refused::Origin(String::from("cross-site")))
        }
        _ => Ok(()),
    }
}

/// Whether a page of `origin` speaks to its own server, which it reaches as `host`.
fn is_same_origin(origin: &str, host: &str) -> bool {
    let (authority, port) = match origin.split_once("://") {
        Some(("http", authority)) => (authority, ":80"),
        Some(("https", authority)) => (authority, ":443"),
        _ => return false,
    };
    let plain = |text: &str| text.strip_suffix(port).unwrap_or(text).to_ascii_lowercase();
    plain(authority) == plain(host)
}

/// The host of an authority, without its port.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// An address as proxies write it, with or without a port.
fn forwarded_address(text: &str) -> Option<IpAddr> {
    let host = text.parse().ok().or_else(|| host_of(text).trim_matches(['[', ']']).parse().ok());
    host.map(|address: IpAddr| address.to_canonical())
}

/// Compares in a time that tells nothing about where two texts differ.
fn same(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |all, (left, right)| all | (left ^ right));
    left.len() == right.len() && std::hint::black_box(differences) == 0
}

/// The names of this machine: its host name and what `/etc/hosts` and `/etc/resolv.conf` add to it.
pub fn own_names(host_name: &str, hosts: &str, resolver: &str) -> BTreeSet<String> {
    let host_name = host_name.trim().to_ascii_lowercase();
    let mut names = BTreeSet::new();
    if host_name.is_empty() {
        return names;
    }
    for line in hosts.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let of_line: Vec<String> =
            line.split_whitespace().skip(1).map(str::to_ascii_lowercase).collect();
        if of_line.contains(&host_name) {
            names.extend(of_line);
        }
    }
    if !host_name.contains('.') {
        let domains = resolver.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            matches!(words.next(), Some("search" | "domain")).then(|| words.next())?
        });
        names.extend(domains.map(|domain| format!("{host_name}.{}", domain.to_ascii_lowercase())));
    }
    names.insert(host_name);
    names
}

#[cfg(test)]
mod tests;
