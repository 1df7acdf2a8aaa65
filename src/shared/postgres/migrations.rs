//! The schema of the shared database, and its versions.
//!
//! Migrations go forward only and run in one transaction, under an advisory lock where the database has them. A schema
//! says which is the oldest one whose programs may use it; they are refused by a newer one. So machines are upgraded
//! one after the other, unless a migration is one that the others must not miss.

use tokio_postgres::{Client, Transaction};

use super::{
    failure::{Failure, cause},
    models,
    statements::{self, ON_PRIMARY},
    vectors,
};
use crate::{
    error::{Error, Result},
    ids::{hex, random_bytes},
    store::Table,
};

/// The version of the schema that this release creates and uses.
const SCHEMA: i64 = 4;

/// The oldest version whose programs may use this schema: they do not need to know what was added since.
///
/// Version 4: programs of version 3 would note no stamps, and go on with a replica that is ahead of the primary.
/// Version 3: programs of version 2 would go on returning messages that have expired, drop when messages expire, and leave
/// versions of messages that they delete.
/// Version 2: programs of version 1 would not understand keys of deleted rows that do not say the name, and would go on
/// returning documents that others deleted.
const OLDEST: i64 = 4;

/// The number of the advisory lock under which migrations run: "mnemon" in ASCII.
const LOCK: i64 = 0x6d6e_656d_6f6e;

/// The settings of a shared database, stored when its schema was created.
#[derive(Clone)]
pub(super) struct Settings {
    /// The identity of this database.
    pub(super) origin: String,
    /// True if vectors are stored in pgvector's type.
    pub(super) has_pgvector: bool,
    /// The key that seals the memory in prompts, and hides names of deleted rows.
    pub(super) seal_key: [u8; 32],
}

/// Reads the settings; makes or upgrades the schema first, if it is missing or older.
pub(super) async fn prepare(client: &mut Client) -> Result<Settings> {
    let found = version(client).await?;
    match found {
        None => check_rights(client).await?,
        Some(_) => check_not_distributed(client).await?,
    }
    if found.is_none_or(|version| version < SCHEMA) {
        if let Some(found) = found
            && !may_migrate(client).await?
        {
            let reason = format!(
                "its schema is of version {found}, and this release needs version {SCHEMA}; open it once as the role that owns \
                 the schema, which upgrades it"
            );
            return Err(Error::SharedDatabase { reason, transient: false });
        }
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
    let has_pgvector = has_pgvector(client).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "vectors are not shared; each machine makes its own");
        false
    });
    let seal_key = seal_key(client).await?;
    Ok(Settings { origin, has_pgvector, seal_key })
}

/// The rights of the connected role to the schema of the tables. The first three columns are false or null if there is no schema.
const RIGHTS: &str = "SELECT schema.oid IS NOT NULL, has_schema_privilege(schema.oid, 'USAGE') AND has_schema_privilege(schema.oid, 'CREATE'), \
     EXISTS (SELECT 1 FROM pg_catalog.pg_class AS made WHERE made.relnamespace = schema.oid AND made.relname = 'settings'), \
     has_database_privilege(current_database(), 'CREATE'), quote_ident(current_user) \
     FROM (VALUES (1)) AS one LEFT JOIN pg_catalog.pg_namespace AS schema ON schema.nspname = 'mnemon'";

/// Checks that this role may make the tables, which it does not see.
///
/// # Errors
/// [`Error::SharedDatabase`]: it may not. Says which statements of an administrator let it.
async fn check_rights(client: &Client) -> Result<()> {
    let row = client.query_one(RIGHTS, &[]).await.map_err(Failure::from)?;
    let (has_schema, has_tables): (bool, bool) = (row.get(0), row.get(2));
    let may_use = row.get::<_, Option<bool>>(1).unwrap_or(false);
    let (may_create, role): (bool, &str) = (row.get(3), row.get(4));
    let reason = match (has_schema, has_tables) {
        (true, true) => format!(
            "the role {role} has no rights on its tables; the role that owns them grants these: \
             GRANT USAGE ON SCHEMA mnemon TO {role}; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mnemon TO {role};"
        ),
        (true, false) if !may_use => format!(
            "its schema \"mnemon\" has no tables, and the role {role} may not make them; an administrator runs: \
             GRANT USAGE, CREATE ON SCHEMA mnemon TO {role};"
        ),
        (false, _) if !may_create => format!(
            "it has no schema \"mnemon\", and the role {role} may not make one; an administrator runs: \
             CREATE SCHEMA mnemon AUTHORIZATION {role};"
        ),
        _ => return Ok(()),
    };
    Err(Error::SharedDatabase { reason, transient: false })
}

