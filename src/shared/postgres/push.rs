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
use futures_util::future::join4;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::types::ToSql;

use super::{
    Fence, Link, Postgres,
    failure::{Failure, all},
    limited,
    statements::{self, Parameter, array, escape},
};
use crate::{
    error::{Error, Result},
    shared::{Pushed, Upstream},
    store::{Cell, Change, DocumentHead, Head, Row, Sharing, Table, hidden_name},
};

/// How long a write waits before it is tried again, when the database asks for it.
const PAUSE: Duration = Duration::from_millis(5);

/// A statement with its parameters.
type Statement = (String, Vec<Parameter>);

/// The statements of a transaction.
enum Statements {
    /// All in one, which is a transaction by itself: one message to the database, one answer.
    One(Statement),
    /// One after the other: some change the same rows.
    Several(Vec<Statement>),
}

impl Postgres {
    /// Pushes changes, all or none. Tries again as long as the database asks for it, within the time limit.
    ///
    /// If the connection breaks before the answer comes, the outcome is read under a new epoch, so that the database
    /// refuses a write that is still on its way.
    pub(super) fn push_changes(&self, sharing: &Sharing) -> Result<Pushed> {
        let (link, statements) = (Arc::clone(&self.link), statements_of(&self.link.seal_key(), sharing));
        self.thread.wait(async move { link.push(&statements).await })?
    }

    pub(super) fn push_changes_fenced(&self, Fence(client): &mut Fence, sharing: &Sharing) -> Result<Pushed> {
        let Statements::Several(statements) = statements_of(&self.link.seal_key(), sharing) else {
            unreachable!("a fenced namespace is deleted, which takes several statements")
        };
        let link = Arc::clone(&self.link);
        let held = Arc::clone(client);
        self.thread.wait(limited(self.link.timeout, async move { link.push_fenced(&held, &statements).await }))?
    }

    /// Checks that namespaces are at these versions.
    pub(super) fn compare(&self, known: &[(String, u64)]) -> Result<Pushed> {
        let names: Vec<String> = known.iter().map(|(name, _)| name.clone()).collect();
        let found: HashMap<String, u64> = self.versions(&names)?.into_iter().collect();
        let is_same = known.iter().all(|(name, version)| found.get(name).copied().unwrap_or(0) == *version);
        Ok(if is_same { Pushed::Committed } else { Pushed::Behind })
    }
}

impl Link {
    async fn push_fenced(&self, client: &ClientWrapper, statements: &[Statement]) -> Result<Pushed> {
        let (epoch, write) = self.node.next_write();
        let fence: [&(dyn ToSql + Sync); 3] = [&self.node.id, &epoch, &write];
        match send(client, "SAVEPOINT fenced", &fence, statements).await {
            Ok(()) => Ok(Pushed::Committed),
            Err(Failure::Lost | Failure::Again(_)) => {
                client.batch_execute("ROLLBACK TO SAVEPOINT fenced").await.map_err(Failure::from)?;
                Ok(Pushed::Behind)
            }
            Err(Failure::NoAnswer(reason)) => match self.outcome(write).await {
                Ok(true) => Ok(Pushed::Committed),
                Ok(false) => Err(Error::SharedDatabase { reason, transient: true }),
                Err(_) => Err(Error::OutcomeUnknown { cause: reason }),
            },
            Err(failure) => Err(failure.into()),
        }
    }

