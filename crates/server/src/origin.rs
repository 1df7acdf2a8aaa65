//! The check of a request's host and origin, against DNS rebinding: a page of another site in the user's browser could
//! otherwise talk to a server on loopback by a name that resolves to it.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, Uri, header};

use super::problem::Problem;

/// The names and addresses by which clients may reach the server.
pub(super) struct Hosts {
    names: Vec<String>,
    address: Option<IpAddr>,
}

impl Hosts {
    pub(super) fn new(address: Option<SocketAddr>, names: &[String]) -> Self {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).chain(["localhost".to_owned()]).collect();
        Hosts { names, address: address.map(|address| address.ip()) }
    }

    /// Refuses a request for another host, and one that a page of another site makes.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or("\0"));
        let host = uri.authority().map(axum::http::uri::Authority::as_str).or(text(header::HOST));
        if !host.is_some_and(|host| self.allows(host)) {
            return Err(Problem::forbidden(
                "this server does not answer for that host; start it with --host to allow it",
            ));
        }
        match text(header::ORIGIN) {
            Some(origin) if origin.split_once("://").is_none_or(|(_, authority)| Some(authority) != host) => {
                Err(Problem::forbidden("pages of other origins may not use this server"))
            }
            _ => Ok(()),
        }
    }

    fn allows(&self, authority: &str) -> bool {
        let Ok(authority) = authority.parse::<axum::http::uri::Authority>() else { return false };
        let host = authority.host();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            // An address cannot be rebound: it is where the client connected to.
            Ok(ip) => ip.is_loopback() || self.address.is_some_and(|own| own == ip || own.is_unspecified()),
            Err(_) => self.names.iter().any(|name| name.eq_ignore_ascii_case(host)),
        }
    }
}
