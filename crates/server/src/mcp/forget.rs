//! The tools that delete and forget more than one memory. They do what a call says to the letter, or refuse it.

use mnemon::{Error, Forget, MetadataFilter};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{answer::Output, memories};
use crate::{access::Caller, app::App, bounds::BoundedFilter, entity::Entity, problem::Problem, v1};

/// The user, agent, app, run or namespace whose memories are deleted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteAllMemories {
    #[serde(flatten)]
    entity: Entity,
}

/// Refuses a call that names nobody. It would be about the default namespace.
fn ensure_named(entity: &Entity, verb: &str) -> Result<(), Problem> {
    match entity.namespace.is_some() || entity.ids().iter().any(|(_, id)| id.is_some()) {
        true => Ok(()),
        false => Err(Problem::bad_request(format!(
            "say whose memories to {verb}: user_id, agent_id, app_id, run_id or namespace"
        ))),
    }
}

pub(super) async fn delete_all_memories(
    app: &App,
    caller: &Caller,
    input: DeleteAllMemories,
) -> Result<Output, Problem> {
    let _place = app.slow_place()?;
    ensure_named(&input.entity, "delete")?;
    let namespace = input.entity.namespace(caller)?;
    let deleted = match (input.entity.session(), input.entity.filter()?) {
        (session, Some(filter)) => {
            let ids = v1::matching(app, &namespace, session, Some(&filter)).await?;
            app.engine.delete(&namespace, ids).await?
        }
        (Some(session), None) => {
            let sessions = app.engine.sessions(&namespace).await?;
            let messages = sessions.iter().find(|info| info.session == session).map_or(0, |info| info.messages);
            match app.engine.delete_session(&namespace, session).await {
                Ok(()) => messages,
                // There is no such session, or another request deleted it meanwhile.
                Err(Error::SessionNotFound { .. }) => 0,
                Err(error) => return Err(error.into()),
            }
        }
        (None, None) => app.delete_home(&namespace).await?.0,
    };
    Ok(Output::data(json!({ "deleted": deleted })))
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum By {
    Messages,
    Documents,
    Session,
    Matching,
    Namespace,
    Prefix,
}

/// The memories or documents to forget: `by` and the argument that it needs, and the user, agent or namespace that they belong to. With
/// any other argument the call is refused, and nothing is forgotten.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForgetMemories {
    /// `messages`: the memories with these `ids`. `documents`: the documents with these `keys`. `session`: the conversation `session`.
    /// `matching`: the memories that `filter` matches. `namespace`: all of the user, agent, app or namespace that the call names.
    /// `prefix`: the same, and all namespaces under it.
    by: By,
    /// Ids of memories, for `by` messages alone.
    ids: Option<Vec<String>>,
    /// Keys of documents, for `by` documents alone.
    keys: Option<Vec<String>>,
    /// The run or conversation, for `by` session alone.
    session: Option<String>,
    /// A filter on metadata and on `$session`, `$role` and `$created_at`, for `by` matching alone.
    #[schemars(with = "Option<Map<String, Value>>")]
    filter: Option<BoundedFilter>,
    #[serde(flatten)]
    entity: Entity,
}

impl By {
    /// Returns the name, and the name of the argument that it needs.
    fn names(self) -> (&'static str, Option<&'static str>) {
        match self {
            By::Messages => ("messages", Some("ids")),
            By::Documents => ("documents", Some("keys")),
            By::Session => ("session", Some("session")),
            By::Matching => ("matching", Some("filter")),
            By::Namespace => ("namespace", None),
            By::Prefix => ("prefix", None),
        }
    }
}

impl ForgetMemories {
    fn into_what(self) -> Result<v1::ForgetRequest, Problem> {
        let (by, needed) = self.by.names();
        let given = [
            ("ids", self.ids.is_some()),
            ("keys", self.keys.is_some()),
            ("session", self.session.is_some()),
            ("filter", self.filter.is_some()),
        ];
        if let Some((name, _)) = given.iter().find(|(name, is_given)| *is_given && Some(*name) != needed) {
            let takes =
                needed.map_or("none of ids, keys, session and filter".to_owned(), |needed| format!("`{needed}`"));
            return Err(Problem::bad_request(format!(
                "`by` is {by}, which takes {takes}, and `{name}` was given: nothing was forgotten; correct `by`, or leave out `{name}`"
            )));
        }
        let missing = || Problem::bad_request(format!("`by` is {by}: give `{}`", needed.unwrap_or_default()));
        Ok(match self.by {
            By::Messages => v1::ForgetRequest::Messages { ids: self.ids.ok_or_else(missing)? },
            By::Documents => v1::ForgetRequest::Documents { keys: self.keys.ok_or_else(missing)? },
            By::Session => v1::ForgetRequest::Session { session: self.session.ok_or_else(missing)? },
            By::Matching => v1::ForgetRequest::Matching { filter: self.filter.ok_or_else(missing)? },
            By::Namespace => v1::ForgetRequest::Namespace {},
            By::Prefix => v1::ForgetRequest::Prefix {},
        })
    }
}

pub(super) async fn forget(app: &App, caller: &Caller, input: ForgetMemories) -> Result<Output, Problem> {
    let _place = app.slow_place()?;
    let entity = input.entity.clone();
    let namespace = entity.namespace(caller)?;
    let what = match input.into_what()? {
        v1::ForgetRequest::Messages { ids } => {
            // A message that only a checkpoint has cannot be read, so it is forgotten only in a call about the whole
            // namespace.
            if !entity.is_whole()? {
                for id in &ids {
                    memories::find(app, caller, &entity, id).await?;
                }
            }
            Forget::messages(&namespace, ids)
        }
        v1::ForgetRequest::Session { session } => {
            if entity.session().is_some_and(|run| run != session) || entity.filter()?.is_some() {
                return Err(Problem::bad_request(
                    "a session is forgotten whole: leave out ids beside the one that has the session",
                ));
            }
            Forget::session(&namespace, session)
        }
        v1::ForgetRequest::Matching { filter } => {
            let run = entity.session().map(|run| MetadataFilter::eq("$session", run)).transpose()?;
            let all = [Some(filter.filter), run, entity.filter()?];
            Forget::matching(&namespace, MetadataFilter::all(all.into_iter().flatten()))
        }
        what @ v1::ForgetRequest::Documents { .. } => {
            what.into_forget(&entity.whole_namespace(caller, "this would forget what is")?)
        }
        what @ (v1::ForgetRequest::Namespace {} | v1::ForgetRequest::Prefix {}) => {
            ensure_named(&entity, "forget")?;
            what.into_forget(&entity.whole_namespace(caller, "this would forget what is")?)
        }
    };
    let receipt = app.forget(what).await?;
    Ok(Output::data(json!({ "receipt": receipt })))
}