/// Checks that the tables are not distributed over the nodes of Citus: it can run neither the statement that stores vectors nor
/// the one that takes leases, and their failures would be seen in the log alone.
async fn check_not_distributed(client: &Client) -> Result<()> {
    let known = "SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL";
    if !client.query_one(known, &[]).await.map_err(Failure::from)?.get::<_, bool>(0) {
        return Ok(());
    }
    let distributed = "SELECT logicalrelid::text FROM pg_catalog.pg_dist_partition JOIN pg_catalog.pg_class AS made ON made.oid = logicalrelid \
                       WHERE made.relnamespace = to_regnamespace('mnemon') AND partmethod <> 'n' ORDER BY 1 LIMIT 1";
    match client.query_opt(distributed, &[]).await.map_err(Failure::from)? {
        None => Ok(()),
        Some(row) => {
            let table: &str = row.get(0);
            let reason = format!(
                "its table {table} is distributed by Citus, which is not supported: vectors and leases could not be stored; \
                 run SELECT undistribute_table('{table}') for each table of the schema \"mnemon\""
            );
            Err(Error::SharedDatabase { reason, transient: false })
        }
    }
}

/// Returns true if vectors are stored in pgvector's type. If its extension was dropped, and the column with it, makes a column
/// of bytes.
///
/// # Errors
/// [`Error::SharedDatabase`]: this role must not make it.
pub(super) async fn has_pgvector(client: &mut Client) -> Result<bool> {
    if let Some(has_pgvector) = vectors::are_of_pgvector(client).await? {
        return Ok(has_pgvector);
    }
    if !may_migrate(client).await? {
        let reason = "the column of its table mnemon.vectors is gone, as the extension pgvector was dropped; open it once as the \
                      role that owns the schema, which makes a column of bytes";
        return Err(Error::SharedDatabase { reason: reason.into(), transient: false });
    }
    let mut transaction = client.transaction().await.map_err(Failure::from)?;
    attempt(&mut transaction, &format!("SELECT pg_advisory_xact_lock({LOCK})"), "advisory locks").await?;
    let found = vectors::are_of_pgvector(transaction.client()).await?;
    if found.is_none() {
        let (create, make) =
            (create_vectors("bytea"), "ALTER TABLE mnemon.vectors ADD COLUMN IF NOT EXISTS vector bytea NOT NULL");
        let sql = format!(
            "{create} TRUNCATE mnemon.vectors; {make}; UPDATE mnemon.settings SET value = 'bytea' WHERE name = 'vectors';"
        );
        transaction.batch_execute(&sql).await.map_err(Failure::from)?;
        attempt(&mut transaction, &row_level_security(), "row-level security").await?;
        transaction.commit().await.map_err(Failure::from)?;
        tracing::warn!(
            "the shared database has lost pgvector, and all vectors with it: they are stored as bytes from now on"
        );
    }
    Ok(found.unwrap_or(false))
}

/// Returns true if this role owns the schema.
async fn may_migrate(client: &Client) -> Result<bool> {
    let owned = "SELECT pg_catalog.pg_has_role(relowner, 'USAGE') FROM pg_catalog.pg_class \
                 WHERE oid = 'mnemon.settings'::regclass";
    Ok(client.query_one(owned, &[]).await.map_err(Failure::from)?.get(0))
}

/// Returns the version of the schema; `None` if there is no schema.
async fn version(client: &Client) -> Result<Option<i64>> {
    let known = format!(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = 'mnemon' AND table_name = 'settings' AND {ON_PRIMARY}"
    );
    if client.query_opt(&known, &[]).await.map_err(Failure::from)?.is_none() {
        return Ok(None);
    }
    let value = format!("SELECT value FROM mnemon.settings WHERE name = 'schema' AND {ON_PRIMARY}");
    let value = client.query_opt(&value, &[]).await.map_err(Failure::from)?;
    Ok(value.and_then(|row| row.get::<_, String>(0).parse().ok()))
}

