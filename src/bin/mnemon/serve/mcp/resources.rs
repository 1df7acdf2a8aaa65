//! Sessions and blocks as resources: `mnemon://NAMESPACE/SESSION`, `mnemon://NAMESPACE/SESSION?block=NAME`, and
//! `mnemon://NAMESPACE?block=NAME` for a block that all sessions share. Names are percent-encoded.

use std::{
    borrow::Cow,
    fmt::{self, Display, Formatter},
};

use mnemon::{NamespaceCursor, StoredBlock};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::model::{ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

use super::{
    super::{
        app::App,
        caller::{Caller, Right},
        problem::Problem,
    },
    text,
};

const SCHEME: &str = "mnemon://";
/// Namespaces that one page lists, and the sessions and the blocks of each.
const NAMESPACES: usize = 20;
const ITEMS: usize = 100;
/// The last messages of a session that reading it returns.
const MESSAGES: usize = 500;
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(super) fn templates() -> Vec<ResourceTemplate> {
    [
        ("{namespace}/{session}", "session", "The messages of a session, in order"),
        ("{namespace}/{session}{?block}", "block", "What a memory block has made of a session, as JSON"),
        ("{namespace}{?block}", "shared block", "What a memory block has made that all sessions share, as JSON"),
    ]
    .map(|(path, name, description)| {
        let template = ResourceTemplate::new(format!("{SCHEME}{path}"), name);
        template.with_description(description).with_mime_type("text/plain")
    })
    .into()
}

pub(super) async fn list(app: &App, caller: &Caller, cursor: Option<String>) -> Result<ListResourcesResult, Problem> {
    caller.require(Right::Read)?;
    let after = cursor.map(|cursor| cursor.parse::<NamespaceCursor>()).transpose()?;
    let page = app.engine.namespaces(caller.prefix(), after.as_ref(), NAMESPACES).await?;
    let mut resources = Vec::new();
    let mut add = |address: Address, title: String, description: String| {
        let resource = Resource::new(address.to_string(), title);
        resources.push(resource.with_description(description).with_mime_type("text/plain"));
    };
    for namespace in page.namespaces.into_iter().map(|info| info.namespace) {
        for info in app.engine.sessions(&namespace).await?.into_iter().take(ITEMS) {
            let title = format!("{namespace}: {}", info.session);
            let description = format!("{} messages, {} of them in the buffer", info.messages, info.buffered);
            let address = Address { namespace: namespace.to_string(), session: Some(info.session), block: None };
            add(address, title, description);
        }
        for StoredBlock { name, session, .. } in app.engine.blocks(&namespace).await?.into_iter().take(ITEMS) {
            let title = format!("{namespace}: {name}");
            let description = match &session {
                Some(session) => format!("a memory block of {session}"),
                None => "a memory block of all sessions".to_owned(),
            };
            add(Address { namespace: namespace.to_string(), session, block: Some(name) }, title, description);
        }
    }
    let mut result = ListResourcesResult::with_all_items(resources);
    result.next_cursor = page.next.map(|cursor| cursor.to_string());
    Ok(result)
}

pub(super) async fn read(app: &App, caller: &Caller, uri: &str) -> Result<ReadResourceResult, Problem> {
    caller.require(Right::Read)?;
    let missing = || Problem::not_found("there is no such resource");
    let address = Address::parse(uri).ok_or_else(missing)?;
    let namespace = caller.namespace(&address.namespace)?;
    let text = match address {
        Address { block: Some(name), session, .. } => {
            let blocks = app.engine.blocks(&namespace).await?;
            let found = blocks.iter().find(|block| block.name == name && block.session == session);
            text::framed_block(found.ok_or_else(missing)?)
        }
        Address { session: Some(session), .. } => {
            let messages = app.engine.history(&namespace, &session).await?;
            if messages.is_empty() {
                return Err(missing());
            }
            let last = &messages[messages.len().saturating_sub(MESSAGES)..];
            text::framed(last.iter().map(|message| (message, None)))
        }
        Address { .. } => return Err(missing()),
    };
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type("text/plain")]))
}

/// The parts of a resource's address.
struct Address {
    namespace: String,
    session: Option<String>,
    block: Option<String>,
}

impl Address {
    fn parse(uri: &str) -> Option<Self> {
        let decode = |text| percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned);
        let (path, block) = match uri.strip_prefix(SCHEME)?.split_once("?block=") {
            Some((path, block)) => (path, Some(decode(block)?)),
            None => (uri.strip_prefix(SCHEME)?, None),
        };
        let (namespace, session) = match path.split_once('/') {
            Some((namespace, session)) => (namespace, Some(decode(session)?)),
            None => (path, None),
        };
        Some(Address { namespace: decode(namespace)?, session, block })
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let encode = |text| utf8_percent_encode(text, ENCODED);
        write!(f, "{SCHEME}{}", encode(&self.namespace))?;
        if let Some(session) = &self.session {
            write!(f, "/{}", encode(session))?;
        }
        match &self.block {
            Some(block) => write!(f, "?block={}", encode(block)),
            None => Ok(()),
        }
    }
}
