//! Vectors that one machine computed and offers to the others.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::Object;
use pgvector::Vector;
use tokio_postgres::{Client, types::ToSql};

use super::{
    failure::{Failure, cause},
    statements::{ALWAYS, Parameter, STAMPS, escape, unescape},
};
use crate::{
    ids::ModelIdentity,
    shared::{SharedVectors, WantedVectors},
};

/// The type of vectors, `None` without pgvector: its quoted name with its schema, which may not be in the search path. It can
/// be made from an array of numbers.
const TYPE: &str = "SELECT format('%I.vector', schema.nspname) FROM pg_catalog.pg_type AS kind \
     JOIN pg_catalog.pg_namespace AS schema ON schema.oid = kind.typnamespace \
     JOIN pg_catalog.pg_cast AS made ON made.casttarget = kind.oid AND made.castsource = 'real[]'::regtype AND made.castcontext <> 'e' \
     WHERE kind.typname = 'vector' AND has_schema_privilege(schema.oid, 'USAGE')";

/// The type of the column of vectors; no row if there is no column.
const COLUMN: &str = "SELECT kind.typname::text FROM pg_catalog.pg_attribute AS found \
     JOIN pg_catalog.pg_type AS kind ON kind.oid = found.atttypid \
     WHERE found.attrelid = to_regclass('mnemon.vectors') AND found.attname = 'vector' AND NOT found.attisdropped";

/// Returns the name of pgvector's type, for statements that make tables. Creates its extension. `None` if the database does not
/// have it, or this role must not create it.
pub(super) async fn make_type(client: &Client) -> Option<String> {
    let made = client.batch_execute("CREATE EXTENSION IF NOT EXISTS vector").await;
    let found = client.query(TYPE, &[]).await.ok().and_then(|rows| Some(rows.first()?.get(0)));
    if let (Err(error), None) = (made, &found) {
        tracing::info!(error = cause(&error), "the shared database stores vectors as bytes, without pgvector");
    }
    found
}

/// Returns true if vectors are stored in pgvector's type; `None` if they are not stored, because the extension was dropped and
/// the column with it.
pub(super) async fn are_of_pgvector(client: &Client) -> Result<Option<bool>, Failure> {
    let column = client.query_opt(COLUMN, &[]).await?;
    Ok(column.map(|row| row.get::<_, &str>(0) == "vector"))
}

/// Deletes the vectors of messages. Parameters: arrays of namespaces and sequence numbers, and whether they are texts
/// of documents.
pub(super) fn delete() -> String {
    format!(
        "DELETE FROM mnemon.vectors AS old USING unnest($1::text[], $2::bigint[]) AS gone(namespace, seq) \
         {ALWAYS} AND old.namespace = gone.namespace AND old.seq = gone.seq AND old.is_text = $3::boolean"
    )
}

/// Stores vectors of messages that are at their revision, of replicas whose version is known. The lock on the messages orders
/// this with their deletion.
///
/// Vectors of pgvector are sent as one array of all their components, of which each row takes its part. So no statement names
/// the type, which may be in any schema, and in another one tomorrow.
fn insert(pgvector: bool, is_text: bool) -> String {
    let messages = if is_text { "document_texts" } else { "messages" };
    let (vector, sent) = match pgvector {
        true => ("($6::real[])[(new.at - 1) * $10::bigint + 1 : new.at * $10::bigint]", ""),
        false => ("new.vector", ", $6::bytea[]"),
    };
    let columns = if pgvector { "at" } else { "vector, at" };
    format!(
        "WITH current AS (SELECT message.namespace, message.seq FROM mnemon.{messages} AS message \
         JOIN (SELECT DISTINCT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $8::bigint[], $9::bigint[]) \
         AS u(namespace, seq, revision, version, stamp)) AS wanted \
         ON message.namespace = wanted.namespace AND message.seq = wanted.seq \
         JOIN mnemon.stamps AS known ON known.namespace = wanted.namespace AND known.place = wanted.version % {STAMPS} \
         AND known.version = wanted.version AND known.stamp = wanted.stamp \
         WHERE NOT message.deleted AND message.revision = wanted.revision FOR SHARE OF message) \
         INSERT INTO mnemon.vectors (namespace, is_text, seq, model, part, revision, text_hash, vector) \
         SELECT new.namespace, {is_text}, new.seq, $7::text, new.part, new.revision, new.text_hash, {vector} \
         FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]{sent}) WITH ORDINALITY \
         AS new(namespace, seq, revision, text_hash, part, {columns}) \
         JOIN current ON current.namespace = new.namespace AND current.seq = new.seq \
         ON CONFLICT (namespace, is_text, seq, model, part) DO UPDATE SET revision = excluded.revision, \
         text_hash = excluded.text_hash, vector = excluded.vector"
    )
}

/// Reads the vectors of messages of one namespace. For a join with all wanted messages, Postgres would read the whole
/// table.
const SELECT: &str = "SELECT seq, revision, text_hash, vector FROM mnemon.vectors \
     WHERE namespace = $1 AND is_text = $2 AND seq = ANY($3) AND model = $4 ORDER BY seq, part";

