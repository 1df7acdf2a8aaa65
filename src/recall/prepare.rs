//! Preparing a query for the search: its names are resolved to numbers, its times are read, its text is embedded.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, mpsc},
    time::Instant,
};

use super::{
    metadata::{MatchingMessages, MetadataSets},
    options::{RankingStrategy, TimeUse},
    pieces::{QueryPiece, pieces},
    query::Query,
    rank::Ranker,
    row_filter::Filter,
    statistics::ScoreStatistics,
    unindexed::{self, AnalyzedMessage, Unindexed, UnindexedMessage, UnindexedMessages},
    when::{TimeSpan, time_expressions_in},
};
use crate::{
    embed::{self, Embedder},
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    lexical::Language,
    message::{LocalTime, Timestamp},
    store::{RowMeta, Snapshot, Store},
};

/// The number of bytes of a query whose words are looked for in the model's vocabulary.
const VOCABULARY_BYTES: usize = 1000;
/// The most chunks of a text that are embedded, half of them from its end.
const MAX_CHUNKS: usize = 16;
/// The number of pieces of a query whose nearest messages are searched for. All pieces are evidence for what is found.
const SEARCHED_PIECES: usize = 4;

/// A query prepared for the indexes.
#[derive(Clone)]
pub(crate) struct PreparedQuery<'a> {
    pub(crate) query: &'a Query,
    pub(crate) namespace: NamespaceId,
    /// The vectors whose nearest messages are searched for: one for each chunk of the text, or of its first pieces; none if
    /// words alone are searched.
    pub(super) vectors: Vec<Vec<f32>>,
    /// The pieces of the text. None if it is ranked as one.
    pub(super) pieces: Vec<QueryPiece>,
    /// The query's filter, with the times that its text names if those filter.
    pub(super) filter: Filter,
    /// The number of the filter's session.
    pub(super) session: Option<u32>,
    /// The sequence numbers of the filter's ids, ascending.
    pub(super) ids: Option<Vec<u64>>,
    /// The sequence number before which messages had been put at the time of [`Query::as_of`].
    pub(super) put_before: Option<u64>,
    /// What messages were at that time, of those that have changed since, by ascending sequence numbers.
    changed: Arc<Vec<AnalyzedMessage>>,
    /// The messages that the filter on metadata matches.
    pub(super) matching: Option<Arc<MatchingMessages>>,
    /// The sequence numbers of messages to leave out. They are few, so they are dropped from the results of a search.
    pub(super) except: HashSet<u64>,
    /// The strategy of the options; words alone if the deadline passed before the query was embedded.
    pub(super) strategy: RankingStrategy,
    /// The share of the query's letters in words that the model knows: 1 until the query is embedded.
    known_words: f32,
    /// The times that the query's text names.
    pub(super) spans: Vec<TimeSpan>,
    pub(super) now: Timestamp,
    pub(super) deadline: Option<Instant>,
    /// The deadline passed before the text, or all of it, was embedded.
    pub(super) is_late: bool,
    /// The reason why words alone are searched though the options want vectors.
    pub(super) not_embedded: Option<Arc<str>>,
    /// Scan every row instead of searching the graph.
    pub(crate) scan: bool,
}

impl<'a> PreparedQuery<'a> {
    /// Resolves a query against the store. `None` if its namespace or session does not exist: then there are no hits.
    ///
    /// The query is not embedded yet: see [`embed`](Self::embed).
    pub(crate) fn new(query: &'a Query, namespace: &Namespace, store: &Store) -> Result<Option<Self>> {
        let snapshot = store.read()?;
        let Some(namespace) = snapshot.namespaces().id(namespace)? else { return Ok(None) };
        let mut prepared = Self::for_several(query, namespace);
        Ok(prepared.enter(namespace, &snapshot)?.then_some(prepared))
    }

    /// Prepares a query for several namespaces. [`enter`](Self::enter) must be called for each of them.
    pub(crate) fn for_several(query: &'a Query, first: NamespaceId) -> Self {
        let deadline = query.budget.and_then(|budget| Instant::now().checked_add(budget));
        let mut prepared = PreparedQuery { deadline, ..Self::unresolved(query, first) };
        if query.options.time != TimeUse::Ignore {
            let zone = query.options.zone_of_days();
            let expressions = time_expressions_in(&query.text, prepared.now, &zone);
            prepared.spans = expressions.into_iter().map(|expression| expression.span).collect();
        }
        if query.options.time == TimeUse::Filter {
            prepared.filter.spans.clone_from(&prepared.spans);
        }
        prepared
    }

