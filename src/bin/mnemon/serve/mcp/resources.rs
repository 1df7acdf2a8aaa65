//! Sessions as resources: `mnemon://NAMESPACE/SESSION`, both percent-encoded.

use mnemon::{Namespace, NamespaceCursor};
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
/// Namespaces whose sessions one page lists, and the sessions of each.
const NAMESPACES: usize = 20;
const SESSIONS: usize = 100;
/// The last messages of a session that reading it returns.
const MESSAGES: usize = 500;
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = ResourceTemplate::new(format!("{SCHEME}{{namespace}}/{{session}}"), "session");
    vec![template.with_description("The messages of a session, in order").with_mime_type("text/plain")]
}

pub(super) async fn list(app: &App, caller: &Caller, cursor: Option<String>) -> Result<ListResourcesResult, Problem> {
    caller.require(Right::Read)?;
    let after = cursor.map(|cursor| cursor.parse::<NamespaceCursor>()).transpose()?;
    let page = app.engine.namespaces(caller.prefix(), after.as_ref(), NAMESPACES).await?;
    let mut resources = Vec::new();
    for info in page.namespaces {
        let name = info.namespace.as_str();
        for session in app.engine.sessions(&info.namespace).await?.into_iter().take(SESSIONS) {
            let uri = uri(&info.namespace, &session.session);
            let resource = Resource::new(uri, format!("{name}: {}", session.session));
            let description = format!("{} messages, {} of them in the buffer", session.messages, session.buffered);
            resources.push(resource.with_description(description).with_mime_type("text/plain"));
        }
    }
    let mut result = ListResourcesResult::with_all_items(resources);
    result.next_cursor = page.next.map(|cursor| cursor.to_string());
    Ok(result)
}

pub(super) async fn read(app: &App, caller: &Caller, uri: &str) -> Result<ReadResourceResult, Problem> {
    caller.require(Right::Read)?;
    let missing = || Problem::not_found("there is no such resource");
    let (namespace, session) = uri.strip_prefix(SCHEME).and_then(|path| path.split_once('/')).ok_or_else(missing)?;
    let decode = |text| percent_decode_str(text).decode_utf8().map(|text| text.into_owned()).map_err(|_| missing());
    let (namespace, session) = (caller.namespace(&decode(namespace)?)?, decode(session)?);
    let messages = app.engine.history(&namespace, &session).await?;
    if messages.is_empty() {
        return Err(missing());
    }
    let last = &messages[messages.len().saturating_sub(MESSAGES)..];
    let text = text::framed(last.iter().map(|message| (message, None)));
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type("text/plain")]))
}

fn uri(namespace: &Namespace, session: &str) -> String {
    let encode = |text| utf8_percent_encode(text, ENCODED);
    format!("{SCHEME}{}/{}", encode(namespace.as_str()), encode(session))
}