/// Returns the name under which the vectors of a model are stored.
fn name(model: &ModelIdentity) -> String {
    format!("{}:{}", model.name, model.hash)
}

pub(super) async fn get(
    client: &Object,
    pgvector: bool,
    model: &ModelIdentity,
    wanted: &[WantedVectors],
) -> Result<Vec<Option<Vec<Vec<f32>>>>, Failure> {
    let statement = client.prepare_cached(SELECT).await?;
    let mut places: BTreeMap<(&str, bool), HashMap<i64, usize>> = BTreeMap::new();
    for (at, wanted) in wanted.iter().enumerate() {
        places.entry((&wanted.namespace, wanted.is_text)).or_default().insert(wanted.seq as i64, at);
    }
    let mut found: Vec<Option<Vec<Vec<f32>>>> = vec![None; wanted.len()];
    for ((namespace, is_text), places) in places {
        let seqs: Vec<i64> = places.keys().copied().collect();
        for row in client.query(&statement, &[&escape(namespace), &is_text, &seqs, &name(model)]).await? {
            let at = places[&row.get::<_, i64>(0)];
            if (row.get::<_, i64>(1) as u64, row.get(2)) != (wanted[at].revision, wanted[at].text_hash) {
                continue;
            }
            let vector = match pgvector {
                true => row.try_get::<_, Vector>(3)?.to_vec(),
                false => from_bytes(row.try_get(3)?),
            };
            found[at].get_or_insert_default().push(vector);
        }
    }
    // Vectors of another dimension are not of this model.
    for vectors in &mut found {
        if vectors.as_ref().is_some_and(|vectors| vectors.iter().any(|vector| vector.len() != model.dimension)) {
            *vectors = None;
        }
    }
    Ok(found)
}

/// Returns the statements that store vectors, with their parameters.
pub(super) fn inserts(
    pgvector: bool,
    model: &ModelIdentity,
    offered: &[SharedVectors<'_>],
) -> Vec<(String, Vec<Parameter>)> {
    let mut inserts = Vec::new();
    for is_text in [false, true] {
        let (mut namespaces, mut seqs, mut revisions) = (Vec::new(), Vec::new(), Vec::new());
        let (mut hashes, mut parts) = (Vec::new(), Vec::new());
        let (mut versions, mut stamps, mut vectors) = (Vec::new(), Vec::new(), Vec::<&[f32]>::new());
        for SharedVectors { of, version, vectors: windows } in
            offered.iter().filter(|offered| offered.of.is_text == is_text)
        {
            for (part, vector) in windows.iter().enumerate() {
                namespaces.push(escape(&of.namespace));
                seqs.push(of.seq as i64);
                revisions.push(of.revision as i64);
                hashes.push(of.text_hash);
                parts.push(part as i64);
                versions.push(version.number as i64);
                stamps.push(version.stamp);
                vectors.push(vector);
            }
        }
        if vectors.is_empty() {
            continue;
        }
        let vectors: Parameter = match pgvector {
            true => Box::new(vectors.concat()),
            false => Box::new(vectors.iter().map(|vector| to_bytes(vector)).collect::<Vec<_>>()),
        };
        let mut parameters: Vec<Parameter> = vec![
            Box::new(namespaces),
            Box::new(seqs),
            Box::new(revisions),
            Box::new(hashes),
            Box::new(parts),
            vectors,
            Box::new(name(model)),
            Box::new(versions),
            Box::new(stamps),
        ];
        if pgvector {
            parameters.push(Box::new(model.dimension as i64));
        }
        inserts.push((insert(pgvector, is_text), parameters));
    }
    inserts
}

pub(super) async fn put(client: &Object, inserts: &[(String, Vec<Parameter>)]) -> Result<(), Failure> {
    for (insert, parameters) in inserts {
        let statement = client.prepare_cached(insert).await?;
        let parameters: Vec<&(dyn ToSql + Sync)> =
            parameters.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        client.execute(&statement, &parameters).await?;
    }
    Ok(())
}

/// Deletes the vectors of a model in the next namespaces after a name. Returns the last of them; `None` when all are
/// done.
pub(super) async fn forget(client: &Object, model: &ModelIdentity, after: &str) -> Result<Option<String>, Failure> {
    let statement = "WITH part AS (SELECT name FROM mnemon.namespaces WHERE name > $2 ORDER BY name LIMIT 1000), \
                     gone AS (DELETE FROM mnemon.vectors WHERE model = $1 AND namespace IN (SELECT name FROM part)) \
                     SELECT max(name) FROM part";
    let statement = client.prepare_cached(statement).await?;
    let last: Option<String> = client.query_one(&statement, &[&name(model), &escape(after)]).await?.get(0);
    Ok(last.map(unescape))
}

fn to_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|component| component.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|component| f32::from_le_bytes(*component)).collect()
}