async fn setting(client: &Client, name: &str) -> Result<String> {
    let sql = format!("SELECT value FROM mnemon.settings WHERE name = $1 AND {ON_PRIMARY}");
    let found = client.query_opt(&sql, &[&name]).await;
    let missing = || Error::SharedDatabase { reason: format!("its schema has no setting {name:?}"), transient: false };
    found.map_err(Failure::from)?.map(|row| row.get(0)).ok_or_else(missing)
}

async fn seal_key(client: &Client) -> Result<[u8; 32]> {
    let stored = setting(client, "seal_key").await?;
    let bytes = (0..stored.len() / 2).map(|at| u8::from_str_radix(stored.get(2 * at..2 * at + 2)?, 16).ok());
    let key = bytes.collect::<Option<Vec<u8>>>().and_then(|bytes| bytes.try_into().ok());
    key.ok_or_else(|| Error::SharedDatabase { reason: "its setting \"seal_key\" is no key".into(), transient: false })
}

async fn migrate(client: &mut Client) -> Result<()> {
    let vector = vectors::make_type(client).await;
    let mut transaction = client.transaction().await.map_err(Failure::from)?;
    // Without advisory locks, one of two migrations at a time fails, and the next opening finds the other's.
    attempt(&mut transaction, &format!("SELECT pg_advisory_xact_lock({LOCK})"), "advisory locks").await?;
    let found = version(transaction.client()).await?;
    if found.is_none() {
        // One that exists is not made: that takes rights on the database, also with IF NOT EXISTS.
        let schema = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'mnemon'";
        if transaction.query_opt(schema, &[]).await.map_err(Failure::from)?.is_none() {
            transaction.batch_execute("CREATE SCHEMA mnemon").await.map_err(Failure::from)?;
        }
        transaction.batch_execute(&create(vector.as_deref())).await.map_err(Failure::from)?;
    }
    if found == Some(1) {
        transaction.batch_execute(&hide_names()).await.map_err(Failure::from)?;
    }
    if found.is_some_and(|found| found < 3) {
        let versions = statements::create(Table::MESSAGE_VERSIONS);
        transaction.batch_execute(&format!("{EXPIRY} {versions}")).await.map_err(Failure::from)?;
    }
    if found.is_some_and(|found| found < 4) {
        transaction.batch_execute(ADD_STAMPS).await.map_err(Failure::from)?;
    }
    if found.is_none_or(|found| found < 4) {
        transaction.batch_execute(STAMPS).await.map_err(Failure::from)?;
    }
    if found.is_none_or(|found| found < 2) {
        transaction.batch_execute(ROLES_OF_NODES).await.map_err(Failure::from)?;
        attempt(&mut transaction, COMMON_VERSION, "triggers").await?;
    }
    if found.is_none_or(|found| found < SCHEMA) {
        attempt(&mut transaction, &row_level_security(), "row-level security").await?;
        let settings = format!(
            "UPDATE mnemon.settings SET value = '{SCHEMA}' WHERE name = 'schema'; \
             UPDATE mnemon.settings SET value = '{OLDEST}' WHERE name = 'oldest';"
        );
        transaction.batch_execute(&settings).await.map_err(Failure::from)?;
    }
    transaction.commit().await.map_err(Failure::from)?;
    Ok(())
}

/// The error codes for features, syntax, functions and languages that a database does not know.
const UNKNOWN: [&str; 4] = ["0A000", "42601", "42883", "42704"];

/// Runs statements that some databases do not know. Any other error is returned: missing rights must be noticed.
async fn attempt(transaction: &mut Transaction<'_>, sql: &str, what: &str) -> Result<()> {
    let savepoint = transaction.savepoint("attempt").await.map_err(Failure::from)?;
    match savepoint.batch_execute(sql).await {
        Ok(()) => savepoint.commit().await.map_err(Failure::from)?,
        Err(error) if error.code().is_some_and(|code| UNKNOWN.contains(&code.code())) => {
            tracing::warn!(error = cause(&error), "the shared database has no {what}");
            savepoint.rollback().await.map_err(Failure::from)?;
        }
        Err(error) => return Err(Failure::from(error).into()),
    }
    Ok(())
}

/// Creates the table of vectors, unless it exists.
fn create_vectors(vector: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS mnemon.vectors (namespace text COLLATE \"C\" NOT NULL, is_text boolean NOT NULL, \
         seq bigint NOT NULL, model text COLLATE \"C\" NOT NULL, part bigint NOT NULL, revision bigint NOT NULL, \
         text_hash bigint NOT NULL, vector {vector} NOT NULL, PRIMARY KEY (namespace, is_text, seq, model, part));"
    )
}

