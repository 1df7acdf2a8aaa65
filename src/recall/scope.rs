//! [`Scope`]: the namespaces that one recall asks.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    store::Snapshot,
};

/// The namespaces that [`Engine::recall_in`](crate::Engine::recall_in) asks: single ones, and all under a prefix. No
/// other namespace is read.
///
/// ```
/// use mnemon::Scope;
/// # let (user, team) = ("acme/user-42".parse()?, "acme/team".parse()?);
/// let scope = Scope::new().namespace(&user).under(&team).weight(&user, 2.0);
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scope {
    namespaces: BTreeSet<Namespace>,
    prefixes: BTreeSet<Namespace>,
    weights: BTreeMap<Namespace, f32>,
}

/// A namespace that a scope names and that the database has.
pub(crate) struct Member {
    pub(crate) name: Namespace,
    pub(crate) id: NamespaceId,
    pub(super) weight: f32,
}

impl Scope {
    /// Makes a scope without any namespace. A recall in it finds nothing.
    pub fn new() -> Self {
        Scope::default()
    }

    /// Adds a namespace.
    pub fn namespace(mut self, namespace: &Namespace) -> Self {
        self.namespaces.insert(namespace.clone());
        self
    }

    /// Adds all namespaces under a prefix, itself included. They are looked up by each recall.
    pub fn under(mut self, prefix: &Namespace) -> Self {
        self.prefixes.insert(prefix.clone());
        self
    }

    /// Sets the weight of the namespaces under a prefix, itself included; a longer prefix has precedence. Default: 1.
    ///
    /// The weight of a namespace says how much likelier it is to have the answer: the hybrid score of its messages
    /// grows by the weight's logarithm, and the score of other strategies is multiplied by the weight. A reranker's
    /// scores are not weighted.
    pub fn weight(mut self, prefix: &Namespace, weight: f32) -> Self {
        self.weights.insert(prefix.clone(), weight);
        self
    }

    /// # Errors
    /// [`Error::InvalidQuery`]: a weight is not a positive number.
    pub(crate) fn check(&self) -> Result<()> {
        match self.weights.iter().find(|(_, weight)| !(weight.is_finite() && **weight > 0.0)) {
            None => Ok(()),
            Some((namespace, weight)) => Err(Error::query(format!(
                "the weight of {namespace} is {weight}, not a positive number; leave a namespace out of the scope instead"
            ))),
        }
    }

    /// The namespaces that were named.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.iter()
    }

    /// The prefixes that were named.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = &Namespace> {
        self.prefixes.iter()
    }

    /// The namespaces of the scope that have messages, by name.
    pub(crate) fn members(&self, snapshot: &Snapshot) -> Result<Vec<Member>> {
        let mut found = BTreeMap::new();
        for namespace in &self.namespaces {
            found.extend(snapshot.namespaces().id(namespace)?.map(|id| (namespace.clone(), id)));
        }
        for prefix in &self.prefixes {
            found.extend(snapshot.namespaces().under(prefix)?);
        }
        let weight = |name: &Namespace| {
            let prefixes = self.weights.iter().filter(|(prefix, _)| name.starts_with(prefix));
            prefixes.max_by_key(|(prefix, _)| prefix.as_str().len()).map_or(1.0, |(_, weight)| *weight)
        };
        Ok(found.into_iter().map(|(name, id)| Member { weight: weight(&name), name, id }).collect())
    }
}

impl<'a> FromIterator<&'a Namespace> for Scope {
    fn from_iter<I: IntoIterator<Item = &'a Namespace>>(namespaces: I) -> Self {
        Scope { namespaces: namespaces.into_iter().cloned().collect(), ..Scope::default() }
    }
}
