//! Pushes: storing what this machine changed in the primary, all or nothing.
//!
//! Invariants: a push is one transaction, and succeeds only if the namespaces are at the versions that the replica
//! knows. If the connection breaks before the answer comes, the outcome is found out before the push returns.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use deadpool_postgres::{ClientWrapper, Object};
use futures_util::future::{join, join3};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::types::ToSql;

use super::{
    Fence, Link, Node, Postgres,
    failure::{Failure, all, ours},
    limited,
    statements::{self, Parameter, array, escape},
    too_slow,
};
use crate::{
    error::{Error, Result},
    shared::{Pushed, Upstream, upstream::Turn},
    store::{Cell, Change, DocumentHead, Head, Row, Sharing, Table, Version, hidden_name},
};

/// How long a write waits before it is tried again, when the database asks for it.
const PAUSE: Duration = Duration::from_millis(5);

/// The most rows that one statement stores, and about the most bytes: servers that are rented limit the time of a statement.
/// All are one transaction.
const PIECE_ROWS: usize = 1000;
const PIECE_BYTES: usize = 1 << 20;

/// A statement with its parameters.
type Statement = (String, Vec<Parameter>);

/// A version that a push makes: it is in the database if the push was stored.
struct Proof {
    /// As it is stored.
    namespace: String,
    version: Version,
}

impl Proof {
    fn of(sharing: &Sharing) -> Self {
        // A push without changes stores nothing, and has no proof.
        let first = sharing.changes.first();
        let namespace = first.map(|change| escape(&change.namespace)).unwrap_or_default();
        Proof { namespace, version: first.map_or(Version::NONE, |change| change.version) }
    }
}

/// The statements of a transaction.
enum Statements {
    /// All in one, which is a transaction by itself: one message to the database, one answer.
    One(Statement),
    /// One after the other, because some change the same rows.
    Several(Several),
}

struct Several {
    /// Each returns a number, which must be the given one.
    checks: Vec<(Statement, i64)>,
    rows: Vec<Statement>,
}

impl Postgres {
    /// Pushes changes, all or none. Tries again as long as the database asks for it, within the time limit.
    ///
    /// The first attempt is in a turn, if there is one. If the connection breaks before the answer comes, the outcome is
    /// read under a new epoch, so that the database refuses a write that is still on its way.
    pub(super) fn push_changes(&self, sharing: &Sharing, turn: Option<Turn>) -> Result<Pushed> {
        let (link, statements) = (Arc::clone(&self.link), statements_of(&self.link.seal_key(), sharing));
        let proof = Proof::of(sharing);
        let turn = turn.and_then(|turn| turn.downcast().ok()).map(|held: Box<Held>| *held);
        self.thread.wait(async move { link.push(&statements, &proof, turn).await })?
    }

    pub(super) fn push_changes_fenced(&self, Fence(client): &mut Fence, sharing: &Sharing) -> Result<Pushed> {
        let Statements::Several(statements) = statements_of(&self.link.seal_key(), sharing) else {
            unreachable!("a fenced namespace is deleted, which takes several statements")
        };
        let link = Arc::clone(&self.link);
        let (held, proof) = (Arc::clone(client), Proof::of(sharing));
        self.thread
            .wait(limited(self.link.timeout, async move { link.push_fenced(&held, &statements, &proof).await }))?
    }

    /// Checks that namespaces are at these versions.
    pub(super) fn compare(&self, known: &[(String, Version)]) -> Result<Pushed> {
        let names: Vec<String> = known.iter().map(|(name, _)| name.clone()).collect();
        let found: HashMap<String, Version> = self.versions(&names)?.into_iter().collect();
        let is_same = known.iter().all(|(name, version)| found.get(name).copied().unwrap_or_default() == *version);
        Ok(if is_same { Pushed::Committed } else { Pushed::Behind })
    }
}

