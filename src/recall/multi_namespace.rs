//! A recall over several namespaces, with one ranking: the [`Scope`] that names them, and their search.
//!
//! First the documents that contain the query's terms are counted, then the namespaces are searched one after the other, and each is
//! loaded only while it is searched. Where not all of them fit in memory, words are counted without loading, so that each namespace is
//! loaded once. The evidence for the candidates of all of them is standardized by pooled statistics: the frequencies of the query's terms, the mean and
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
    load::StoredWords,
    namespace::LoadedMessages,
    options::RankingStrategy,
    prepare::PreparedQuery,
    rank::{Candidate, Ranked},
    search::{Found, IndexSearch, Origin, SearchOutcome, SearchResources, Searcher},
    statistics::ScoreStatistics,
    unindexed::Unindexed,
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    lexical::{Collection, Language, LexicalIndex},
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

impl Member {
    /// Names the namespace in an error.
    pub(crate) fn named(&self, error: Error) -> Error {
        error.within(|| format!("namespace {}", self.name))
    }
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

/// Has the namespaces of a search.
pub(crate) trait NamespaceSource {
    /// Returns a namespace, which is loaded if it was not yet.
    fn load(&self, member: &Member) -> Result<LoadedHandle>;

    /// Reads the words of a namespace that is not loaded, and would not stay so. `None`: load it.
    fn words(&self, member: &Member, snapshot: &Snapshot) -> Result<Option<StoredWords>>;
}

/// The searcher of several namespaces.
pub(crate) struct MultiNamespaceSearch<'s> {
    query: &'s PreparedQuery<'s>,
    members: &'s [Member],
    weights: Vec<f32>,
    source: &'s dyn NamespaceSource,
    resources: SearchResources<'s>,
    context: SearchContext,
    keeps_vectors: bool,
    /// True if the next search begins with the last namespace, because the last search ended there: it is still loaded.
    is_backward: bool,
    /// The vectors of the last search's candidates, by origin and row.
    vectors: HashMap<(u32, u32), Vec<f32>>,
}

impl<'s> MultiNamespaceSearch<'s> {
    /// Counts the documents of all namespaces that contain the query's terms.
    ///
    /// # Errors
    /// Those of `source` and of the store.
    pub(crate) fn new(
        query: &'s PreparedQuery<'s>,
        members: &'s [Member],
        source: &'s dyn NamespaceSource,
        resources: SearchResources<'s>,
    ) -> Result<Self> {
        let mut search = MultiNamespaceSearch {
            query,
            members,
            weights: members.iter().map(|member| member.weight).collect(),
            source,
            resources,
            context: SearchContext::default(),
            keeps_vectors: Depth::of(query).vectors > 0,
            is_backward: false,
            vectors: HashMap::new(),
        };
        search.context = SearchContext::of(search.collection()?);
        Ok(search)
    }

    fn collection(&self) -> Result<Collection> {
        let (mut collection, mut context) = (Collection::default(), SearchContext::default());
        if self.query.strategy == RankingStrategy::Dense {
            return Ok(collection);
        }
        let store = self.resources.store;
        let mut add = |query: &PreparedQuery, lexical: &LexicalIndex, language, unindexed: &Unindexed| -> Result<()> {
            let unindexed = query.unindexed(unindexed, language, store)?;
            lexical.add_to(&mut collection, &context.terms(language, query).whole, unindexed.terms());
            Ok(())
        };
        // What changed since a time has other words than those that are stored.
        let is_of_now = self.query.query.options.as_of.is_none();
        let mut walk = self.walk()?;
        while let Some(origin) = walk.next()? {
            let member = &self.members[origin as usize];
            let words = if is_of_now { self.source.words(member, &walk.snapshot)? } else { None };
            match words {
                Some(words) => add(&walk.query, &words.lexical, words.language, &words.unindexed)?,
                None => {
                    let loaded = walk.load(origin)?;
                    let LoadedMessages { index, unindexed } = (*loaded).as_ref();
                    let index = index.read();
                    add(&walk.query, &index.lexical, index.language, unindexed)?;
                }
            }
        }
        Ok(collection)
    }

    fn walk(&self) -> Result<Walk<'s>> {
        let MultiNamespaceSearch { members, source, resources, is_backward, .. } = *self;
        let (query, snapshot) = (self.query.clone(), resources.store.read()?);
        let rest = 0..members.len() as u32;
        Ok(Walk { members, rest, is_backward, query, snapshot, source, resources, is_cut_short: false })
    }
}

impl Searcher for MultiNamespaceSearch<'_> {
    fn search(&mut self, messages: usize) -> Result<SearchOutcome> {
        let mut pooled = PooledEvidence { is_exhaustive: true, ..PooledEvidence::default() };
        let mut languages = vec![Language::default(); self.members.len()];
        self.context.begin(messages);
        let mut walk = self.walk()?;
        self.is_backward = !self.is_backward;
        while let Some(origin) = walk.next()? {
            let loaded = walk.load(origin)?;
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

/// A walk over the namespaces that have the query's session.
struct Walk<'s> {
    members: &'s [Member],
    /// The positions of those that are left.
    rest: Range<u32>,
    is_backward: bool,
    /// The query for the last namespace.
    query: PreparedQuery<'s>,
    snapshot: Snapshot,
    source: &'s dyn NamespaceSource,
    resources: SearchResources<'s>,
    /// The deadline passed before all were visited.
    is_cut_short: bool,
}

impl Walk<'_> {
    /// Prepares the query for the next namespace. Returns its position.
    fn next(&mut self) -> Result<Option<u32>> {
        while let Some(origin) = if self.is_backward { self.rest.next_back() } else { self.rest.next() } {
            let member = &self.members[origin as usize];
            if self.rest.len() + 1 < self.members.len() && is_past(self.query.deadline) {
                self.is_cut_short = true;
                return Ok(None);
            }
            if self.query.enter(member.id, &self.snapshot)? {
                return Ok(Some(origin));
            }
        }
        Ok(None)
    }

    /// Loads the namespace at the position that was returned last.
    fn load(&mut self, origin: u32) -> Result<LoadedHandle> {
        let loaded = self.source.load(&self.members[origin as usize])?;
        let sets = Arc::clone(&(*loaded).as_ref().index.read().metadata);
        self.query.filter_metadata(&sets, self.resources.store)?;
        Ok(loaded)
    }
}

/// The evidence of all namespaces that were searched.
#[derive(Default)]
struct PooledEvidence {
    candidates: Vec<Candidate>,
    /// The vectors of candidates, by origin and row.
    vectors: HashMap<(u32, u32), Vec<f32>>,
    statistics: Vec<ScoreStatistics>,
    word_rarity: BTreeMap<u64, f32>,
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