    async fn push(&self, statements: &Statements) -> Result<Pushed> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let (epoch, write) = self.node.next_write();
            let sent = timeout_at(deadline, self.transaction(epoch, write, statements)).await;
            let failure = match sent {
                Ok(Ok(())) => return Ok(Pushed::Committed),
                Ok(Err(failure)) => failure,
                Err(_) => Failure::NoAnswer(format!("it did not answer within {} ms", self.timeout.as_millis())),
            };
            match failure {
                Failure::Lost => return Ok(Pushed::Behind),
                Failure::Again(_) if Instant::now() + PAUSE < deadline => sleep(PAUSE).await,
                Failure::NoAnswer(reason) => {
                    // A little longer than the limit: an error must mean that nothing was stored.
                    let limit = deadline.max(Instant::now() + Duration::from_secs(1));
                    match timeout_at(limit, self.outcome(write)).await {
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

    /// Sends all statements of a transaction at once, and waits for their answers.
    async fn transaction(&self, epoch: i64, write: i64, statements: &Statements) -> std::result::Result<(), Failure> {
        let client = self.client().await?;
        let fence: [&(dyn ToSql + Sync); 3] = [&self.node.id, &epoch, &write];
        let sent = match statements {
            Statements::One(statement) => send_one(&client, &fence, statement).await,
            Statements::Several(statements) => send(&client, "BEGIN", &fence, statements).await,
        };
        if sent.is_err() {
            // The connection is closed, with the transaction that it may still be in.
            drop(Object::take(client));
        }
        sent
    }

    /// Returns true if a write without an answer was stored. If it was not, it never will be: the epoch is another one
    /// now.
    async fn outcome(&self, write: i64) -> std::result::Result<bool, Failure> {
        loop {
            match self.try_outcome(write).await {
                Err(Failure::NoConnection(_) | Failure::NoAnswer(_) | Failure::Again(_)) => sleep(10 * PAUSE).await,
                outcome => return outcome,
            }
        }
    }

    async fn try_outcome(&self, write: i64) -> std::result::Result<bool, Failure> {
        let client = self.client().await?;
        let epoch = self.node.epoch.load(Ordering::SeqCst) + 1;
        // Waits for a transaction of this node that is about to end. `greatest`, because the statement may run twice.
        let update = "UPDATE mnemon.nodes SET epoch = greatest(epoch, $2) WHERE id = $1 RETURNING last_write";
        let row = client.query_one(update, &[&self.node.id, &epoch]).await;
        let last: i64 = match row {
            Ok(row) => row.get(0),
            Err(error) => {
                drop(Object::take(client));
                return Err(error.into());
            }
        };
        self.node.epoch.store(epoch, Ordering::SeqCst);
        Ok(last == write)
    }
}

/// Sends a statement that is a transaction by itself.
async fn send_one(
    client: &Object,
    fence: &[&(dyn ToSql + Sync); 3],
    (statement, parameters): &Statement,
) -> std::result::Result<(), Failure> {
    let prepared = client.prepare_cached(statement).await.map_err(nothing_begun)?;
    let parameters = fence.iter().copied().chain(parameters.iter().map(|value| &**value as &(dyn ToSql + Sync)));
    client.execute_raw(&prepared, parameters.collect::<Vec<_>>()).await?;
    Ok(())
}

/// Returns the failure of a statement before the transaction began, when nothing can be stored yet.
fn nothing_begun(error: tokio_postgres::Error) -> Failure {
    match Failure::from(error) {
        Failure::NoAnswer(reason) => Failure::NoConnection(reason),
        failure => failure,
    }
}

/// Sends statements after one that begins a transaction or a part of it, and commits.
async fn send(
    client: &ClientWrapper,
    begin: &str,
    parameters: &[&(dyn ToSql + Sync); 3],
    statements: &[Statement],
) -> std::result::Result<(), Failure> {
    let prepared = async {
        let fence = client.prepare_cached(statements::FENCE).await?;
        let mut prepared = Vec::with_capacity(statements.len());
        for (statement, _) in statements {
            prepared.push(client.prepare_cached(statement).await?);
        }
        Ok::<_, tokio_postgres::Error>((fence, prepared))
    };
    let (fence, prepared) = prepared.await.map_err(nothing_begun)?;
    // Futures are sent in the order in which they are polled first.
    let begin = client.batch_execute(begin);
    let fence = client.execute(&fence, parameters);
    let rows = all(prepared.iter().zip(statements).map(|(prepared, (_, parameters))| {
        let parameters: Vec<&(dyn ToSql + Sync)> =
            parameters.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        async move { client.execute_raw(prepared, parameters).await }
    }));
    let commit = client.batch_execute("COMMIT");
    // Waits for all answers. After an error, the statements that follow only report that the transaction has failed,
    // and the commit rolls it back.
    let (begun, fenced, done, committed) = join4(begin, fence, rows, commit).await;
    begun?;
    fenced?;
    done?;
    committed?;
    Ok(())
}

fn statements_of(key: &[u8; 32], sharing: &Sharing) -> Statements {
    let Sharing { changes, lookups } = sharing;
    let (new, old): (Vec<&Change>, Vec<&Change>) = changes.iter().partition(|change| change.base == 0);
    let mut heads_of = Vec::new();
    if !new.is_empty() {
        heads_of.push((statements::add_namespaces(), heads(&new), new.len()));
    }
    if !old.is_empty() {
        heads_of.push((statements::move_namespaces(), heads(&old), old.len()));
    }
    let cleared: Vec<String> =
        changes.iter().filter(|change| is_cleared(change)).map(|change| escape(&change.namespace)).collect();
    let rows = rows_of(key, changes);
    if lookups.is_empty() && cleared.is_empty() {
        return Statements::One(one(changes.len(), heads_of, rows));
    }
    let mut several = Vec::new();
    for (statement, mut parameters, count) in heads_of {
        let statement = statements::expecting(&statement, parameters.len());
        parameters.push(Box::new(count as i64));
        several.push((statement, parameters));
    }
    if !lookups.is_empty() {
        let names: Vec<String> = lookups.iter().map(|(name, _)| escape(name)).collect();
        let versions: Vec<i64> = lookups.iter().map(|(_, version)| *version as i64).collect();
        several.push((statements::UNCHANGED.to_owned(), vec![Box::new(names), Box::new(versions)]));
    }
    if !cleared.is_empty() {
        let tables = Table::all().filter(|table| !table.is_common()).map(|table| table.name());
        for table in tables.chain(["vectors"]) {
            several.push((statements::clear(table), vec![Box::new(cleared.clone())]));
        }
    }
    several.extend(rows);
    Statements::Several(several)
}

/// Joins all statements to one.
fn one(namespaces: usize, heads: Vec<(String, Vec<Parameter>, usize)>, rows: Vec<Statement>) -> Statement {
    let count = |(statement, parameters): (&String, &Vec<Parameter>)| (statement.clone(), parameters.len());
    let statement = statements::one(
        &heads.iter().map(|(statement, parameters, _)| count((statement, parameters))).collect::<Vec<_>>(),
        &rows.iter().map(|(statement, parameters)| count((statement, parameters))).collect::<Vec<_>>(),
    );
    let mut all: Vec<Parameter> = vec![Box::new(namespaces as i64)];
    all.extend(heads.into_iter().flat_map(|(_, parameters, _)| parameters));
    all.extend(rows.into_iter().flat_map(|(_, parameters)| parameters));
    (statement, all)
}

fn rows_of(key: &[u8; 32], changes: &[Change]) -> Vec<Statement> {
    let mut statements: Vec<Statement> = Vec::new();
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
        statements.push((statements::upsert(table), parameters(key, table, &rows)));
    }
    for (table, is_text) in [(Table::MESSAGES, false), (Table::DOCUMENT_TEXTS, true)] {
        let outdated = outdated(changes, table);
        if !outdated.is_empty() {
            let (names, seqs): (Vec<String>, Vec<i64>) = outdated.into_iter().unzip();
            let statement = super::vectors::DELETE.to_owned();
            statements.push((statement, vec![Box::new(names), Box::new(seqs), Box::new(is_text)]));
        }
    }
    statements
}

/// Returns true if a change deletes everything that the namespace held before.
fn is_cleared(change: &Change) -> bool {
    change.base > 0 && (change.is_from_scratch || !change.head.exists)
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
    let versions: Vec<i64> = changes.iter().map(|change| change.version as i64).collect();
    let cleared: Vec<i64> =
        changes.iter().map(|change| if is_cleared(change) { change.version as i64 } else { 0 }).collect();
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

/// Returns the parameters of the statement that stores rows, whose keys are distinct. The key of a deleted row is
/// hashed, so that it names nothing.
fn parameters(key: &[u8; 32], table: Table, rows: &[(&Change, &Row)]) -> Vec<Parameter> {
    let mut parameters: Vec<Parameter> = vec![
        Box::new(rows.iter().map(|(change, _)| escape(&change.namespace)).collect::<Vec<_>>()),
        Box::new(rows.iter().map(|(change, _)| change.version as i64).collect::<Vec<_>>()),
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