impl Link {
    async fn push_fenced(&self, client: &ClientWrapper, statements: &Several, proof: &Proof) -> Result<Pushed> {
        let (epoch, write) = self.node.next_write();
        let fence: [&(dyn ToSql + Sync); 3] = [&self.node.id, &epoch, &write];
        let unreplicated = self.address.unreplicated();
        let sent = send(client, "SAVEPOINT fenced", &fence, statements).await;
        match sent.and_then(|()| self.check_replicated(unreplicated)) {
            Ok(()) => Ok(Pushed::Committed),
            Err(Failure::Lost | Failure::Again(_)) => {
                client.batch_execute("ROLLBACK TO SAVEPOINT fenced").await.map_err(Failure::from)?;
                ours(self.take_epoch().await)?;
                Ok(Pushed::Behind)
            }
            Err(Failure::NoAnswer(reason)) => match self.outcome(write, proof).await {
                Ok(true) => Ok(Pushed::Committed),
                Ok(false) => Err(Error::SharedDatabase { reason, transient: true }),
                Err(_) => Err(Error::OutcomeUnknown { cause: reason }),
            },
            Err(failure) => Err(failure.into()),
        }
    }

    async fn push(&self, statements: &Statements, proof: &Proof, mut turn: Option<Held>) -> Result<Pushed> {
        let deadline = Instant::now() + self.timeout;
        let within = format!("within {} ms", self.timeout.as_millis());
        loop {
            let (epoch, write) = self.node.next_write();
            let in_turn = turn.is_some();
            let client = async {
                match turn.take() {
                    Some(held) => Ok(held),
                    None => self.client().await.map(|client| Held(Some(client))),
                }
            };
            let sent = match timeout_at(deadline, client).await {
                Ok(Ok(client)) => {
                    let sent = self.transaction(client, in_turn, epoch, write, statements);
                    let silent = |_| Err(Failure::NoAnswer(format!("it did not answer {within}")));
                    timeout_at(deadline, sent).await.unwrap_or_else(silent)
                }
                Ok(Err(failure)) => Err(failure),
                Err(_) => Err(Failure::NoConnection(format!("there was no connection {within}"))),
            };
            let Err(failure) = sent else { return Ok(Pushed::Committed) };
            match failure {
                Failure::Lost => match timeout_at(deadline, self.take_epoch()).await {
                    Ok(Ok(true)) => {}
                    Ok(Err(Failure::NoAnswer(_) | Failure::NoConnection(_))) => sleep(20 * PAUSE).await,
                    Ok(Err(failure)) => return Err(failure.into()),
                    Ok(Ok(false)) => return Ok(Pushed::Behind),
                    Err(_) => return Err(too_slow(self.timeout)),
                },
                Failure::Again(_) if Instant::now() + PAUSE < deadline => sleep(PAUSE).await,
                Failure::NoAnswer(reason) => {
                    // A little longer than the limit: an error must mean that nothing was stored.
                    let limit = deadline.max(Instant::now() + Duration::from_secs(1));
                    match timeout_at(limit, self.outcome(write, proof)).await {
                        Ok(Ok(true)) => return Ok(Pushed::Committed),
                        Ok(Ok(false)) if Instant::now() < deadline => {}
                        Ok(Ok(false)) => return Err(Error::SharedDatabase { reason, transient: true }),
                        Ok(Err(_)) | Err(_) => return Err(Error::OutcomeUnknown { cause: reason }),
                    }
                }
                Failure::NoConnection(_) if Instant::now() + 20 * PAUSE < deadline => sleep(20 * PAUSE).await,
                failure => return Err(failure.into()),
            }
        }
    }

    /// Sends the statements of a transaction, and waits for their answers. In a turn, it has begun.
    async fn transaction(
        &self,
        client: Held,
        in_turn: bool,
        epoch: i64,
        write: i64,
        statements: &Statements,
    ) -> std::result::Result<(), Failure> {
        let fence: [&(dyn ToSql + Sync); 3] = [&self.node.id, &epoch, &write];
        let unreplicated = self.address.unreplicated();
        let (sent, is_open) = match statements {
            Statements::One(statement) => (send_one(&client, in_turn, &fence, statement).await, false),
            Statements::Several(statements) => {
                let begin = if in_turn { "SAVEPOINT turn" } else { "BEGIN" };
                (send(&client, begin, &fence, statements).await, true)
            }
        };
        // Another transaction was first: the connection is sound, and there will be more of these.
        let is_sound = match sent {
            Err(Failure::Lost) if is_open => client.batch_execute("ROLLBACK").await.is_ok(),
            Ok(()) | Err(Failure::Lost) => true,
            Err(_) => false,
        };
        if is_sound {
            client.give_back();
        }
        sent.and_then(|()| self.check_replicated(unreplicated))
    }

