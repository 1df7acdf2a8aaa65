//! Pulls: reading what other machines stored after a version.

use deadpool_postgres::Object;
use futures_util::future::join5;
use tokio_postgres::{Row as Answer, types::ToSql};

use super::{
    failure::{Failure, all},
    statements::{self, cells, escape, unescape},
};
use crate::store::{COMMON, Change, DocumentHead, Head, History, Parted, Row, Table, Version};

/// The column of the stamp in [`statements::head`].
const STAMP: usize = 2 + statements::HEAD.len();

/// Returns the names and versions of those of the namespaces that exist.
pub(super) async fn versions(client: &Object, namespaces: &[String]) -> Result<Vec<(String, Version)>, Failure> {
    let statement = "SELECT found.version, found.stamp, found.name, pg_is_in_recovery() FROM (VALUES (1)) AS one \
                     LEFT JOIN mnemon.namespaces AS found ON found.name = ANY($1)";
    let statement = client.prepare_cached(statement).await?;
    let names: Vec<String> = namespaces.iter().map(|name| escape(name)).collect();
    let rows = client.query(&statement, &[&names]).await?;
    check_primary(rows.first(), 3)?;
    let found = rows.iter().filter_map(|row| Some((unescape(row.get::<_, Option<String>>(2)?), version(row))));
    Ok(found.collect())
}

/// Fails if a statement was answered by a standby, which may be behind: a balancer may choose a server for each statement.
fn check_primary(row: Option<&Answer>, column: usize) -> Result<(), Failure> {
    match row.is_some_and(|row| row.get(column)) {
        true => Err(Failure::NoConnection("a standby answered instead of the primary".into())),
        false => Ok(()),
    }
}

/// Reads a version from the first two columns.
fn version(row: &Answer) -> Version {
    Version { number: row.get::<_, i64>(0) as u64, stamp: row.get(1) }
}

/// Returns all namespaces that exist or existed, or those under a prefix: name, version, and whether it exists.
pub(super) async fn namespaces(client: &Object, prefix: Option<&str>) -> Result<Vec<(String, Version, bool)>, Failure> {
    // '0' follows '/'.
    let statement = "SELECT version, stamp, name, present, pg_is_in_recovery() FROM (VALUES (1)) AS one \
                     LEFT JOIN mnemon.namespaces ON name <> '' \
                     AND ($1::text IS NULL OR name = $1 OR (name >= $1 || '/' AND name < $1 || '0')) ORDER BY name";
    let statement = client.prepare_cached(statement).await?;
    let rows = client.query(&statement, &[&prefix.map(escape)]).await?;
    check_primary(rows.first(), 4)?;
    let found = |row: &Answer| Some((unescape(row.get::<_, Option<String>>(2)?), version(row), row.get(3)));
    Ok(rows.iter().filter_map(found).collect())
}

/// Reads what changed in a namespace after the newest version in `history`, as of one moment. `None` if nothing changed.
/// If the primary does not have that version, any more or at all, reads everything.
pub(super) async fn pull(client: &Object, namespace: &str, history: &History) -> Result<Option<Change>, Failure> {
    let base = history.version();
    // Mostly nothing changed, which one short statement says.
    let found = versions(client, &[namespace.to_owned()]).await?;
    if found.first().map_or(Version::NONE, |(_, version)| *version) == base {
        return Ok(None);
    }
    let change = match read(client, namespace, history, base.number).await? {
        Read::Change(change) => change,
        Read::NotContinued => match read(client, namespace, history, 0).await? {
            Read::Change(change) => change,
            Read::NotContinued => unreachable!("everything was read"),
        },
    };
    Ok((change.version != base).then_some(change))
}

#[expect(clippy::large_enum_variant, reason = "there is one for each pull, which is moved once")]
enum Read {
    Change(Change),
    /// The primary does not have the version after which rows were read.
    NotContinued,
}

/// Reads the rows of a namespace after a version, which is the newest in `history` or 0.
async fn read(client: &Object, namespace: &str, history: &History, since: u64) -> Result<Read, Failure> {
    let tables: Vec<Table> = Table::all().filter(|table| table.is_common() == (namespace == COMMON)).collect();
    let (head, known) =
        (client.prepare_cached(&statements::head()).await?, client.prepare_cached(statements::KNOWN).await?);
    let mut prepared = Vec::with_capacity(tables.len());
    for table in &tables {
        prepared.push(client.prepare_cached(&statements::changed(*table)).await?);
    }
    let (name, from) = (escape(namespace), since as i64);
    let numbers: Vec<i64> = history.0.iter().map(|version| version.number as i64).collect();
    let parameters: [&(dyn ToSql + Sync); 2] = [&name, &from];
    let of_history: [&(dyn ToSql + Sync); 2] = [&name, &numbers];
    // All in one round trip.
    let begin = client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    let head = client.query_opt(&head, &parameters[..1]);
    let known = client.query(&known, &of_history);
    let rows = all(prepared.iter().map(|prepared| client.query(prepared, &parameters)));
    let commit = client.batch_execute("COMMIT");
    let (begun, head, known, rows, committed) = join5(begin, head, known, rows, commit).await;
    begun?;
    let (head, known, rows) = (head?, known?, rows?);
    committed?;
    check_primary(head.as_ref(), STAMP + 1)?;
    let (base, namespace) = (history.version(), namespace.to_owned());
    let Some(head) = head else {
        let parted = Some(Parted { version: Version::NONE, counters: None });
        let (version, head) = (Version::NONE, Head::default());
        return Ok(Read::Change(Change {
            namespace,
            base,
            version,
            is_from_scratch: true,
            parted,
            head,
            rows: Vec::new(),
        }));
    };
    let version = Version { number: head.get::<_, i64>(0) as u64, stamp: head.get(STAMP) };
    let lineage = Lineage::of(history, version, &known);
    if since > 0 && lineage != Lineage::Continued {
        return Ok(Read::NotContinued);
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
    Ok(Read::Change(Change {
        namespace,
        base,
        version,
        is_from_scratch: since == 0 || head.get::<_, i64>(1) as u64 > since,
        parted: if let Lineage::Parted(parted) = lineage { Some(parted) } else { None },
        head: read_head(&head),
        rows: found,
    }))
}

/// The relation between what a replica knows of a namespace and what its primary has.
#[derive(Debug, PartialEq)]
enum Lineage {
    /// The primary has the replica's version, and perhaps later ones.
    Continued,
    /// The primary had the replica's version so long ago that it does not know any more, if it ever had it.
    Unknown,
    /// The primary never had the replica's version, or has lost it.
    Parted(Parted),
}

impl Lineage {
    /// Compares a history with the version that the primary is at, and with what it knows of the versions in the history.
    fn of(history: &History, now: Version, known: &[Answer]) -> Self {
        let base = history.version();
        // The common rows of every database begin at a version that nobody pushed.
        let is_first = base == Version { number: 1, stamp: 0 };
        let shared = known.iter().find(|row| history.0.contains(&version(row)));
        match shared {
            _ if base == now || base == Version::NONE || is_first => Lineage::Continued,
            Some(row) if version(row) == base => Lineage::Continued,
            _ if base.number < now.number && known.iter().all(|row| version(row).number != base.number) => {
                Lineage::Unknown
            }
            Some(row) => {
                let counters = Some((row.get::<_, i64>(2) as u64, row.get::<_, i64>(3) as u64));
                Lineage::Parted(Parted { version: version(row), counters })
            }
            None => Lineage::Parted(Parted { version: Version::NONE, counters: None }),
        }
    }
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
