//! Users, agents, apps and runs, as mem0 names whose a memory is, and the namespaces that they stand for.
//!
//! A user `ada` is the namespace `users/ada`, under the caller's prefix if there is one. The first of user, agent and app
//! that a request names gives the namespace; a run is a session in it. The metadata of a message has all of them.

use mnemon::{Message, MetadataFilter, Namespace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{caller::Caller, problem::Problem};

/// The kinds that give a namespace, with its first label.
pub(super) const KINDS: [(&str, &str); 4] = [("user", "users"), ("agent", "agents"), ("app", "apps"), ("run", "runs")];
/// The namespace of requests that name none.
const DEFAULT: &str = "default";

/// The owner of the memories that a request is about: a namespace, or the ids that stand for one.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(super) struct Entity {
    /// The namespace, such as `acme/user-42`. Default: that of the user, agent, app or run, or else `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    /// The user whose memories these are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user_id: Option<String>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_id: Option<String>,
    /// The app.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) app_id: Option<String>,
    /// The run or conversation, which is a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run_id: Option<String>,
}

impl Entity {
    /// The ids by their kinds.
    pub(super) fn ids(&self) -> [(&'static str, &Option<String>); 4] {
        [("user", &self.user_id), ("agent", &self.agent_id), ("app", &self.app_id), ("run", &self.run_id)]
    }

    /// Returns the namespace, if the caller may see it.
    pub(super) fn namespace(&self, caller: &Caller) -> Result<Namespace, Problem> {
        if let Some(namespace) = &self.namespace {
            return caller.namespace(namespace);
        }
        match self.ids().into_iter().find_map(|(kind, id)| Some((kind, id.as_deref()?))) {
            Some((kind, id)) => of(caller, kind, id),
            None => match caller.prefix() {
                Some(prefix) => Ok(prefix.clone()),
                None => Ok(DEFAULT.parse()?),
            },
        }
    }

    /// The session that the run stands for, if it does not stand for the namespace.
    pub(super) fn session(&self) -> Option<&str> {
        let has_other = self.namespace.is_some() || self.ids()[..3].iter().any(|(_, id)| id.is_some());
        self.run_id.as_deref().filter(|_| has_other)
    }

    /// Returns the namespace, for a request that is about all of it. Ids that name only a part of it are refused.
    pub(super) fn whole_namespace(&self, caller: &Caller, subject: &str) -> Result<Namespace, Problem> {
        if self.is_whole()? {
            return self.namespace(caller);
        }
        let given = self.ids().into_iter().filter(|(_, id)| id.is_some()).map(|(kind, _)| mark(kind));
        Err(Problem::bad_request(format!(
            "{subject} of a whole namespace, and {} together name a part of one; give one of them, or the namespace alone",
            given.chain(self.namespace.iter().map(|_| "namespace".to_owned())).collect::<Vec<_>>().join(", ")
        )))
    }

    /// Returns true if the ids name all of the namespace.
    pub(super) fn is_whole(&self) -> Result<bool, Problem> {
        Ok(self.session().is_none() && self.filter()?.is_none())
    }

    /// Returns true if a message of the namespace is one of those that the ids name.
    pub(super) fn has(&self, message: &Message) -> Result<bool, Problem> {
        let is_in_session = self.session().is_none_or(|session| message.session == session);
        let filter = self.filter()?;
        Ok(is_in_session && filter.is_none_or(|filter| filter.matches(&Value::Object(message.metadata.clone()))))
    }

    /// Notes the ids in the metadata of a message, and makes its run its session.
    pub(super) fn mark(&self, message: &mut Message) {
        if let Some(run) = &self.run_id {
            message.session.clone_from(run);
        }
        for (kind, id) in self.ids() {
            if let Some(id) = id {
                message.metadata.entry(mark(kind)).or_insert_with(|| json!(id));
            }
        }
    }

    /// A filter on the ids that do not show in the namespace. The run is the session's business.
    pub(super) fn filter(&self) -> Result<Option<MetadataFilter>, Problem> {
        let mut ids = self.ids().into_iter().filter_map(|(kind, id)| Some((kind, id.as_deref()?)));
        if self.namespace.is_none() {
            ids.next();
        }
        let rest: Map<String, Value> =
            ids.filter(|(kind, _)| *kind != "run").map(|(kind, id)| (mark(kind), json!(id))).collect();
        match rest.is_empty() {
            true => Ok(None),
            false => Ok(Some(MetadataFilter::try_from(&Value::Object(rest))?)),
        }
    }
}

/// The key in the metadata of a message for the id of this kind.
pub(super) fn mark(kind: &str) -> String {
    format!("{kind}_id")
}

/// The namespace of an entity of this kind.
pub(super) fn of(caller: &Caller, kind: &str, id: &str) -> Result<Namespace, Problem> {
    caller.namespace(folder(caller, kind)?.as_str()).and_then(|folder| {
        let labels = folder.labels().map(|label| label.into_owned()).chain([id.to_owned()]);
        Ok(Namespace::from_labels(labels)?)
    })
}

/// The namespace under which all entities of this kind are.
pub(super) fn folder(caller: &Caller, kind: &str) -> Result<Namespace, Problem> {
    let label = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, label)| *label);
    let label = label.ok_or_else(|| Problem::bad_request(format!("{kind:?} is not one of user, agent, app, run")))?;
    let prefix = caller.prefix().map(|prefix| format!("{prefix}/")).unwrap_or_default();
    Ok(format!("{prefix}{label}").parse()?)
}

/// Returns the kind and the id of an entity's namespace.
pub(super) fn from_namespace(caller: &Caller, namespace: &Namespace) -> Option<(&'static str, String)> {
    let depth = caller.prefix().map_or(0, |prefix| prefix.labels().count());
    let mut labels = namespace.labels().skip(depth);
    let (label, id) = (labels.next()?, labels.next()?);
    let kind = KINDS.iter().find(|(_, folder)| *folder == label).map(|(kind, _)| *kind)?;
    labels.next().is_none().then(|| (kind, id.into_owned()))
}
