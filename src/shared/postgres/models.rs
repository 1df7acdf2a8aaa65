//! The model that serves on all machines, and the reindex to another one, which machines share out.
//!
//! The table `models` has a row for each model that serves, is being built or served before. The table `reindexed` has
//! the namespaces of a reindex: those whose messages have vectors, and the machines that work on the others.

use std::time::Duration;

use deadpool_postgres::{Object, Transaction};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    failure::Failure,
    statements::{ON_PRIMARY, escape, unescape},
};
use crate::{
    ids::ModelIdentity,
    shared::{Begun, Decision, ReindexId, RolledBack, Verdict},
};

/// Creates the tables.
pub(super) const CREATE: &str = "CREATE TABLE mnemon.models (number bigint PRIMARY KEY, state text NOT NULL, name text NOT NULL, \
     hash text NOT NULL, dimension bigint NOT NULL, reason text, since timestamptz NOT NULL DEFAULT now()); \
     CREATE TABLE mnemon.reindexed (model bigint NOT NULL, namespace text COLLATE \"C\" NOT NULL, version bigint, holder uuid, \
     until timestamptz, PRIMARY KEY (model, namespace)); \
     CREATE INDEX reindexed_left ON mnemon.reindexed (model, namespace) WHERE version IS NULL;";

/// Number of namespaces that one statement lists.
const PIECE: i64 = 10_000;
/// The number of attempts to lock the serving model. If another model is switched to while a statement waits for the
/// lock, the statement finds no row: the old one serves no more, and the new one is not in its snapshot.
const LOCK_ATTEMPTS: u32 = 16;

pub(super) async fn serving(client: &Object) -> Result<Option<ModelIdentity>, Failure> {
    let serving = format!("SELECT name, hash, dimension FROM mnemon.models WHERE state = 'serving' AND {ON_PRIMARY}");
    let serving = client.prepare_cached(&serving).await?;
    Ok(client.query_opt(&serving, &[]).await?.as_ref().map(identity))
}

fn identity(row: &Row) -> ModelIdentity {
    ModelIdentity { name: row.get(0), hash: row.get(1), dimension: row.get::<_, i64>(2) as usize }
}

/// Sets the serving model, unless a model serves already.
pub(super) async fn set_first(client: &Object, model: &ModelIdentity) -> Result<(), Failure> {
    let insert = "INSERT INTO mnemon.models (number, state, name, hash, dimension) VALUES (1, 'serving', $1, $2, $3) ON CONFLICT DO NOTHING";
    client.execute(insert, &[&model.name, &model.hash, &(model.dimension as i64)]).await?;
    Ok(())
}

/// Locks the serving model, which all changes of models do first, and returns its number, hash and dimension.
async fn lock(transaction: &Transaction<'_>) -> Result<(i64, String, i64), Failure> {
    let sql = "SELECT number, hash, dimension FROM mnemon.models WHERE state = 'serving' FOR UPDATE";
    for _ in 0..LOCK_ATTEMPTS {
        if let Some(row) = transaction.query_opt(sql, &[]).await? {
            return Ok((row.get(0), row.get(1), row.get(2)));
        }
    }
    let row = transaction.query_one(sql, &[]).await?;
    Ok((row.get(0), row.get(1), row.get(2)))
}

/// Begins a reindex to this model, or joins the one that runs. Any reindex to another model is abandoned.
pub(super) async fn begin(client: &mut Object, to: &ModelIdentity) -> Result<Begun, Failure> {
    let transaction = client.transaction().await?;
    let dimension = to.dimension as i64;
    let (serving, hash, serving_dimension) = lock(&transaction).await?;
    if (hash.as_str(), serving_dimension) == (to.hash.as_str(), dimension) {
        return Ok(Begun::Serves);
    }
    let found = format!("SELECT number, state FROM mnemon.models WHERE hash = $1 AND dimension = $2 AND {ON_PRIMARY}");
    let found = transaction.query_opt(&found, &[&to.hash, &dimension]).await?;
    let number: i64 = match &found {
        Some(row) => row.get(0),
        None => transaction.query_one("SELECT max(number) + 1 FROM mnemon.models", &[]).await?.get(0),
    };
    if found.as_ref().is_none_or(|row| row.get::<_, &str>(1) == "previous") {
        let insert = "INSERT INTO mnemon.models (number, state, name, hash, dimension) VALUES ($1, 'building', $2, $3, $4) \
                      ON CONFLICT (number) DO UPDATE SET state = excluded.state";
        transaction.execute(insert, &[&number, &to.name, &to.hash, &dimension]).await?;
        // Messages that were put while another model served have no vectors of this one.
        transaction.execute("DELETE FROM mnemon.reindexed WHERE model = $1", &[&number]).await?;
    } else {
        let again = "UPDATE mnemon.models SET state = 'building', reason = NULL WHERE number = $1";
        transaction.execute(again, &[&number]).await?;
    }
    let others = "WITH others AS (DELETE FROM mnemon.models WHERE number <> $1 AND number <> $2) \
                  DELETE FROM mnemon.reindexed WHERE model <> $1 AND model <> $2";
    transaction.execute(others, &[&number, &serving]).await?;
    transaction.commit().await?;
    Ok(Begun::Building(ReindexId(number)))
}