    /// Begins a transaction, and locks namespaces in it.
    pub(super) async fn take_turn(&self, names: &[String]) -> std::result::Result<Held, Failure> {
        let client = Held(Some(self.client().await?));
        client.batch_execute("BEGIN").await?;
        let lock = client.prepare_cached(statements::TURN).await?;
        client.query(&lock, &[&names]).await?;
        Ok(client)
    }

    /// Fails if a commit was not replicated since there were so many of them. The next commit that is replicated shows
    /// that those before it are, too: so the outcome is found out as if there had been no answer.
    fn check_replicated(&self, before: u64) -> std::result::Result<(), Failure> {
        match self.address.unreplicated() == before {
            true => Ok(()),
            false => Err(Failure::NoAnswer("it has stored the change, but no synchronous standby has".into())),
        }
    }

    /// Reads the epoch of this node after a push that failed, and takes over another one. Returns true if there was
    /// another one: nothing was pushed for no other reason, perhaps.
    ///
    /// An increment that stalled takes place long after its call, and a fail-over or a restore may lose the row.
    async fn take_epoch(&self) -> std::result::Result<bool, Failure> {
        let client = Held(Some(self.client().await?));
        let found = client.query_opt("SELECT epoch FROM mnemon.nodes WHERE id = $1", &[&self.node.id]).await?;
        let epoch = self.node.epoch.load(Ordering::SeqCst);
        let is_other = found.is_none_or(|row| row.get::<_, i64>(0) != epoch);
        if is_other {
            raise(&client, &self.node, epoch).await?;
        }
        client.give_back();
        Ok(is_other)
    }

    /// Returns true if a write without an answer was stored. If it was not, it never will be: the epoch is another one
    /// now.
    async fn outcome(&self, write: i64, proof: &Proof) -> std::result::Result<bool, Failure> {
        loop {
            match self.try_outcome(write, proof).await {
                Err(Failure::NoConnection(_) | Failure::NoAnswer(_) | Failure::Again(_)) => sleep(10 * PAUSE).await,
                outcome => return outcome,
            }
        }
    }

    async fn try_outcome(&self, write: i64, proof: &Proof) -> std::result::Result<bool, Failure> {
        let client = Held(Some(self.client().await?));
        let unreplicated = self.address.unreplicated();
        // Waits for a transaction of this node that is about to end.
        let last = raise(&client, &self.node, self.node.epoch.load(Ordering::SeqCst) + 1).await?;
        // The row of the node may be gone, and with it the number of the last write.
        let stamp = "SELECT 1 FROM mnemon.stamps WHERE namespace = $1 AND version = $2 AND stamp = $3";
        let Proof { namespace, version } = proof;
        let is_stored = last == write
            || client.query_opt(stamp, &[namespace, &(version.number as i64), &version.stamp]).await?.is_some();
        client.give_back();
        self.check_replicated(unreplicated)?;
        Ok(is_stored)
    }
}

/// A connection of the pool that is closed unless it is given back: with the transaction that it may be in, or with a
/// statement that somebody gave up waiting for, behind which the next call would wait.
pub(super) struct Held(Option<Object>);

impl Held {
    fn give_back(mut self) {
        self.0 = None;
    }
}

impl std::ops::Deref for Held {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0.as_ref().expect("it is here until it is given back")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(Object::take(client));
        }
    }
}

/// Raises the epoch of a node to this one, unless it is higher, also if its row is gone. Returns its last write.
async fn raise(client: &Object, node: &Node, epoch: i64) -> std::result::Result<i64, Failure> {
    let raise = "INSERT INTO mnemon.nodes AS old (id, epoch, last_write) VALUES ($1, $2, 0) \
                 ON CONFLICT (id) DO UPDATE SET epoch = greatest(old.epoch, excluded.epoch) RETURNING epoch, last_write";
    let row = client.query_one(raise, &[&node.id, &epoch]).await?;
    node.epoch.store(row.get(0), Ordering::SeqCst);
    Ok(row.get(1))
}

/// Sends a statement that is a transaction by itself, or the rest of one, which it commits.
async fn send_one(
    client: &Object,
    is_rest: bool,
    fence: &[&(dyn ToSql + Sync); 3],
    (statement, parameters): &Statement,
) -> std::result::Result<(), Failure> {
    let prepared = client.prepare_cached(statement).await.map_err(nothing_begun)?;
    let parameters: Vec<_> = fence.iter().copied().chain(references(parameters)).collect();
    let sent = client.query_one(&prepared, &parameters);
    let row = if is_rest {
        let (row, committed) = join(sent, client.batch_execute("COMMIT")).await;
        let row = row?;
        committed?;
        row
    } else {
        sent.await?
    };
    if row.get::<_, i64>(0) > 0 { Ok(()) } else { Err(Failure::Lost) }
}

