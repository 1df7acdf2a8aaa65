//! Pulls: reading what other machines stored after a version.

use deadpool_postgres::Object;
use futures_util::future::join4;
use tokio_postgres::{Row as Answer, types::ToSql};

use super::{
    failure::{Failure, all},
    statements::{self, cells, escape, unescape},
};
use crate::store::{COMMON, Change, DocumentHead, Head, Row, Table};

/// Returns the names and versions of those of the namespaces that exist.
pub(super) async fn versions(client: &Object, namespaces: &[String]) -> Result<Vec<(String, u64)>, Failure> {
    let statement = client.prepare_cached("SELECT name, version FROM mnemon.namespaces WHERE name = ANY($1)").await?;
    let names: Vec<String> = namespaces.iter().map(|name| escape(name)).collect();
    let rows = client.query(&statement, &[&names]).await?;
    Ok(rows.iter().map(|row| (unescape(row.get(0)), row.get::<_, i64>(1) as u64)).collect())
}

/// Returns all namespaces that exist or existed, or those under a prefix: name, version, and whether it exists.
pub(super) async fn namespaces(client: &Object, prefix: Option<&str>) -> Result<Vec<(String, u64, bool)>, Failure> {
    // '0' follows '/'.
    let statement = "SELECT name, version, present FROM mnemon.namespaces WHERE name <> '' \
                     AND ($1::text IS NULL OR name = $1 OR (name >= $1 || '/' AND name < $1 || '0')) ORDER BY name";
    let statement = client.prepare_cached(statement).await?;
    let rows = client.query(&statement, &[&prefix.map(escape)]).await?;
    Ok(rows.iter().map(|row| (unescape(row.get(0)), row.get::<_, i64>(1) as u64, row.get(2))).collect())
}

/// Reads what changed in a namespace after a version, as of one moment. `None` if nothing changed.
pub(super) async fn pull(client: &Object, namespace: &str, since: u64) -> Result<Option<Change>, Failure> {
    // Mostly nothing changed, which one short statement says.
    if since > 0 {
        let found = versions(client, &[namespace.to_owned()]).await?;
        if found.first().is_none_or(|(_, version)| *version == since) {
            return Ok(None);
        }
    }
    let tables: Vec<Table> = Table::all().filter(|table| table.is_common() == (namespace == COMMON)).collect();
    let head = client.prepare_cached(&statements::head()).await?;
    let mut prepared = Vec::with_capacity(tables.len());
    for table in &tables {
        prepared.push(client.prepare_cached(&statements::changed(*table)).await?);
    }
    let (name, from) = (escape(namespace), since as i64);
    let parameters: [&(dyn ToSql + Sync); 2] = [&name, &from];
    // All in one round trip.
    let begin = client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    let head = client.query_opt(&head, &parameters[..1]);
    let rows = all(prepared.iter().map(|prepared| client.query(prepared, &parameters)));
    let commit = client.batch_execute("COMMIT");
    let (begun, head, rows, committed) = join4(begin, head, rows, commit).await;
    begun?;
    let (head, rows) = (head?, rows?);
    committed?;
    let Some(head) = head else { return Ok(None) };
    let (version, cleared_at) = (head.get::<_, i64>(0) as u64, head.get::<_, i64>(1) as u64);
    if version == since {
        return Ok(None);
    }
    let mut found = Vec::with_capacity(rows.iter().map(Vec::len).sum());
    for (table, rows) in tables.into_iter().zip(rows) {
        for row in rows {
            let key = cells(&row, 1, table.key())?;
            let is_deleted: bool = row.get(0);
            let value = (!is_deleted).then(|| cells(&row, 1 + key.len(), table.value())).transpose()?;
            found.push(Row { table, key, value });
        }
    }
    Ok(Some(Change {
        namespace: namespace.to_owned(),
        base: since,
        version,
        is_from_scratch: cleared_at > since,
        head: read_head(&head),
        rows: found,
    }))
}

fn read_head(row: &Answer) -> Head {
    let number = |at: usize| row.get::<_, Option<i64>>(at).unwrap_or_default() as u64;
    Head {
        exists: row.get(2),
        next_seq: number(3),
        next_session: number(4) as u32,
        messages: number(5),
        language: row.get(6),
        documents: row.get::<_, Option<i64>>(7).map(|documents| DocumentHead {
            documents: documents as u64,
            expiring: number(8),
            last_change: number(9),
            next_text: number(10),
            next_session: number(11) as u32,
            texts: number(12),
        }),
        ttl: row.get(13),
    }
}