    /// Resolves the names in the query against a namespace. Returns false if it does not have the query's session: then
    /// there are no hits in it.
    pub(super) fn enter(&mut self, namespace: NamespaceId, snapshot: &Snapshot) -> Result<bool> {
        self.namespace = namespace;
        if let Some(session) = &self.query.options.session {
            self.session = snapshot.sessions().number(namespace, session)?;
            if self.session.is_none() {
                return Ok(false);
            }
        }
        if let Some(time) = self.query.options.as_of {
            self.put_before = Some(snapshot.put_times().first_after(namespace, time)?);
            self.changed = Arc::new(unindexed::read_as_of(snapshot, namespace, time)?);
        }
        self.except = match self.query.options.include_superseded {
            true => HashSet::new(),
            false => snapshot.superseded().seqs(namespace, self.query.options.as_of.zip(self.put_before))?,
        };
        if !self.query.options.except.is_empty() {
            let known = &self.query.known_seqs;
            let unknown = self.query.options.except.iter().filter(|id| !known.contains_key(*id));
            self.except.extend(snapshot.messages().seqs(namespace, unknown)?);
            self.except.extend(known.values());
        }
        if let Some(ids) = &self.query.options.ids {
            let seqs = snapshot.messages().seqs(namespace, ids)?;
            self.ids = Some(BTreeSet::from_iter(seqs).into_iter().collect());
        }
        Ok(true)
    }

    /// Finds the messages that the query's filter on metadata matches, in a loaded namespace. After the deadline there
    /// are none.
    pub(crate) fn filter_metadata(&mut self, sets: &MetadataSets, store: &Store) -> Result<()> {
        let Some(filter) = &self.filter.metadata else { return Ok(()) };
        self.matching = match sets.matching(filter, self.namespace, self.deadline, store) {
            Err(Error::DeadlineExceeded) => {
                self.is_late = true;
                Some(Arc::default())
            }
            matching => Some(matching?),
        };
        Ok(())
    }

    /// A query by vectors alone, which leaves out these messages; its text and its other options are not read.
    pub(crate) fn by_vectors(
        query: &'a Query,
        namespace: NamespaceId,
        vectors: Vec<Vec<f32>>,
        except: HashSet<u64>,
    ) -> Self {
        let strategy = RankingStrategy::Dense;
        PreparedQuery { vectors, except, strategy, ..Self::unresolved(query, namespace) }
    }