/// Adds the next namespaces after a name to the work of a reindex. Returns the last of them; `None` when all are added.
pub(super) async fn list(client: &Object, ReindexId(model): ReindexId, after: &str) -> Result<Option<String>, Failure> {
    let statement = "WITH part AS (SELECT name FROM mnemon.namespaces WHERE present AND name > $2 ORDER BY name LIMIT $3), \
                     listed AS (INSERT INTO mnemon.reindexed (model, namespace) SELECT $1, name FROM part ON CONFLICT DO NOTHING) \
                     SELECT max(name) FROM part";
    let statement = client.prepare_cached(statement).await?;
    let last: Option<String> = client.query_one(&statement, &[&model, &escape(after), &PIECE]).await?.get(0);
    Ok(last.map(unescape))
}

/// Claims namespaces that no other machine works on, for a time. `None`: none is left.
pub(super) async fn claim(
    client: &Object,
    node: Uuid,
    ReindexId(model): ReindexId,
    limit: usize,
    time: Duration,
) -> Result<Option<Vec<String>>, Failure> {
    let claim = "UPDATE mnemon.reindexed AS old SET holder = $2, until = now() + $4::double precision * interval '1 second' \
                 FROM (SELECT namespace FROM mnemon.reindexed WHERE model = $1 AND version IS NULL AND (until IS NULL OR until < now()) \
                 ORDER BY namespace LIMIT $3 FOR UPDATE SKIP LOCKED) AS free \
                 WHERE old.model = $1 AND old.namespace = free.namespace RETURNING old.namespace";
    let claim = client.prepare_cached(claim).await?;
    let rows = client.query(&claim, &[&model, &node, &(limit as i64), &time.as_secs_f64()]).await?;
    if !rows.is_empty() {
        return Ok(Some(rows.iter().map(|row| unescape(row.get(0))).collect()));
    }
    let left = format!("SELECT 1 FROM mnemon.reindexed WHERE model = $1 AND version IS NULL AND {ON_PRIMARY} LIMIT 1");
    let left = client.prepare_cached(&left).await?;
    Ok(client.query_opt(&left, &[&model]).await?.map(|_| Vec::new()))
}

/// Extends the claims of this node by a time. With zero, gives them back.
pub(super) async fn keep(
    client: &Object,
    node: Uuid,
    ReindexId(model): ReindexId,
    time: Duration,
) -> Result<(), Failure> {
    let keep = "UPDATE mnemon.reindexed SET until = now() + $3::double precision * interval '1 second' \
                WHERE model = $1 AND holder = $2 AND version IS NULL";
    client.execute(keep, &[&model, &node, &time.as_secs_f64()]).await?;
    Ok(())
}

/// Records that all messages of a namespace have vectors, as of a version.
pub(super) async fn done(
    client: &Object,
    ReindexId(model): ReindexId,
    namespace: &str,
    version: u64,
) -> Result<(), Failure> {
    let done = "UPDATE mnemon.reindexed SET version = $3, until = NULL WHERE model = $1 AND namespace = $2";
    let done = client.prepare_cached(done).await?;
    client.execute(&done, &[&model, &escape(namespace), &(version as i64)]).await?;
    Ok(())
}

