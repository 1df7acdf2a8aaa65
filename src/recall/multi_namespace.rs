//! A recall over several namespaces, with one ranking: the [`Scope`] that names them, and their search.
//!
//! The namespaces are searched one after the other, and each is loaded only while it is searched. The evidence for the
//! candidates of all of them is standardized by pooled statistics: the frequencies of the query's terms, the mean and
//! the deviation of cosines and BM25 scores, the typical lengths. So a message gets nearly the same score as if all the
//! messages were in one namespace. Only its neighbors are of its own namespace.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
    sync::Arc,
};

use mnemon_index::is_past;

use super::{
    candidates::SearchContext,
    find::Depth,
    namespace::LoadedMessages,
    options::RankingStrategy,
    prepare::PreparedQuery,
    rank::{Candidate, Ranked},
    search::{Found, IndexSearch, Origin, SearchOutcome, SearchResources, Searcher},
    statistics::ScoreStatistics,
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    lexical::{Collection, Language},
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

/// A namespace that stays loaded as long as the handle exists.
pub(crate) type LoadedHandle = Arc<dyn AsRef<LoadedMessages>>;

/// Loads a namespace.
pub(crate) type LoadMessages<'a> = dyn Fn(&Member) -> Result<LoadedHandle> + 'a;

/// The searcher of several namespaces.
pub(crate) struct MultiNamespaceSearch<'s> {
    query: &'s PreparedQuery<'s>,
    members: &'s [Member],
    weights: Vec<f32>,
    load: &'s LoadMessages<'s>,
    resources: SearchResources<'s>,
    context: SearchContext,
    keeps_vectors: bool,
    /// True if the next walk begins with the last namespace.
    is_backward: bool,
    /// The vectors of the last search's candidates, by origin and row.
    vectors: HashMap<(u32, u32), Vec<f32>>,
}

impl<'s> MultiNamespaceSearch<'s> {
    /// Counts the documents of all namespaces that contain the query's terms: each namespace is loaded.
    ///
    /// # Errors
    /// Those of `load` and of the store.
    pub(crate) fn new(
        query: &'s PreparedQuery<'s>,
        members: &'s [Member],
        load: &'s LoadMessages<'s>,
        resources: SearchResources<'s>,
    ) -> Result<Self> {
        let mut search = MultiNamespaceSearch {
            query,
            members,
            weights: members.iter().map(|member| member.weight).collect(),
            load,
            resources,
            context: SearchContext::default(),
            keeps_vectors: Depth::of(query).vectors > 0,
            is_backward: false,
            vectors: HashMap::new(),
        };
        search.context = SearchContext::of(search.collection()?);
        Ok(search)
    }

    fn collection(&mut self) -> Result<Collection> {
        let (mut collection, mut context) = (Collection::default(), SearchContext::default());
        if self.query.strategy == RankingStrategy::Dense {
            return Ok(collection);
        }
        let mut walk = self.walk()?;
        while let Some((_, loaded)) = walk.next()? {
            let LoadedMessages { index, unindexed } = (*loaded).as_ref();
            let (index, query) = (index.read(), &walk.query);
            let unindexed = query.unindexed(unindexed, index.language, self.resources.store)?;
            index.lexical.add_to(&mut collection, &context.terms(index.language, query).whole, unindexed.terms());
        }
        Ok(collection)
    }

    /// Begins a walk over the namespaces, with those that the last one ended with: they are the ones that are still loaded if not all
    /// of them fit in memory.
    fn walk(&mut self) -> Result<Walk<'s>> {
        let MultiNamespaceSearch { members, load, resources, is_backward, .. } = *self;
        self.is_backward = !is_backward;
        let (query, snapshot) = (self.query.clone(), resources.store.read()?);
        let rest = 0..members.len() as u32;
        Ok(Walk { members, rest, is_backward, query, snapshot, load, resources, is_cut_short: false })
    }
}