fn references(parameters: &[Parameter]) -> impl Iterator<Item = &(dyn ToSql + Sync)> {
    parameters.iter().map(|value| &**value as &(dyn ToSql + Sync))
}

/// Returns the failure of a statement before the commit was sent, when nothing can be stored yet.
fn nothing_begun(error: tokio_postgres::Error) -> Failure {
    nothing_stored(error.into())
}

fn nothing_stored(failure: Failure) -> Failure {
    match failure {
        Failure::NoAnswer(reason) => Failure::NoConnection(reason),
        failure => failure,
    }
}

/// Sends statements after one that begins a transaction or a part of it, and commits if all that was checked is as it must
/// be. If not, the transaction is open.
async fn send(
    client: &ClientWrapper,
    begin: &str,
    fence: &[&(dyn ToSql + Sync); 3],
    Several { checks, rows }: &Several,
) -> std::result::Result<(), Failure> {
    check(client, begin, fence, checks).await.map_err(nothing_stored)?;
    let mut prepared = Vec::with_capacity(rows.len());
    for (statement, _) in rows {
        prepared.push(client.prepare_cached(statement).await.map_err(nothing_begun)?);
    }
    let note = client.prepare_cached(statements::NOTE).await.map_err(nothing_begun)?;
    // Futures are sent in the order in which they are polled first.
    let rows = all(prepared.iter().zip(rows).map(|(prepared, (_, parameters))| {
        let parameters: Vec<_> = references(parameters).collect();
        async move { client.execute_raw(prepared, parameters).await }
    }));
    let note = client.execute(&note, fence);
    let commit = client.batch_execute("COMMIT");
    // Waits for all answers. After an error, the statements that follow only report that the transaction has failed,
    // and the commit rolls it back.
    let (done, noted, committed) = join3(rows, note, commit).await;
    done?;
    noted?;
    committed?;
    Ok(())
}

/// Begins a transaction, and changes or locks what the rest of it depends on.
async fn check(
    client: &ClientWrapper,
    begin: &str,
    fence: &[&(dyn ToSql + Sync); 3],
    checks: &[(Statement, i64)],
) -> std::result::Result<(), Failure> {
    let mut prepared = Vec::with_capacity(checks.len());
    for ((statement, _), _) in checks {
        prepared.push(client.prepare_cached(statement).await?);
    }
    let fenced = client.prepare_cached(statements::FENCE).await?;
    let begin = client.batch_execute(begin);
    let counts = all(prepared.iter().zip(checks).map(|(prepared, ((_, parameters), _))| {
        let parameters: Vec<_> = references(parameters).collect();
        async move { client.query_one(prepared, &parameters).await }
    }));
    let fenced = client.query_one(&fenced, &fence[..2]);
    let (begun, counts, fenced) = join3(begin, counts, fenced).await;
    begun?;
    let holds = counts?.iter().zip(checks).all(|(row, (_, count))| row.get::<_, i64>(0) == *count);
    let fenced: i64 = fenced?.get(0);
    if holds && fenced == 1 { Ok(()) } else { Err(Failure::Lost) }
}

