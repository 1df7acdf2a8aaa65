//! Sessions, blocks and documents as resources: `mnemon://NAMESPACE/SESSION`, `mnemon://NAMESPACE/SESSION?block=NAME`,
//! `mnemon://NAMESPACE?block=NAME` for a block that all sessions share, and `mnemon://NAMESPACE?document=KEY`. Names are
//! percent-encoded.

use std::{
    borrow::Cow,
    fmt::{self, Display, Formatter},
};

use mnemon::{Namespace, NamespaceCursor};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::model::{ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde::{Deserialize, Serialize};

use super::{
    answer::{Item, Kind, MAX_BYTES, Output, framed_block, page_length},
    documents,
};
use crate::{
    access::{Caller, Right},
    app::App,
    bounds,
    problem::Problem,
};

const SCHEME: &str = "mnemon://";
/// Resources on a page; there are fewer on it if their names are long.
const RESOURCES: usize = 100;
/// Documents that are read at a time, with their values.
const DOCUMENTS: usize = 20;
/// The most messages of a session that are returned when it is read.
const MESSAGES: usize = 500;
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(super) fn templates() -> Vec<ResourceTemplate> {
    [
        ("{namespace}/{session}", "session", "The last messages of a session, in order"),
        ("{namespace}/{session}{?block}", "block", "What a memory block has made of a session, as JSON"),
        ("{namespace}{?block}", "shared block", "What a memory block has made that all sessions share, as JSON"),
        ("{namespace}{?document}", "document", "A document, by its key"),
    ]
    .map(|(path, name, description)| {
        let template = ResourceTemplate::new(format!("{SCHEME}{path}"), name);
        template.with_description(description).with_mime_type("text/plain")
    })
    .into()
}

/// A cursor: the last resource of a page, and the position before its namespace in the list of namespaces.
#[derive(Serialize, Deserialize)]
struct Place {
    before: Option<NamespaceCursor>,
    /// The last namespace of the page. `last` is its last resource there, if it has any.
    namespace: String,
    last: Option<Last>,
}

/// The last resource of a namespace on a page. Sessions come first, then blocks, then documents, each in their order.
#[derive(Clone, Serialize, Deserialize)]
enum Last {
    Session(String),
    Block(String, Option<String>),
    Document(documents::Place),
}

pub(super) async fn list(app: &App, caller: &Caller, cursor: Option<String>) -> Result<ListResourcesResult, Problem> {
    caller.require(Right::Read)?;
    let (mut before, mut within) = match bounds::decode_cursor::<Place>(cursor.as_deref())? {
        Some(Place { before, namespace, last }) => (before, last.map(|last| (namespace, last))),
        None => (None, None),
    };
    let mut page = Page::default();
    loop {
        let namespaces = app.engine.namespaces(caller.prefix(), before.as_ref(), 1).await?;
        let Some(info) = namespaces.namespaces.into_iter().next() else { break };
        // If the namespace of the cursor was deleted since, the next one is listed from its beginning.
        let after = within.take().filter(|(namespace, _)| *namespace == info.namespace.as_str()).map(|(_, last)| last);
        page.fill(app, &info.namespace, after).await?;
        if page.has_more {
            let place = Place { before, namespace: info.namespace.to_string(), last: page.last };
            let mut result = ListResourcesResult::with_all_items(page.resources);
            result.next_cursor = Some(bounds::encode_cursor(&place));
            return Ok(result);
        }
        match namespaces.next {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    Ok(ListResourcesResult::with_all_items(page.resources))
}

/// A page that is being filled.
#[derive(Default)]
struct Page {
    resources: Vec<Resource>,
    bytes: usize,
    /// The last resource of the namespace that is being listed.
    last: Option<Last>,
    /// True if the page is full, and there is another resource.
    has_more: bool,
}

impl Page {
    /// Adds the resources of a namespace after the resource `after`, until the page is full.
    async fn fill(&mut self, app: &App, namespace: &Namespace, after: Option<Last>) -> Result<(), Problem> {
        self.last.clone_from(&after);
        let address = |session: Option<String>, item| Address { namespace: namespace.to_string(), session, item };
        if matches!(after, None | Some(Last::Session(_))) {
            for info in app.engine.sessions(namespace).await? {
                if matches!(&after, Some(Last::Session(last)) if info.session <= *last) {
                    continue;
                }
                let title = format!("{namespace}: {}", info.session);
                let description = format!("a session; messages: {}, in the buffer: {}", info.messages, info.buffered);
                self.add(&address(Some(info.session.clone()), None), title, description, Last::Session(info.session));
            }
        }
        if self.has_more {
            return Ok(());
        }
        if !matches!(after, Some(Last::Document(_))) {
            let mut blocks = app.engine.block_names(namespace).await?;
            blocks.sort_by(|(of_a, a), (of_b, b)| (a, of_a).cmp(&(b, of_b)));
            for (session, name) in blocks {
                if matches!(&after, Some(Last::Block(last, of)) if (&name, &session) <= (last, of)) {
                    continue;
                }
                let title = format!("{namespace}: {name}");
                let description = match &session {
                    Some(session) => format!("a memory block of {session}"),
                    None => "a memory block of all sessions".to_owned(),
                };
                let address = address(session.clone(), Some(("block", name.clone())));
                self.add(&address, title, description, Last::Block(name, session));
            }
        }
        let mut place = match after {
            Some(Last::Document(place)) => Some(place),
            _ => None,
        };
        while !self.has_more {
            let (documents, next) = documents::page(app, namespace, place.as_ref(), DOCUMENTS).await?;
            let before = place.map_or(0, |(seen, ..)| seen);
            for (at, document) in documents.into_iter().enumerate() {
                let title = format!("{namespace}: {}", document.key);
                let last = Last::Document((before + at + 1, document.updated_at, document.key.clone()));
                self.add(&address(None, Some(("document", document.key))), title, "a document".to_owned(), last);
            }
            match next {
                Some(next) => place = Some(next),
                None => break,
            }
        }
        Ok(())
    }

    fn add(&mut self, address: &Address, title: String, description: String, last: Last) {
        let uri = address.to_string();
        let bytes = uri.len() + serde_json::Value::from(title.as_str()).to_string().len() + description.len();
        self.has_more |= self.resources.len() == RESOURCES || self.bytes + bytes > MAX_BYTES && self.bytes > 0;
        if !self.has_more {
            self.bytes += bytes;
            self.last = Some(last);
            self.resources.push(Resource::new(uri, title).with_description(description).with_mime_type("text/plain"));
        }
    }
}

pub(super) async fn read(app: &App, caller: &Caller, uri: &str) -> Result<ReadResourceResult, Problem> {
    caller.require(Right::Read)?;
    let missing = || Problem::not_found("there is no such resource");
    let address = Address::parse(uri).ok_or_else(missing)?;
    let namespace = caller.namespace(&address.namespace)?;
    let text = match address {
        Address { item: Some(("block", name)), session, .. } => {
            let found = app.engine.block(&namespace, session.as_deref(), &name).await?;
            framed_block(&found.ok_or_else(missing)?)
        }
        Address { item: Some((_, key)), session: None, .. } => {
            let document = app.engine.documents(&namespace).get(&key).await?.ok_or_else(missing)?;
            Output::one(&Item::document(document), 0).text
        }
        Address { session: Some(session), item: None, .. } => {
            let sessions = app.engine.sessions(&namespace).await?;
            let info = sessions.into_iter().find(|info| info.session == session).ok_or_else(missing)?;
            let (all, bytes) = (info.messages as usize, bounds::MAX_PAGE_BYTES);
            let last = app.engine.history_before(&namespace, &session, None, MESSAGES, bytes).await?;
            let last = last.into_iter().flatten();
            let items: Vec<Item> = last.map(|placed| Item::listed(placed.message, None)).collect();
            let fitting = page_length(items.iter().rev());
            let text = Output::page(Kind::Memory, &items[items.len() - fitting..]).text;
            match all.saturating_sub(fitting) {
                0 => text,
                earlier => {
                    format!("{text}\n{earlier} earlier messages are left out; the tool get_memories lists all of them")
                }
            }
        }
        Address { .. } => return Err(missing()),
    };
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type("text/plain")]))
}