    /// Returns the messages that the query finds by words alone, in an index of this language.
    pub(super) fn unindexed<'u>(
        &self,
        unindexed: &'u Unindexed,
        language: Language,
        store: &Store,
    ) -> Result<UnindexedMessages<'u>> {
        let messages = unindexed.messages(self.namespace, language, self.deadline, store)?;
        Ok(messages.with(&self.changed, |message| self.allows(message)))
    }

    /// Returns the number of excepted messages that a search of the index may find.
    pub(super) fn excepted(&self, unindexed: &UnindexedMessages) -> usize {
        self.except.iter().filter(|&&seq| !unindexed.contains(seq)).count()
    }

    /// Returns the number of unindexed messages that may be hits.
    pub(super) fn pending(&self, unindexed: &UnindexedMessages) -> usize {
        match self.filter == Filter::default() {
            true => unindexed.len() - (self.except.len() - self.excepted(unindexed)),
            false => unindexed.iter().filter(|message| !message.is_version && self.allows(message)).count(),
        }
    }

    /// Returns true if the filter allows a message that is not indexed, and it is not excepted.
    pub(super) fn allows(&self, message: &UnindexedMessage) -> bool {
        self.session.is_none_or(|session| session == message.session)
            && self.filter.allows(message.role, message.created_at)
            && self.filter.was_known(message.created_at)
            && self.ids.as_ref().is_none_or(|ids| ids.binary_search(&message.seq).is_ok())
            && self.matching.as_ref().is_none_or(|matching| matching.contains(message.seq))
            && self.put_before.is_none_or(|before| message.seq < before)
            && !self.except.contains(&message.seq)
    }

    /// Returns true if the message of a row was known at the time of [`Query::as_of`], if there is one.
    pub(super) fn was_known(&self, row: &RowMeta) -> bool {
        let then = self.changed.binary_search_by_key(&row.seq, |(message, _)| message.seq);
        let created_at = then.map_or(row.created_at, |at| self.changed[at].0.created_at);
        self.put_before.is_none_or(|before| row.seq < before) && self.filter.was_known(created_at)
    }

    /// Returns what candidates of the query are ranked by.
    pub(super) fn ranker<'r>(&'r self, statistics: &'r ScoreStatistics, weights: &'r [f32]) -> Ranker<'r> {
        let PreparedQuery { strategy, known_words, ref pieces, ref spans, now, .. } = *self;
        Ranker { options: &self.query.options, strategy, known_words, pieces, statistics, weights, spans, now }
    }

    fn unresolved(query: &'a Query, namespace: NamespaceId) -> Self {
        PreparedQuery {
            query,
            namespace,
            vectors: Vec::new(),
            pieces: Vec::new(),
            filter: Filter::of(&query.options),
            session: None,
            ids: None,
            put_before: None,
            changed: Arc::default(),
            matching: None,
            except: HashSet::new(),
            strategy: query.options.strategy,
            known_words: 1.0,
            spans: Vec::new(),
            now: query.options.now.map(LocalTime::time).or(query.options.as_of).unwrap_or_else(Timestamp::now),
            deadline: None,
            is_late: false,
            not_embedded: None,
            scan: false,
        }
    }

    /// Embeds the query's text, unless its vector is given or words alone are searched. `beside` runs a job on another thread.
    ///
    /// A query with a deadline is embedded beside, so that an embedder that ignores the deadline keeps nobody waiting; its
    /// answer comes too late for this query, and may be cached for the next. The query is then answered by words, in the
    /// last quarter of its time, and by the chunks that were embedded until then.
    ///
    /// A query whose text the embedder cannot embed, because of the deadline or because it is down, is answered by words:
    /// [`not_embedded`](Self::not_embedded) has the reason.
    ///
    /// # Errors
    /// Those of the embedder, if words are no answer: [`RankingStrategy::Dense`].
    pub(crate) fn embed(&mut self, embedder: &Arc<dyn Embedder>, beside: impl FnOnce(Job) -> Result<()>) -> Result<()> {
        if self.strategy == RankingStrategy::Lexical {
            return Ok(());
        }
        let answers_by_words = self.strategy != RankingStrategy::Dense;
        if let Some(vector) = &self.query.vector {
            self.vectors.push(embedder.identity().unit(vector).map_err(Error::query)?);
            return Ok(());
        }
        if embedder.identity().is_given() {
            if !answers_by_words {
                let reason = "the vectors of this database are given, and the query has none; give it a vector, or rank by words";
                return Err(Error::query(reason));
            }
            self.strategy = RankingStrategy::Lexical;
            return Ok(());
        }
        let reserve = self.query.budget.filter(|_| answers_by_words).unwrap_or_default() / 4;
        let deadline = self.deadline.map(|deadline| deadline.checked_sub(reserve).unwrap_or(deadline));
        let has_vocabulary = self.strategy == RankingStrategy::Hybrid && self.query.options.vocabulary;
        let asked = self.query;
        let text = &asked.text;
        if self.strategy == RankingStrategy::Hybrid && !asked.without.pieces {
            let unembedded = |piece| QueryPiece { piece, vectors: Vec::new(), known_words: 1.0 };
            self.pieces = pieces(text).into_iter().map(unembedded).collect();
        }
        let texts: Vec<String> = match &self.pieces[..] {
            [] => vec![text.clone()],
            pieces => pieces.iter().map(|piece| text[piece.piece.range.clone()].to_owned()).collect(),
        };
        let query = QueryTexts { texts, has_vocabulary, deadline };
        let embedded = match deadline {
            None => query.embed(&**embedder, |part| self.take(part)),
            Some(deadline) => {
                let (sender, parts) = mpsc::channel();
                let (embedder, span) = (Arc::clone(embedder), tracing::Span::current());
                let job = move || {
                    let _span = span.enter();
                    // The job may have waited for a thread until nobody waits for it.
                    if !is_over(Some(deadline)) {
                        let embedded = query.embed(&*embedder, |part| drop(sender.send(Ok(part))));
                        drop(embedded.map_err(|error| sender.send(Err(error))));
                    }
                };
                beside(Box::new(job))?;
                loop {
                    match parts.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                        Ok(Ok(part)) => self.take(part),
                        Ok(Err(error)) => break Err(error),
                        Err(mpsc::RecvTimeoutError::Disconnected) if !self.vectors.is_empty() => break Ok(()),
                        Err(_) => break Err(Error::DeadlineExceeded),
                    }
                }
            }
        };
        match embedded {
            Ok(()) => Ok(()),
            Err(Error::DeadlineExceeded) if !self.vectors.is_empty() => {
                self.is_late = true;
                Ok(())
            }
            Err(error) if answers_by_words => {
                let is_late = matches!(error, Error::DeadlineExceeded) || is_over(deadline);
                if !(is_late || matches!(error, Error::EmbedderUnavailable { .. })) {
                    return Err(error);
                }
                tracing::warn!(%error, "a query was not embedded; it is answered by words");
                self.vectors.clear();
                self.pieces.clear();
                self.strategy = RankingStrategy::Lexical;
                self.is_late = is_late;
                self.not_embedded = Some(error.to_string().into());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn take(&mut self, (at, part): (usize, EmbeddedPart)) {
        match (self.pieces.get_mut(at), part) {
            (None, EmbeddedPart::KnownWords(share)) => self.known_words = share,
            (None, EmbeddedPart::Vector(vector)) => self.vectors.push(vector),
            (Some(piece), EmbeddedPart::KnownWords(share)) => piece.known_words = share,
            (Some(piece), EmbeddedPart::Vector(vector)) => {
                if at < SEARCHED_PIECES {
                    self.vectors.push(vector.clone());
                }
                piece.vectors.push(vector);
            }
        }
    }
}

/// Work for another thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The texts of a query that are to be embedded: the whole, or its pieces.
struct QueryTexts {
    texts: Vec<String>,
    /// Whether the share of words is wanted that the model knows.
    has_vocabulary: bool,
    deadline: Option<Instant>,
}

/// A result of the embedder for a text of a query.
enum EmbeddedPart {
    /// The share of its letters in words that the model knows.
    KnownWords(f32),
    /// The vector of the next chunk.
    Vector(Vec<f32>),
}

impl QueryTexts {
    /// Embeds the chunks until the deadline, at least the first, and passes on each result with the position of its text.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`]: chunks are missing. Those of the embedder.
    fn embed(&self, embedder: &dyn Embedder, mut take: impl FnMut((usize, EmbeddedPart))) -> Result<()> {
        for (at, text) in self.texts.iter().enumerate() {
            if self.has_vocabulary {
                let begin = &text[..text.floor_char_boundary(VOCABULARY_BYTES)];
                take((at, EmbeddedPart::KnownWords(embed::known_words(embedder, begin))));
            }
            for (number, chunk) in chunks(embedder, text)?.into_iter().enumerate() {
                if at + number > 0 && is_over(self.deadline) {
                    return Err(Error::DeadlineExceeded);
                }
                take((at, EmbeddedPart::Vector(embed::query_before(embedder, chunk, self.deadline)?)));
            }
        }
        Ok(())
    }
}

/// Returns the chunks of a text that are embedded: the first and the last, if there are many.
fn chunks<'t>(embedder: &dyn Embedder, text: &'t str) -> Result<Vec<&'t str>> {
    let mut chunks = embed::windows(embedder, text)?;
    if chunks.len() > MAX_CHUNKS {
        chunks.drain(MAX_CHUNKS / 2..chunks.len() - MAX_CHUNKS / 2);
    }
    Ok(chunks)
}

/// Embeds a query's text: one vector for each chunk.
pub(crate) fn embed_query(embedder: &dyn Embedder, text: &str) -> Result<Vec<Vec<f32>>> {
    chunks(embedder, text)?.into_iter().map(|chunk| embed::query(embedder, chunk)).collect()
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}
