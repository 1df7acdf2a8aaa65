//! The schema of the shared database, and its versions.
//!
//! Migrations go forward only and run in one transaction, under an advisory lock where the database has them. A schema
//! says which is the oldest one whose programs may use it; they are refused by a newer one. So machines are upgraded one
//! after the other, unless a migration is one that the others must not miss.

use tokio_postgres::{Client, Transaction};

use super::{
    failure::{Failure, cause},
    models, statements,
};
use crate::{
    error::{Error, Result},
    ids::{hex, random_bytes},
    store::Table,
};

/// The version of the schema that this release makes and uses.
const SCHEMA: i64 = 1;

/// The oldest schema whose programs may use this one: what was added since does not concern them.
const OLDEST: i64 = 1;

/// The number of the advisory lock under which migrations run: "mnemon" in ASCII.
const LOCK: i64 = 0x6d6e_656d_6f6e;

/// The settings of a shared database, which its schema was made with.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The identity of this truth.
    pub(super) origin: String,
    /// True if vectors are stored in pgvector's type.
    pub(super) has_pgvector: bool,
}

/// Reads the settings; makes or upgrades the schema first, if it is missing or older.
pub(super) async fn prepare(client: &mut Client) -> Result<Settings> {
    if version(client).await?.is_none_or(|version| version < SCHEMA) {
        migrate(client).await?;
    }
    let oldest = setting(client, "oldest").await?;
    if oldest.parse().is_ok_and(|oldest: i64| oldest > SCHEMA) {
        let reason = format!(
            "its schema needs a release of mnemon that knows version {oldest}, and this one knows {SCHEMA}; upgrade this machine"
        );
        return Err(Error::SharedDatabase { reason, transient: false });
    }
    let origin = setting(client, "origin").await?;
    let has_pgvector = setting(client, "vectors").await? == "vector";
    Ok(Settings { origin, has_pgvector })
}

/// The version of the schema, or `None` if there is none.
async fn version(client: &Client) -> Result<Option<i64>> {
    let known = "SELECT 1 FROM information_schema.tables WHERE table_schema = 'mnemon' AND table_name = 'settings'";
    if client.query_opt(known, &[]).await.map_err(Failure::from)?.is_none() {
        return Ok(None);
    }
    let value = client
        .query_opt("SELECT value FROM mnemon.settings WHERE name = 'schema'", &[])
        .await
        .map_err(Failure::from)?;
    Ok(value.and_then(|row| row.get::<_, String>(0).parse().ok()))
}

async fn setting(client: &Client, name: &str) -> Result<String> {
    let found = client.query_opt("SELECT value FROM mnemon.settings WHERE name = $1", &[&name]).await;
    let missing = || Error::SharedDatabase { reason: format!("its schema has no setting {name:?}"), transient: false };
    found.map_err(Failure::from)?.map(|row| row.get(0)).ok_or_else(missing)
}

/// Returns the key that seals the memory in prompts.
pub(super) async fn seal_key(client: &Client) -> Result<[u8; 32]> {
    let stored = setting(client, "seal_key").await?;
    let bytes = (0..stored.len() / 2).map(|at| u8::from_str_radix(stored.get(2 * at..2 * at + 2)?, 16).ok());
    let key = bytes.collect::<Option<Vec<u8>>>().and_then(|bytes| bytes.try_into().ok());
    key.ok_or_else(|| Error::SharedDatabase { reason: "its setting \"seal_key\" is no key".into(), transient: false })
}

async fn migrate(client: &mut Client) -> Result<()> {
    let has_pgvector = make_extension(client).await;
    let mut transaction = client.transaction().await.map_err(Failure::from)?;
    // Without advisory locks, one of two migrations at a time fails, and the next opening finds the other's.
    attempt(&mut transaction, &format!("SELECT pg_advisory_xact_lock({LOCK})"), "advisory locks").await?;
    if version(transaction.client()).await?.is_none() {
        transaction.batch_execute(&create(has_pgvector)).await.map_err(Failure::from)?;
        attempt(&mut transaction, &row_level_security(), "row-level security").await?;
    }
    transaction.commit().await.map_err(Failure::from)?;
    Ok(())
}

/// Runs statements that some databases do not know.
async fn attempt(transaction: &mut Transaction<'_>, sql: &str, what: &str) -> Result<()> {
    let savepoint = transaction.savepoint("attempt").await.map_err(Failure::from)?;
    match savepoint.batch_execute(sql).await {
        Ok(()) => savepoint.commit().await.map_err(Failure::from)?,
        Err(error) => {
            tracing::warn!(error = cause(&error), "the shared database has no {what}");
            savepoint.rollback().await.map_err(Failure::from)?;
        }
    }
    Ok(())
}