fn statements_of(key: &[u8; 32], sharing: &Sharing) -> Statements {
    let Sharing { changes, lookups } = sharing;
    let (new, old): (Vec<&Change>, Vec<&Change>) = changes.iter().partition(|change| change.base == Version::NONE);
    let heads_of = [(true, new), (false, old)].into_iter().filter(|(_, changes)| !changes.is_empty());
    let cleared: Vec<String> =
        changes.iter().filter(|change| is_cleared(change)).map(|change| escape(&change.namespace)).collect();
    let rows = rows_of(key, changes);
    let all_rows = || changes.iter().flat_map(|change| &change.rows);
    let is_large = all_rows().count() > PIECE_ROWS || all_rows().map(size).sum::<usize>() > PIECE_BYTES;
    if lookups.is_empty() && cleared.is_empty() && !is_large {
        let (are_new, parameters): (Vec<bool>, Vec<_>) =
            heads_of.map(|(are_new, changes)| (are_new, heads(&changes))).unzip();
        let counted: Vec<_> = rows.iter().map(|(row, parameters)| (row.clone(), parameters.len())).collect();
        let statement = statements::one(&are_new, &counted);
        let of_rows = rows.into_iter().map(|(_, parameters)| parameters);
        return Statements::One((statement, parameters.into_iter().chain(of_rows).flatten().collect()));
    }
    let mut checks: Vec<(Statement, i64)> = heads_of
        .map(|(are_new, changes)| ((statements::count_heads(are_new), heads(&changes)), changes.len() as i64))
        .collect();
    if !lookups.is_empty() {
        let names: Vec<String> = lookups.iter().map(|(name, _)| escape(name)).collect();
        let versions: Vec<i64> = lookups.iter().map(|(_, version)| version.number as i64).collect();
        let stamps: Vec<i64> = lookups.iter().map(|(_, version)| version.stamp).collect();
        let parameters: Vec<Parameter> = vec![Box::new(names), Box::new(versions), Box::new(stamps)];
        checks.push(((statements::CHANGED.to_owned(), parameters), 0));
    }
    let mut several = Vec::new();
    if !cleared.is_empty() {
        let tables = Table::all().filter(|table| !table.is_common()).map(|table| table.name());
        for table in tables.chain(["vectors"]) {
            several.push((statements::clear(table), vec![Box::new(cleared.clone()) as Parameter]));
        }
    }
    several.extend(rows);
    Statements::Several(Several { checks, rows: several })
}

fn rows_of(key: &[u8; 32], changes: &[Change]) -> Vec<Statement> {
    let mut statements = vec![(statements::note_stamps(), stamps(changes))];
    for table in Table::all() {
        let rows: Vec<(&Change, &Row)> = changes
            .iter()
            .flat_map(|change| change.rows.iter().filter(|row| row.table == table).map(move |row| (change, row)))
            .collect();
        if rows.is_empty() {
            continue;
        }
        let gone: Vec<&(&Change, &Row)> = match table.has_chosen_key() {
            true => rows.iter().filter(|(_, row)| row.value.is_none()).collect(),
            false => Vec::new(),
        };
        if !gone.is_empty() {
            let names = gone.iter().map(|(change, _)| escape(&change.namespace)).collect::<Vec<_>>();
            let keys = array(table.key()[0].1, gone.iter().map(|(_, row)| &row.key[0]));
            statements.push((statements::remove(table), vec![Box::new(names), keys]));
        }
        statements.extend(pieces(&rows).map(|rows| (statements::upsert(table), parameters(key, table, rows))));
    }
    for (table, is_text) in [(Table::MESSAGES, false), (Table::DOCUMENT_TEXTS, true)] {
        let outdated = outdated(changes, table);
        if !outdated.is_empty() {
            let (names, seqs): (Vec<String>, Vec<i64>) = outdated.into_iter().unzip();
            let statement = super::vectors::delete();
            statements.push((statement, vec![Box::new(names), Box::new(seqs), Box::new(is_text)]));
        }
    }
    statements
}

/// The bytes of the texts of a row.
fn size(row: &Row) -> usize {
    let cells = row.value.iter().flatten();
    cells.map(|cell| if let Cell::Text(text) = cell { text.len() } else { 0 }).sum()
}

