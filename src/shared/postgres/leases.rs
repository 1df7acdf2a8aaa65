//! Leases: who does some work, until when. By the clock of the database alone.

use std::time::Duration;

use deadpool_postgres::Object;
use uuid::Uuid;

use super::{
    failure::Failure,
    values::{escape, unescape},
};
use crate::shared::Lease;

/// Takes leases that are free, have ended, or are held by this node.
const TAKE: &str = "INSERT INTO mnemon.leases AS old (namespace, work, holder, until) \
     SELECT name, $2::text, $3::uuid, now() + $4::double precision * interval '1 second' \
     FROM unnest($1::text[]) AS wanted(name) ORDER BY name \
     ON CONFLICT (namespace, work) DO UPDATE SET holder = excluded.holder, until = excluded.until \
     WHERE old.holder = excluded.holder OR old.until < now() RETURNING namespace";

/// Takes leases. Returns the namespaces in which it got them.
pub(super) async fn take(
    client: &Object,
    node: Uuid,
    work: &str,
    namespaces: &[String],
    time: Duration,
) -> Result<Vec<String>, Failure> {
    let statement = client.prepare_cached(TAKE).await?;
    let names: Vec<String> = namespaces.iter().map(|name| escape(name)).collect();
    let rows = client.query(&statement, &[&names, &work, &node, &time.as_secs_f64()]).await?;
    Ok(rows.iter().map(|row| unescape(row.get(0))).collect())
}

pub(super) async fn release(client: &Object, node: Uuid, leases: &[Lease]) -> Result<(), Failure> {
    let delete = "DELETE FROM mnemon.leases AS old USING unnest($1::text[], $2::text[]) AS given(namespace, work) \
                  WHERE old.namespace = given.namespace AND old.work = given.work AND old.holder = $3";
    let statement = client.prepare_cached(delete).await?;
    let names: Vec<String> = leases.iter().map(|lease| escape(&lease.namespace)).collect();
    let works: Vec<String> = leases.iter().map(|lease| lease.work.clone()).collect();
    client.execute(&statement, &[&names, &works, &node]).await?;
    Ok(())
}