impl Searcher for MultiNamespaceSearch<'_> {
    fn search(&mut self, messages: usize) -> Result<SearchOutcome> {
        let mut pooled = PooledEvidence { is_exhaustive: true, ..PooledEvidence::default() };
        let mut languages = vec![Language::default(); self.members.len()];
        self.context.begin(messages);
        let mut walk = self.walk()?;
        while let Some((origin, loaded)) = walk.next()? {
            let LoadedMessages { index, unindexed } = (*loaded).as_ref();
            let (query, resources, keeps_vectors) = (&walk.query, self.resources, self.keeps_vectors);
            let mut search = IndexSearch { query, index, unindexed, resources, keeps_vectors, allowed: None };
            self.context.origin = origin;
            let found = search.find(messages, &mut self.context)?;
            languages[origin as usize] = found.language;
            pooled.add(origin, found);
        }
        let PooledEvidence { candidates, vectors, statistics, word_rarity, pending, cut_short, is_exhaustive } = pooled;
        self.vectors = vectors;
        let statistics = ScoreStatistics::pooled(&statistics);
        let ranker = self.query.ranker(&statistics, &self.weights);
        let answerability = ranker.answerability(&candidates);
        let ranked = ranker.rank(candidates);
        let origins = self.members.iter().zip(languages).map(|(member, language)| Origin {
            namespace: member.id,
            name: Some(member.name.clone()),
            language,
        });
        Ok(SearchOutcome {
            origins: origins.collect(),
            answerability,
            word_rarity,
            pending,
            cut_short: cut_short || walk.is_cut_short,
            is_exhaustive,
            ranked,
        })
    }

    fn vector(&self, candidate: &Ranked) -> Vec<f32> {
        let at = candidate.row.map(|row| (candidate.origin, row));
        at.and_then(|at| self.vectors.get(&at)).cloned().unwrap_or_default()
    }
}

/// The namespaces that have the query's session, loaded one after the other.
struct Walk<'s> {
    members: &'s [Member],
    /// The positions of those that are left.
    rest: Range<u32>,
    is_backward: bool,
    /// The query for the namespace that was loaded last.
    query: PreparedQuery<'s>,
    snapshot: Snapshot,
    load: &'s LoadMessages<'s>,
    resources: SearchResources<'s>,
    /// The deadline passed before all were loaded.
    is_cut_short: bool,
}

impl Walk<'_> {
    /// Loads the next namespace, and prepares the query for it. Returns it with its position.
    fn next(&mut self) -> Result<Option<(u32, LoadedHandle)>> {
        while let Some(origin) = if self.is_backward { self.rest.next_back() } else { self.rest.next() } {
            let member = &self.members[origin as usize];
            if self.rest.len() + 1 < self.members.len() && is_past(self.query.deadline) {
                self.is_cut_short = true;
                return Ok(None);
            }
            if self.query.enter(member.id, &self.snapshot)? {
                let loaded = (self.load)(member)?;
                let sets = Arc::clone(&(*loaded).as_ref().index.read().metadata);
                self.query.filter_metadata(&sets, self.resources.store)?;
                return Ok(Some((origin, loaded)));
            }
        }
        Ok(None)
    }
}

/// The evidence of all namespaces that were searched.
#[derive(Default)]
struct PooledEvidence {
    candidates: Vec<Candidate>,
    /// The vectors of candidates, by origin and row.
    vectors: HashMap<(u32, u32), Vec<f32>>,
    statistics: Vec<ScoreStatistics>,
    word_rarity: HashMap<u64, f32>,
    pending: usize,
    cut_short: bool,
    is_exhaustive: bool,
}

impl PooledEvidence {
    fn add(&mut self, origin: u32, found: Found) {
        self.vectors.extend(found.vectors.into_iter().map(|(row, vector)| ((origin, row), vector)));
        self.candidates.extend(found.candidates);
        self.statistics.push(found.statistics);
        self.word_rarity.extend(found.word_rarity);
        self.pending += found.pending;
        self.cut_short |= found.cut_short;
        self.is_exhaustive &= found.is_exhaustive;
    }
}