/// Makes pgvector's type usable. Returns false if the database does not have it, or this role may not.
async fn make_extension(client: &Client) -> bool {
    let made = client.batch_execute("CREATE EXTENSION IF NOT EXISTS vector").await;
    let has_type = client.query_opt("SELECT 1 FROM pg_type WHERE typname = 'vector'", &[]).await;
    if let Err(error) = made {
        tracing::info!(error = cause(&error), "the shared database stores vectors as bytes, without pgvector");
    }
    matches!(has_type, Ok(Some(_)))
}

fn create(has_pgvector: bool) -> String {
    let head = statements::HEAD.map(|(name, kind)| format!("{name} {kind}")).join(", ");
    let mut sql = format!(
        "CREATE SCHEMA IF NOT EXISTS mnemon; \
         CREATE TABLE mnemon.settings (name text PRIMARY KEY, value text NOT NULL); \
         CREATE TABLE mnemon.namespaces (name text COLLATE \"C\" PRIMARY KEY, version bigint NOT NULL, cleared_at bigint NOT NULL, \
         {head}); \
         CREATE TABLE mnemon.nodes (id uuid PRIMARY KEY, epoch bigint NOT NULL, last_write bigint NOT NULL, \
         opened_at timestamptz NOT NULL DEFAULT now()); \
         CREATE TABLE mnemon.leases (namespace text COLLATE \"C\" NOT NULL, work text NOT NULL, holder uuid NOT NULL, \
         until timestamptz NOT NULL, PRIMARY KEY (namespace, work)); \
         CREATE TABLE mnemon.vectors (namespace text COLLATE \"C\" NOT NULL, is_text boolean NOT NULL, seq bigint NOT NULL, \
         model text COLLATE \"C\" NOT NULL, part bigint NOT NULL, revision bigint NOT NULL, vector {} NOT NULL, \
         PRIMARY KEY (namespace, is_text, seq, model, part)); \
         CREATE TABLE mnemon.tenants (role text NOT NULL, prefix text COLLATE \"C\" NOT NULL, PRIMARY KEY (role, prefix));",
        if has_pgvector { "vector" } else { "bytea" }
    );
    sql.push_str(models::CREATE);
    for table in Table::ALL {
        sql.push_str(&statements::create(table));
    }
    sql.push_str(&format!(
        "INSERT INTO mnemon.namespaces (name, version, cleared_at, present, next_seq, next_session, messages) \
         VALUES ('', 1, 0, true, 0, 0, 0); \
         INSERT INTO mnemon.settings VALUES ('schema', '{SCHEMA}'), ('oldest', '{OLDEST}'), ('origin', '{}'), ('vectors', '{}'), \
         ('seal_key', '{}');",
        uuid::Uuid::now_v7(),
        if has_pgvector { "vector" } else { "bytea" },
        hex(&random_bytes())
    ));
    sql
}

/// Lets a role other than the owner see only the namespaces under the prefixes that `tenants` gives it, the legal holds
/// that concern them, and what has no name: versions of the common rows, and the audit.
fn row_level_security() -> String {
    let under = |column: &str| format!("{column} = t.prefix OR left({column}, length(t.prefix) + 1) = t.prefix || '/'");
    let tenant = |condition: String| {
        format!("EXISTS (SELECT 1 FROM mnemon.tenants AS t WHERE t.role = current_user AND ({condition}))")
    };
    let policy = |table: &str, condition: String| {
        format!(
            "ALTER TABLE mnemon.{table} ENABLE ROW LEVEL SECURITY; \
             CREATE POLICY {table}_of_tenants ON mnemon.{table} USING ({condition}) WITH CHECK ({condition});"
        )
    };
    let own = |column: &str| tenant(under(column));
    let mut sql = policy("namespaces", format!("name = '' OR {}", own("name")));
    for table in Table::ALL {
        let condition = match table {
            Table::Audit => "true".to_owned(),
            // A hold above the prefix concerns what is under it.
            Table::Holds => tenant(format!("{} OR left(t.prefix, length(held) + 1) = held || '/'", under("held"))),
            _ => own("namespace"),
        };
        sql.push_str(&policy(table.name(), condition));
    }
    for table in ["vectors", "leases", "reindexed"] {
        sql.push_str(&policy(table, own("namespace")));
    }
    sql
}