/// Creates the tables in their schema. `vector` is the name of pgvector's type, if there is one.
fn create(vector: Option<&str>) -> String {
    let head = statements::HEAD.map(|(name, kind)| format!("{name} {kind}")).join(", ");
    let mut sql = format!(
        "CREATE TABLE mnemon.settings (name text PRIMARY KEY, value text NOT NULL); \
         CREATE TABLE mnemon.namespaces (name text COLLATE \"C\" PRIMARY KEY, version bigint NOT NULL, cleared_at bigint NOT NULL, \
         stamp bigint NOT NULL DEFAULT 0, {head}); \
         CREATE TABLE mnemon.nodes (id uuid PRIMARY KEY, epoch bigint NOT NULL, last_write bigint NOT NULL, \
         opened_at timestamptz NOT NULL DEFAULT now()); \
         CREATE TABLE mnemon.leases (namespace text COLLATE \"C\" NOT NULL, work text NOT NULL, holder uuid NOT NULL, \
         until timestamptz NOT NULL, PRIMARY KEY (namespace, work)); \
         {} \
         CREATE TABLE mnemon.tenants (role text NOT NULL, prefix text COLLATE \"C\" NOT NULL, PRIMARY KEY (role, prefix));",
        create_vectors(vector.unwrap_or("bytea"))
    );
    sql.push_str(models::CREATE);
    for table in Table::all() {
        sql.push_str(&statements::create(table));
    }
    sql.push_str(&format!(
        "INSERT INTO mnemon.namespaces (name, version, cleared_at, present, next_seq, next_session, messages) \
         VALUES ('', 1, 0, true, 0, 0, 0); \
         INSERT INTO mnemon.settings VALUES ('schema', '{SCHEMA}'), ('oldest', '{OLDEST}'), ('origin', '{}'), ('vectors', '{}'), \
         ('seal_key', '{}');",
        uuid::Uuid::now_v7(),
        if vector.is_some() { "vector" } else { "bytea" },
        hex(&random_bytes())
    ));
    sql
}

/// Records which role opened an engine, so that no other role changes its row. Engines of version 1 can no longer
/// write.
const ROLES_OF_NODES: &str = "DELETE FROM mnemon.nodes; \
     ALTER TABLE mnemon.nodes ADD COLUMN role text NOT NULL DEFAULT current_user;";

/// Adds what tells versions with the same number apart, and texts with the same revision.
const ADD_STAMPS: &str = "ALTER TABLE mnemon.namespaces ADD COLUMN stamp bigint NOT NULL DEFAULT 0; \
     DELETE FROM mnemon.vectors; ALTER TABLE mnemon.vectors ADD COLUMN text_hash bigint NOT NULL;";

/// The stamps of the last versions of each namespace.
const STAMPS: &str = "CREATE TABLE mnemon.stamps (namespace text COLLATE \"C\" NOT NULL, place bigint NOT NULL, \
     version bigint NOT NULL, stamp bigint NOT NULL, next_seq bigint NOT NULL, last_change bigint NOT NULL, \
     PRIMARY KEY (namespace, place));";

/// Adds when messages expire, and the times to live of namespaces.
const EXPIRY: &str = "ALTER TABLE mnemon.messages ADD COLUMN IF NOT EXISTS expires_at timestamptz; \
     ALTER TABLE mnemon.document_texts ADD COLUMN IF NOT EXISTS expires_at timestamptz; \
     ALTER TABLE mnemon.old_messages ADD COLUMN IF NOT EXISTS expires_at timestamptz; \
     ALTER TABLE mnemon.namespaces ADD COLUMN IF NOT EXISTS ttl_micros bigint;";

/// Hides the names in keys of rows that were deleted by version 1, as [`hidden_name`](crate::store::hidden_name) does.
/// Names with U+0001, which escapes what Postgres cannot store, are left.
fn hide_names() -> String {
    let hide = |table: Table| {
        let (name, key) = (table.name(), table.key()[0].0);
        format!(
            "UPDATE mnemon.{name} AS row SET \"{key}\" = chr(1) || 'x' || left(encode(sha256(decode(seal.value, 'hex') || \
             convert_to('{name}/' || length(row.namespace) || '/' || row.namespace || row.\"{key}\", 'UTF8')), 'hex'), 32) \
             FROM mnemon.settings AS seal WHERE seal.name = 'seal_key' AND row.deleted \
             AND strpos(row.namespace || row.\"{key}\", chr(1)) = 0;"
        )
    };
    Table::all().filter(|table| table.has_chosen_key()).map(hide).collect()
}

