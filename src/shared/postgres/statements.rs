//! The statements, made from the columns of the tables, and the values that they are sent with.
//!
//! Standard SQL as far as possible, so that databases that speak Postgres' protocol understand it. A conflict is an answer
//! and no error: a statement locks what it depends on, and stores nothing if that is not as it must be.

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::store::{Cell, Column, Kind, Table};

/// The columns of `namespaces` after the name and the versions, with their types.
pub(super) const HEAD: [(&str, &str); 12] = [
    ("present", "boolean"),
    ("next_seq", "bigint"),
    ("next_session", "bigint"),
    ("messages", "bigint"),
    ("language", "text"),
    ("documents", "bigint"),
    ("expiring", "bigint"),
    ("last_change", "bigint"),
    ("next_text", "bigint"),
    ("next_text_session", "bigint"),
    ("texts", "bigint"),
    ("ttl_micros", "bigint"),
];

pub(super) fn sql_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "boolean",
        Kind::Int => "bigint",
        Kind::Time => "timestamptz",
        Kind::Text => "text",
        Kind::Json => "json",
    }
}

/// Returns the type in which the values of a column are sent.
fn sent_type(kind: Kind) -> &'static str {
    if kind == Kind::Json { "text" } else { sql_type(kind) }
}

fn names(columns: &[Column]) -> impl Iterator<Item = String> {
    columns.iter().map(|(name, _)| format!("\"{name}\""))
}

fn list(parts: impl IntoIterator<Item = String>) -> String {
    list_with(", ", parts)
}

fn list_with(between: &str, parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().collect::<Vec<_>>().join(between)
}

/// Creates the table of rows, and its index.
pub(super) fn create(table: Table) -> String {
    let name = table.name();
    let column = |(name, kind): &Column, rest: &str| {
        let collation = if *kind == Kind::Text { " COLLATE \"C\"" } else { "" };
        format!("\"{name}\" {}{collation}{rest}", sql_type(*kind))
    };
    let columns = table.key().iter().map(|key| column(key, " NOT NULL"));
    let columns = list(columns.chain(table.value().iter().map(|value| column(value, ""))));
    let key = list(names(table.key()));
    format!(
        "CREATE TABLE mnemon.{name} (namespace text COLLATE \"C\" NOT NULL, version bigint NOT NULL, deleted boolean NOT NULL, \
         {columns}, PRIMARY KEY (namespace, {key})); \
         CREATE INDEX {name}_by_version ON mnemon.{name} (namespace, version);"
    )
}

/// Stores rows. Parameters: arrays of the namespaces, versions, whether they are deleted, keys and values.
pub(super) fn upsert(table: Table) -> String {
    let name = table.name();
    let sent: Vec<Column> = table.key().iter().chain(table.value()).copied().collect();
    let columns = list(names(&sent));
    let arrays = list(sent.iter().enumerate().map(|(at, (_, kind))| format!("${}::{}[]", at + 4, sent_type(*kind))));
    let values = list(sent.iter().map(|(name, kind)| match kind {
        Kind::Json => format!("new.\"{name}\"::json"),
        _ => format!("new.\"{name}\""),
    }));
    let key = list(names(table.key()));
    let set = list(
        ["version", "deleted"]
            .map(String::from)
            .into_iter()
            .chain(names(table.value()))
            .map(|name| format!("{name} = excluded.{name}")),
    );
    format!(
        "INSERT INTO mnemon.{name} (namespace, version, deleted, {columns}) \
         SELECT new.namespace, new.version, new.deleted, {values} \
         FROM unnest($1::text[], $2::bigint[], $3::boolean[], {arrays}) AS new(namespace, version, deleted, {columns}) \
         {ALWAYS} ON CONFLICT (namespace, {key}) DO UPDATE SET {set}"
    )
}

/// Removes rows whose keys are names. Parameters: arrays of the namespaces and keys.
pub(super) fn remove(table: Table) -> String {
    let (name, key) = (table.name(), list(names(table.key())));
    format!(
        "DELETE FROM mnemon.{name} AS old USING unnest($1::text[], $2::text[]) AS gone(namespace, {key}) \
         {ALWAYS} AND old.namespace = gone.namespace AND old.{key} = gone.{key}"
    )
}