/// Divides rows into those of one statement each.
fn pieces<'a, 'r>(rows: &'a [(&'r Change, &'r Row)]) -> impl Iterator<Item = &'a [(&'r Change, &'r Row)]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let (mut count, mut bytes) = (0, 0);
        while count < rest.len().min(PIECE_ROWS) && (count == 0 || bytes < PIECE_BYTES) {
            bytes += size(rest[count].1);
            count += 1;
        }
        let (piece, others) = rest.split_at(count);
        rest = others;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Returns true if a change deletes everything that the namespace held before.
fn is_cleared(change: &Change) -> bool {
    change.base != Version::NONE && (change.is_from_scratch || !change.head.exists)
}

/// Returns the messages whose stored vectors are outdated: deleted messages, and those past their first revision.
fn outdated(changes: &[Change], table: Table) -> Vec<(String, i64)> {
    let revision = table.value().iter().position(|(name, _)| *name == "revision").expect("messages have revisions");
    let is_first = |value: &Vec<Cell>| value[revision] == Cell::Int(0);
    let mut outdated = Vec::new();
    for change in changes {
        for row in change.rows.iter().filter(|row| row.table == table) {
            if let (Cell::Int(seq), false) = (&row.key[0], row.value.as_ref().is_some_and(is_first)) {
                outdated.push((escape(&change.namespace), *seq));
            }
        }
    }
    outdated
}

/// Returns the parameters of the statements on namespaces.
fn heads(changes: &[&Change]) -> Vec<Parameter> {
    let names: Vec<String> = changes.iter().map(|change| escape(&change.namespace)).collect();
    let versions: Vec<i64> = changes.iter().map(|change| change.version.number as i64).collect();
    let cleared: Vec<i64> =
        changes.iter().map(|change| if is_cleared(change) { change.version.number as i64 } else { 0 }).collect();
    let number = |get: &dyn Fn(&Head) -> u64| -> Parameter {
        Box::new(changes.iter().map(|change| get(&change.head) as i64).collect::<Vec<_>>())
    };
    let document = |get: &dyn Fn(&DocumentHead) -> u64| -> Parameter {
        let values = changes.iter().map(|change| change.head.documents.as_ref().map(|documents| get(documents) as i64));
        Box::new(values.collect::<Vec<_>>())
    };
    vec![
        Box::new(names),
        Box::new(versions),
        Box::new(changes.iter().map(|change| change.version.stamp).collect::<Vec<_>>()),
        Box::new(changes.iter().map(|change| change.base.stamp).collect::<Vec<_>>()),
        Box::new(cleared),
        Box::new(changes.iter().map(|change| change.head.exists).collect::<Vec<_>>()),
        number(&|head| head.next_seq),
        number(&|head| head.next_session.into()),
        number(&|head| head.messages),
        Box::new(changes.iter().map(|change| change.head.language.clone()).collect::<Vec<_>>()),
        document(&|documents| documents.documents),
        document(&|documents| documents.expiring),
        document(&|documents| documents.last_change),
        document(&|documents| documents.next_text),
        document(&|documents| documents.next_session.into()),
        document(&|documents| documents.texts),
        Box::new(changes.iter().map(|change| change.head.ttl).collect::<Vec<_>>()),
    ]
}

/// Returns the parameters of [`statements::note_stamps`].
fn stamps(changes: &[Change]) -> Vec<Parameter> {
    let last_change = |change: &Change| change.head.documents.as_ref().map_or(0, |documents| documents.last_change);
    vec![
        Box::new(changes.iter().map(|change| escape(&change.namespace)).collect::<Vec<_>>()),
        Box::new(changes.iter().map(|change| change.version.number as i64).collect::<Vec<_>>()),
        Box::new(changes.iter().map(|change| change.version.stamp).collect::<Vec<_>>()),
        Box::new(changes.iter().map(|change| change.head.next_seq as i64).collect::<Vec<_>>()),
        Box::new(changes.iter().map(|change| last_change(change) as i64).collect::<Vec<_>>()),
    ]
}

/// Returns the parameters of the statement that stores rows, whose keys are distinct. The key of a deleted row is
/// hashed, so that it names nothing.
fn parameters(key: &[u8; 32], table: Table, rows: &[(&Change, &Row)]) -> Vec<Parameter> {
    let mut parameters: Vec<Parameter> = vec![
        Box::new(rows.iter().map(|(change, _)| escape(&change.namespace)).collect::<Vec<_>>()),
        Box::new(rows.iter().map(|(change, _)| change.version.number as i64).collect::<Vec<_>>()),
        Box::new(rows.iter().map(|(_, row)| row.value.is_none()).collect::<Vec<_>>()),
    ];
    if table.has_chosen_key() {
        let stored = rows.iter().map(|(change, row)| match (&row.key[0], &row.value) {
            (Cell::Text(name), Some(_)) => escape(name),
            (Cell::Text(name), None) => hidden_name(key, table.name(), &change.namespace, name),
            _ => unreachable!("a name is text"),
        });
        parameters.push(Box::new(stored.collect::<Vec<String>>()));
    } else {
        for (at, (_, kind)) in table.key().iter().enumerate() {
            parameters.push(array(*kind, rows.iter().map(|(_, row)| &row.key[at])));
        }
    }
    for (at, (_, kind)) in table.value().iter().enumerate() {
        parameters
            .push(array(*kind, rows.iter().map(|(_, row)| row.value.as_ref().map_or(&Cell::Null, |value| &value[at]))));
    }
    parameters
}