/// Of the common row, which every role reads and moves, only the version changes, one by one.
const COMMON_VERSION: &str = "CREATE OR REPLACE FUNCTION mnemon.check_common() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
     IF NEW.name <> '' OR NEW.version <> OLD.version + 1 OR NEW.cleared_at <> OLD.cleared_at OR NOT NEW.present THEN \
     RAISE EXCEPTION 'the common row only moves to its next version' USING ERRCODE = 'insufficient_privilege'; END IF; \
     RETURN NEW; END $$; \
     DROP TRIGGER IF EXISTS check_common ON mnemon.namespaces; \
     CREATE TRIGGER check_common BEFORE UPDATE ON mnemon.namespaces FOR EACH ROW WHEN (OLD.name = '') \
     EXECUTE FUNCTION mnemon.check_common();";

/// Lets a role other than the owner see and change only the namespaces under the prefixes that `tenants` gives it, and
/// what concerns all: it reads the version of the common rows, the audit, the settings and the models, moves that
/// version, appends to the audit, and sees the legal holds that bind it. Of `nodes` and `tenants` it has its own rows.
fn row_level_security() -> String {
    let under = |column: &str| format!("{column} = t.prefix OR left({column}, length(t.prefix) + 1) = t.prefix || '/'");
    let tenant = |condition: String| {
        format!("EXISTS (SELECT 1 FROM mnemon.tenants AS t WHERE t.role = current_user AND ({condition}))")
    };
    let own = |column: &str| tenant(under(column));
    let mut sql = String::new();
    // Policies for some commands each, all others are refused.
    let mut policies = |table: &str, policies: &[(&str, String)]| {
        sql.push_str(&format!(
            "ALTER TABLE mnemon.{table} ENABLE ROW LEVEL SECURITY; DROP POLICY IF EXISTS {table}_of_tenants ON mnemon.{table};"
        ));
        for (command, condition) in policies {
            let name = match *command {
                "ALL" => format!("{table}_of_tenants"),
                command => format!("{table}_{}", command.to_lowercase()),
            };
            let clauses = match *command {
                "SELECT" | "DELETE" => format!("USING ({condition})"),
                "INSERT" => format!("WITH CHECK ({condition})"),
                _ => format!("USING ({condition}) WITH CHECK ({condition})"),
            };
            sql.push_str(&format!(
                "DROP POLICY IF EXISTS {name} ON mnemon.{table}; CREATE POLICY {name} ON mnemon.{table} FOR {command} {clauses};"
            ));
        }
    };
    let all = || "true".to_owned();
    let common_or_own = format!("name = '' OR {}", own("name"));
    policies("namespaces", &[("SELECT", common_or_own.clone()), ("INSERT", own("name")), ("UPDATE", common_or_own)]);
    for table in Table::all() {
        match table {
            Table::AUDIT => policies(table.name(), &[("SELECT", all()), ("INSERT", all())]),
            Table::HOLDS => {
                // A hold on a namespace above the prefix binds the namespaces under it.
                let binds = tenant(format!("{} OR left(t.prefix, length(held) + 1) = held || '/'", under("held")));
                let own = own("held");
                policies(
                    table.name(),
                    &[("SELECT", binds), ("INSERT", own.clone()), ("UPDATE", own.clone()), ("DELETE", own)],
                );
            }
            _ => policies(table.name(), &[("ALL", own("namespace"))]),
        }
    }
    for table in ["vectors", "leases", "reindexed"] {
        policies(table, &[("ALL", own("namespace"))]);
    }
    let common_or_own = format!("namespace = '' OR {}", own("namespace"));
    let stamps = ["SELECT", "INSERT", "UPDATE"].map(|command| (command, common_or_own.clone()));
    policies("stamps", &stamps);
    policies("nodes", &[("ALL", "role = current_user".to_owned())]);
    policies("tenants", &[("SELECT", "role = current_user".to_owned())]);
    for table in ["settings", "models"] {
        policies(table, &[("SELECT", all())]);
    }
    sql
}