/// The rows of a namespace that changed after a version: whether they are deleted, keys, values. From version 0 on,
/// what is deleted is left out.
pub(super) fn changed(table: Table) -> String {
    let name = table.name();
    let columns = list(table.key().iter().chain(table.value()).map(|(name, kind)| match kind {
        Kind::Json => format!("\"{name}\"::text"),
        _ => format!("\"{name}\""),
    }));
    format!(
        "SELECT deleted, {columns} FROM mnemon.{name} \
         WHERE namespace = $1 AND version > $2 AND NOT (deleted AND $2 = 0) AND {ON_PRIMARY}"
    )
}

/// A condition of a read that must see what was stored. Where a balancer sends reads to standbys, a statement with this
/// function is one for the primary.
pub(super) const ON_PRIMARY: &str = "(SELECT NOT pg_is_in_recovery())";

pub(super) fn clear(table: &str) -> String {
    format!("DELETE FROM mnemon.{table} WHERE namespace = ANY($1)")
}

/// Adds namespaces, and returns a row for each. Parameters: [`HEADS`] arrays, of the names, the versions, their stamps, the
/// stamps of the versions before, the versions of the last removal, and [`HEAD`].
fn add_namespaces() -> String {
    let columns = list(HEAD.map(|(name, _)| name.to_owned()));
    format!(
        "INSERT INTO mnemon.namespaces (name, version, stamp, cleared_at, {columns}) \
         SELECT name, version, stamp, cleared_at, {columns} FROM {} {ALWAYS} RETURNING 1",
        heads()
    )
}

/// Moves namespaces to their next versions, and returns a row for each that was at the version before. Parameters as in
/// [`add_namespaces`].
fn move_namespaces() -> String {
    let set = list(HEAD.map(|(name, _)| format!("{name} = new.{name}")));
    format!(
        "UPDATE mnemon.namespaces AS old SET version = new.version, stamp = new.stamp, \
         cleared_at = greatest(old.cleared_at, new.cleared_at), {set} FROM {} \
         {ALWAYS} AND old.name = new.name AND old.version = new.version - 1 AND old.stamp = new.old_stamp RETURNING 1",
        heads()
    )
}

/// The number of parameters of the statements on namespaces.
const HEADS: usize = 5 + HEAD.len();

/// Returns the parameters of the statements on namespaces, as rows.
fn heads() -> String {
    let columns = list(HEAD.map(|(name, _)| name.to_owned()));
    let arrays = list(HEAD.iter().enumerate().map(|(at, (_, kind))| format!("${}::{kind}[]", at + 6)));
    format!(
        "unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], {arrays}) \
         AS new(name, version, stamp, old_stamp, cleared_at, {columns})"
    )
}

/// The number of the last versions of a namespace whose stamps are kept.
pub(super) const STAMPS: i64 = 1024;

/// Notes the stamps of versions, in the places of those that are [`STAMPS`] older. Parameters: arrays of the names, the
/// versions, their stamps, the next sequence numbers, and the last changes of documents.
pub(super) fn note_stamps() -> String {
    format!(
        "INSERT INTO mnemon.stamps (namespace, place, version, stamp, next_seq, last_change) \
         SELECT new.namespace, new.version % {STAMPS}, new.version, new.stamp, new.next_seq, new.last_change \
         FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) \
         AS new(namespace, version, stamp, next_seq, last_change) {ALWAYS} \
         ON CONFLICT (namespace, place) DO UPDATE SET version = excluded.version, stamp = excluded.stamp, \
         next_seq = excluded.next_seq, last_change = excluded.last_change"
    )
}

/// The stamps of those of a namespace's versions that are still known, the newest first.
pub(super) const KNOWN: &str = "SELECT version, stamp, next_seq, last_change FROM mnemon.stamps \
     WHERE namespace = $1 AND version = ANY($2) AND (SELECT NOT pg_is_in_recovery()) ORDER BY version DESC";

/// A statement that adds namespaces, or moves them to their next versions, and returns how many.
pub(super) fn count_heads(are_new: bool) -> String {
    let statement = if are_new {
        add_namespaces().replace("RETURNING", "ON CONFLICT DO NOTHING RETURNING")
    } else {
        move_namespaces()
    };
    format!("WITH changed AS ({statement}) SELECT count(*) FROM changed")
}