/// The parts of a resource's address.
struct Address {
    namespace: String,
    session: Option<String>,
    /// The block or the document that is addressed in the session or namespace: which of the two, and its name.
    item: Option<(&'static str, String)>,
}

/// The parameters that name a block or a document.
const ITEMS: [&str; 2] = ["block", "document"];

impl Address {
    fn parse(uri: &str) -> Option<Self> {
        let decode = |text| percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned);
        let (path, item) = match uri.strip_prefix(SCHEME)?.split_once('?') {
            Some((path, item)) => {
                let (name, value) = item.split_once('=')?;
                let name = ITEMS.into_iter().find(|known| *known == name)?;
                (path, Some((name, decode(value)?)))
            }
            None => (uri.strip_prefix(SCHEME)?, None),
        };
        let (namespace, session) = match path.split_once('/') {
            Some((namespace, session)) => (namespace, Some(decode(session)?)),
            None => (path, None),
        };
        Some(Address { namespace: decode(namespace)?, session, item })
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let encode = |text| utf8_percent_encode(text, ENCODED);
        write!(f, "{SCHEME}{}", encode(&self.namespace))?;
        if let Some(session) = &self.session {
            write!(f, "/{}", encode(session))?;
        }
        match &self.item {
            Some((name, value)) => write!(f, "?{name}={}", encode(value)),
            None => Ok(()),
        }
    }
}