/// Returns the numbers of messages in the namespaces that are done, and in all.
pub(super) async fn progress(client: &Object, ReindexId(model): ReindexId) -> Result<(u64, u64), Failure> {
    let progress = "SELECT coalesce(sum(n.messages) FILTER (WHERE r.version IS NOT NULL), 0)::bigint, coalesce(sum(n.messages), 0)::bigint \
                    FROM mnemon.reindexed AS r JOIN mnemon.namespaces AS n ON n.name = r.namespace WHERE r.model = $1";
    let row = client.query_one(progress, &[&model]).await?;
    Ok((row.get::<_, i64>(0) as u64, row.get::<_, i64>(1) as u64))
}

/// Returns some namespaces with more messages than this.
pub(super) async fn larger(client: &Object, more_than: u64, limit: usize) -> Result<Vec<String>, Failure> {
    let sql =
        "SELECT name FROM mnemon.namespaces WHERE present AND name <> '' AND messages > $1 ORDER BY name LIMIT $2";
    let rows = client.query(sql, &[&(more_than as i64), &(limit as i64)]).await?;
    Ok(rows.iter().map(|row| unescape(row.get(0))).collect())
}

/// Lets a model serve on all machines, or records why it does not, in one transaction. The first machine that calls
/// this decides.
pub(super) async fn decide(
    client: &mut Object,
    ReindexId(model): ReindexId,
    verdict: &Verdict,
) -> Result<Decision, Failure> {
    let transaction = client.transaction().await?;
    let (serving, ..) = lock(&transaction).await?;
    if serving == model {
        return Ok(Decision::Serves);
    }
    let state = format!("SELECT state, reason FROM mnemon.models WHERE number = $1 AND {ON_PRIMARY}");
    let Some(row) = transaction.query_opt(&state, &[&model]).await? else { return Ok(Decision::GivenUp) };
    match (row.get::<_, &str>(0), row.get::<_, Option<String>>(1)) {
        ("building", _) => {}
        ("rejected", reason) => return Ok(Decision::Rejected(reason.unwrap_or_default())),
        _ => return Ok(Decision::GivenUp),
    }
    let left = format!("SELECT 1 FROM mnemon.reindexed WHERE model = $1 AND version IS NULL AND {ON_PRIMARY} LIMIT 1");
    if transaction.query_opt(&left, &[&model]).await?.is_some() {
        return Ok(Decision::NotYet);
    }
    let decision = match verdict {
        Verdict::Rejected(reason) => {
            let reject = "UPDATE mnemon.models SET state = 'rejected', reason = $2 WHERE number = $1";
            transaction.execute(reject, &[&model, reason]).await?;
            Decision::Rejected(reason.clone())
        }
        Verdict::Passed => {
            switch(&transaction, serving, model).await?;
            Decision::Serves
        }
    };
    transaction.commit().await?;
    Ok(decision)
}

async fn switch(transaction: &Transaction<'_>, from: i64, to: i64) -> Result<(), Failure> {
    let switch = "UPDATE mnemon.models SET since = now(), state = CASE number WHEN $2 THEN 'serving' ELSE 'previous' END \
                  WHERE number = $1 OR number = $2";
    transaction.execute(switch, &[&from, &to]).await?;
    Ok(())
}

/// Switches back to the previous model, if it is this one.
pub(super) async fn roll_back(client: &mut Object, to: &ModelIdentity) -> Result<RolledBack, Failure> {
    let transaction = client.transaction().await?;
    let (serving, hash, dimension) = lock(&transaction).await?;
    let is_wanted = |hash: &str, dimension: i64| (hash, dimension) == (to.hash.as_str(), to.dimension as i64);
    if is_wanted(&hash, dimension) {
        return Ok(RolledBack::Serves);
    }
    let previous = "SELECT number, hash, dimension, name FROM mnemon.models WHERE state = 'previous'";
    let previous = transaction.query_opt(previous, &[]).await?;
    match previous {
        Some(row) if is_wanted(row.get(1), row.get(2)) => switch(&transaction, serving, row.get(0)).await?,
        other => return Ok(RolledBack::NoPrevious(other.map(|row| row.get(3)))),
    }
    transaction.commit().await?;
    Ok(RolledBack::Serves)
}

/// Deletes the previous model, and returns its identity if there is one.
pub(super) async fn drop_previous(client: &Object) -> Result<Option<ModelIdentity>, Failure> {
    let delete = "DELETE FROM mnemon.models WHERE state = 'previous' RETURNING name, hash, dimension";
    let row = client.query_opt(delete, &[]).await?;
    Ok(row.as_ref().map(identity))
}