/// Locks those namespaces that are at the versions before. Parameters as in [`move_namespaces`].
const LOCK: &str = "SELECT 1 FROM mnemon.namespaces AS old \
     JOIN unnest($1::text[], $2::bigint[], $4::bigint[]) AS new(name, version, old_stamp) ON old.name = new.name \
     WHERE old.version = new.version - 1 AND old.stamp = new.old_stamp ORDER BY old.name FOR NO KEY UPDATE OF old";

/// Locks namespaces, whatever version they are at. In the order in which others lock them.
pub(super) const TURN: &str = "SELECT 1 FROM mnemon.namespaces WHERE name = ANY($1) ORDER BY name FOR NO KEY UPDATE";

/// One statement for a whole transaction, which returns how many namespaces it changed: all, or none, and then nothing else
/// either, because one of them is at another version or the node at another epoch. If another machine adds the same
/// namespace at the same moment, it fails.
///
/// Parameters: the node, its epoch, the number of the write, then those of the statements on namespaces, which are new or not,
/// and those of the statements on rows, each with as many as given.
pub(super) fn one(are_new: &[bool], rows: &[(String, usize)]) -> String {
    let first = |at: usize| 3 + at * HEADS;
    let (mut parts, mut holds) = (Vec::new(), String::new());
    for (at, are_new) in are_new.iter().enumerate() {
        let names = format!("${}::text[]", first(at) + 1);
        if *are_new {
            holds.push_str(&format!(" AND NOT EXISTS (SELECT 1 FROM mnemon.namespaces WHERE name = ANY({names}))"));
        } else {
            parts.push(format!("locked AS ({})", shifted(LOCK, first(at))));
            holds.push_str(&format!(" AND (SELECT count(*) FROM locked) = cardinality({names})"));
        }
    }
    parts.push(format!("fenced AS ({NOTE}{holds} RETURNING 1)"));
    let holds = "WHERE EXISTS (SELECT 1 FROM fenced)";
    for (at, are_new) in are_new.iter().enumerate() {
        let statement = if *are_new { add_namespaces() } else { move_namespaces() };
        parts.push(format!("h{at} AS ({})", shifted(&statement, first(at)).replace(ALWAYS, holds)));
    }
    let mut first = first(are_new.len());
    for (at, (statement, parameters)) in rows.iter().enumerate() {
        parts.push(format!("r{at} AS ({})", shifted(statement, first).replace(ALWAYS, holds)));
        first += parameters;
    }
    let changed = list_with(" + ", (0..are_new.len()).map(|at| format!("(SELECT count(*) FROM h{at})")));
    format!("WITH {} SELECT {changed}", list(parts))
}

/// The condition of a statement that stores something, for [`one`] to replace.
pub(super) const ALWAYS: &str = "WHERE true";

/// Renumbers the parameters of a statement, to follow `first` others.
fn shifted(statement: &str, first: usize) -> String {
    let mut parts = statement.split('$');
    let mut shifted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
        let number: usize = part[..digits].parse().expect("a parameter has a number");
        shifted.push_str(&format!("${}{}", number + first, &part[digits..]));
    }
    shifted
}

/// Notes the last write of a node, if the node is at this epoch. Parameters: the node, its epoch, the number of the write.
pub(super) const NOTE: &str = "UPDATE mnemon.nodes SET last_write = $3 WHERE id = $1 AND epoch = $2";

/// Locks a node. Returns 1, or 0 if the node is at another epoch. Parameters: the node, its epoch.
pub(super) const FENCE: &str = "WITH fenced AS (SELECT 1 FROM mnemon.nodes WHERE id = $1 AND epoch = $2 FOR NO KEY UPDATE) \
     SELECT count(*) FROM fenced";

/// Returns how many namespaces are at another version, and keeps the others where they are until the transaction ends.
/// Parameters: arrays of names, versions, 0 for one that there never was, and stamps.
pub(super) const CHANGED: &str = "WITH known AS (SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS k(name, version, stamp)), \
     seen AS (SELECT found.name, found.version, found.stamp FROM mnemon.namespaces AS found JOIN known ON found.name = known.name \
     FOR SHARE OF found) SELECT count(*) FROM known LEFT JOIN seen ON known.name = seen.name \
     WHERE coalesce(seen.version, 0) <> known.version OR coalesce(seen.stamp, 0) <> known.stamp";

