//! Users, agents, apps and runs, as mem0 names whose a memory is, and the namespaces that they stand for.
//!
//! A user `ada` is the namespace `users/ada`, under the caller's prefix if there is one. The first of user, agent and app
//! that a request names gives the namespace; a run is a session in it. The metadata of a message has all of them.

use mnemon::{Message, MetadataFilter, Namespace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{access::Caller, problem::Problem};

/// The kinds, each with the first label of the namespaces of its entities.
pub(crate) const KINDS: [(&str, &str); 4] = [("user", "users"), ("agent", "agents"), ("app", "apps"), ("run", "runs")];
/// The namespace of requests that name none.
const DEFAULT: &str = "default";

/// The owner of the memories that a request is about: a namespace, or the ids that stand for one.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Entity {
    /// The namespace, such as `acme/user-42`. Default: that of the user, agent, app or run, or else `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    /// The user whose memories these are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_id: Option<String>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent_id: Option<String>,
    /// The app.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) app_id: Option<String>,
    /// The run or conversation, which is a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<String>,
}

impl Entity {
    /// Returns the ids by their kinds. The first one that is given decides on the namespace.
    pub(crate) fn ids(&self) -> [(&'static str, &Option<String>); 4] {
        [("user", &self.user_id), ("agent", &self.agent_id), ("app", &self.app_id), ("run", &self.run_id)]
    }

    /// Returns the namespace, if the caller may see it.
    pub(crate) fn namespace(&self, caller: &Caller) -> Result<Namespace, Problem> {
        if let Some(namespace) = &self.namespace {
            return caller.namespace(namespace);
        }
        match self.ids().into_iter().find_map(|(kind, id)| Some((kind, id.as_deref()?))) {
            Some((kind, id)) => namespace(caller, kind, id),
            None => match caller.prefix() {
                Some(prefix) => Ok(prefix.clone()),
                None => Ok(DEFAULT.parse()?),
            },
        }
    }

    /// Returns the session that the run stands for. A run that is named alone stands for a namespace instead.
    pub(crate) fn session(&self) -> Option<&str> {
        let has_other = self.namespace.is_some() || self.ids()[..3].iter().any(|(_, id)| id.is_some());
        self.run_id.as_deref().filter(|_| has_other)
    }

    /// Returns the namespace, for a request that is about all of it. Ids that name only a part of it are refused.
    pub(crate) fn whole_namespace(&self, caller: &Caller, subject: &str) -> Result<Namespace, Problem> {
        if self.is_whole()? {
            return self.namespace(caller);
        }
        let given = self.ids().into_iter().filter(|(_, id)| id.is_some()).map(|(kind, _)| id_name(kind));
        Err(Problem::bad_request(format!(
            "{subject} of a whole namespace, and {} together name a part of one; give one of them, or the namespace alone",
            given.chain(self.namespace.iter().map(|_| "namespace".to_owned())).collect::<Vec<_>>().join(", ")
        )))
    }

    /// Returns true if the ids name all of the namespace.
    pub(crate) fn is_whole(&self) -> Result<bool, Problem> {
        Ok(self.session().is_none() && self.filter()?.is_none())
    }

    /// Returns true if the ids name this message of the namespace.
    pub(crate) fn has(&self, message: &Message) -> Result<bool, Problem> {
        let is_in_session = self.session().is_none_or(|session| message.session == session);
        let filter = self.filter()?;
        Ok(is_in_session && filter.is_none_or(|filter| filter.matches(&Value::Object(message.metadata.clone()))))
    }

    /// Notes the ids in the metadata of a message, and makes its run its session.
    pub(crate) fn note_ids(&self, message: &mut Message) {
        if let Some(run) = &self.run_id {
            message.session.clone_from(run);
        }
        for (kind, id) in self.ids() {
            if let Some(id) = id {
                message.metadata.entry(id_name(kind)).or_insert_with(|| json!(id));
            }
        }
    }

    /// Returns a filter on the ids that neither the namespace nor the session says.
    pub(crate) fn filter(&self) -> Result<Option<MetadataFilter>, Problem> {
        let mut ids = self.ids().into_iter().filter_map(|(kind, id)| Some((kind, id.as_deref()?)));
        if self.namespace.is_none() {
            ids.next();
        }
        let rest: Map<String, Value> =
            ids.filter(|(kind, _)| *kind != "run").map(|(kind, id)| (id_name(kind), json!(id))).collect();
        match rest.is_empty() {
            true => Ok(None),
            false => Ok(Some(MetadataFilter::try_from(&Value::Object(rest))?)),
        }
    }
}

/// Returns the name of the id of this kind: a key in the metadata of messages, and a field of requests.
pub(crate) fn id_name(kind: &str) -> String {
    format!("{kind}_id")
}

/// Returns the names of the ids, for errors.
pub(crate) fn id_names() -> String {
    KINDS.map(|(kind, _)| id_name(kind)).join(", ").replace(", run_id", " or run_id")
}

/// Returns the namespace of an entity.
pub(crate) fn namespace(caller: &Caller, kind: &str, id: &str) -> Result<Namespace, Problem> {
    caller.namespace(folder(caller, kind)?.as_str()).and_then(|folder| {
        let labels = folder.labels().map(|label| label.into_owned()).chain([id.to_owned()]);
        Ok(Namespace::from_labels(labels)?)
    })
}

/// Returns the namespace under which all entities of this kind are.
pub(crate) fn folder(caller: &Caller, kind: &str) -> Result<Namespace, Problem> {
    let label = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, label)| *label);
    let label = label.ok_or_else(|| Problem::bad_request(format!("{kind:?} is not one of user, agent, app, run")))?;
    let prefix = caller.prefix().map(|prefix| format!("{prefix}/")).unwrap_or_default();
    Ok(format!("{prefix}{label}").parse()?)
}

/// Returns the kind and the id of the entity that a namespace stands for, if it stands for one.
pub(crate) fn from_namespace(caller: &Caller, namespace: &Namespace) -> Option<(&'static str, String)> {
    let depth = caller.prefix().map_or(0, |prefix| prefix.labels().count());
    let mut labels = namespace.labels().skip(depth);
    let (label, id) = (labels.next()?, labels.next()?);
    let kind = KINDS.iter().find(|(_, folder)| *folder == label).map(|(kind, _)| *kind)?;
    labels.next().is_none().then(|| (kind, id.into_owned()))
}