pub(super) fn head() -> String {
    let columns = list(HEAD.map(|(name, _)| name.to_owned()));
    format!("SELECT version, cleared_at, {columns}, stamp, pg_is_in_recovery() FROM mnemon.namespaces WHERE name = $1")
}

type BoxError = Box<dyn std::error::Error + Sync + Send>;

/// The microseconds between 1970, where ours begin, and 2000, where those of Postgres begin.
const YEARS_1970_TO_2000: i64 = 946_684_800_000_000;
/// The first moment of Postgres, in its microseconds: 4714-11-24 BC.
const FIRST_MOMENT: i64 = -211_813_488_000_000_000;

/// A `timestamptz`, in microseconds since 1970; `i64::MAX` is infinity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) i64);

impl ToSql for Time {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        let micros = if self.0 == i64::MAX { i64::MAX } else { self.0.saturating_sub(YEARS_1970_TO_2000) };
        if micros < FIRST_MOMENT {
            return Err("a time before the year -4713, which Postgres cannot store".into());
        }
        out.extend_from_slice(&micros.to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Time {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, BoxError> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Time(if micros == i64::MAX { i64::MAX } else { micros.saturating_add(YEARS_1970_TO_2000) }))
    }

    accepts!(TIMESTAMPTZ);
}

/// Text of Postgres has no U+0000. It is written as U+0001 and `0`, and U+0001 as itself and `1`; all other texts are
/// as they are.
pub(super) fn escape(text: &str) -> String {
    match text.contains(['\0', '\u{1}']) {
        false => text.to_owned(),
        true => text.replace('\u{1}', "\u{1}1").replace('\0', "\u{1}0"),
    }
}

pub(super) fn unescape(text: String) -> String {
    match text.contains('\u{1}') {
        false => text,
        true => text.replace("\u{1}0", "\0").replace("\u{1}1", "\u{1}"),
    }
}

/// A parameter of a statement: the values of one column.
pub(super) type Parameter = Box<dyn ToSql + Sync + Send>;

/// Makes an array parameter of the values of a column.
pub(super) fn array<'c>(kind: Kind, cells: impl Iterator<Item = &'c Cell>) -> Parameter {
    match kind {
        Kind::Bool => Box::new(
            cells.map(|cell| if let Cell::Bool(value) = cell { Some(*value) } else { None }).collect::<Vec<_>>(),
        ),
        Kind::Int => Box::new(
            cells.map(|cell| if let Cell::Int(value) = cell { Some(*value) } else { None }).collect::<Vec<_>>(),
        ),
        Kind::Time => Box::new(
            cells.map(|cell| if let Cell::Time(value) = cell { Some(Time(*value)) } else { None }).collect::<Vec<_>>(),
        ),
        Kind::Text => Box::new(
            cells.map(|cell| if let Cell::Text(value) = cell { Some(escape(value)) } else { None }).collect::<Vec<_>>(),
        ),
        // JSON has no U+0000 but as an escape.
        Kind::Json => Box::new(
            cells.map(|cell| if let Cell::Text(value) = cell { Some(value.clone()) } else { None }).collect::<Vec<_>>(),
        ),
    }
}

/// Reads the columns of a row from `first` on.
pub(super) fn cells(
    row: &tokio_postgres::Row,
    first: usize,
    columns: &[Column],
) -> Result<Vec<Cell>, tokio_postgres::Error> {
    let cell = |(at, (_, kind)): (usize, &Column)| {
        let at = first + at;
        let cell = match kind {
            Kind::Bool => row.try_get::<_, Option<bool>>(at)?.map(Cell::Bool),
            Kind::Int => row.try_get::<_, Option<i64>>(at)?.map(Cell::Int),
            Kind::Time => row.try_get::<_, Option<Time>>(at)?.map(|time| Cell::Time(time.0)),
            Kind::Text => row.try_get::<_, Option<String>>(at)?.map(|text| Cell::Text(unescape(text))),
            Kind::Json => row.try_get::<_, Option<String>>(at)?.map(Cell::Text),
        };
        Ok(cell.unwrap_or(Cell::Null))
    };
    columns.iter().enumerate().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_comes_back_and_has_no_zero(text in "[\u{0}\u{1}01a]{0,12}|.*") {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains('\0'));
            prop_assert_eq!(unescape(escaped), text);
        }
    }
}
