//! What machines tell each other beside changes: announcements that a namespace changed, and leases of work.
//!
//! Announcements use LISTEN and NOTIFY. They shorten staleness; no read depends on them. Every role may listen,
//! whatever its rights. So an announcement does not name namespaces: it has their buckets, each of which stands for one
//! of 256 parts of all namespaces, and a listener asks for the versions of its own namespaces in these.
//!
//! A lease says who does some work, and until when, by the clock of the database alone.

use std::{collections::BTreeSet, pin::pin, time::Duration};

use deadpool_postgres::{Object, Pool};
use futures_util::{
    StreamExt,
    future::{Either, select},
};
use tokio::{
    sync::{mpsc::UnboundedReceiver, watch},
    time::sleep,
};
use tokio_postgres::AsyncMessage;
use uuid::Uuid;

use super::{
    connect::Address,
    failure::{Failure, cause},
    pooler,
    statements::{escape, unescape},
};
use crate::shared::{Lease, Notified};

/// Time for which announcements are gathered into one NOTIFY, which takes a lock of the whole database.
const GATHER: Duration = Duration::from_millis(5);
/// Time after which a listener connects again.
const PAUSE: Duration = Duration::from_millis(500);
/// Interval at which a listener checks that its connection is alive.
const ALIVE: Duration = Duration::from_secs(5);

/// Announces the changes of this node. A change that cannot be announced is found by machines that poll.
pub(super) async fn announce(pool: Pool, node: Uuid, mut announced: UnboundedReceiver<u8>) {
    while let Some(first) = announced.recv().await {
        sleep(GATHER).await;
        let mut buckets = BTreeSet::from([first]);
        while let Ok(bucket) = announced.try_recv() {
            buckets.insert(bucket);
        }
        let Ok(client) = pool.get().await else { continue };
        // At most a kilobyte, of the 8 that Postgres allows.
        let buckets: Vec<String> = buckets.iter().map(u8::to_string).collect();
        let payload = format!("{node}\n{}", buckets.join(" "));
        if let Err(error) = client.execute("SELECT pg_notify('mnemon', $1)", &[&payload]).await {
            tracing::debug!(error = cause(&error), "changes were not announced");
        }
    }
}

/// Listens to what other nodes announce, over a connection of its own, which is made again when it breaks, and closed while
/// the engine is not awake. Behind a pooler it does not listen.
pub(super) async fn listen(
    address: Address,
    node: Uuid,
    mut awake: watch::Receiver<bool>,
    notified: Box<dyn Fn(Notified) + Send + Sync>,
) {
    // Fails only when the database is being closed.
    while awake.wait_for(|is_awake| *is_awake).await.is_ok() {
        if let Ok((client, mut messages)) = address.connect().await {
            let listening = async {
                if pooler::is_between(&client).await? {
                    return Ok(true);
                }
                client.batch_execute("LISTEN mnemon").await?;
                notified(Notified::Missed);
                loop {
                    sleep(ALIVE).await;
                    client.batch_execute("SELECT 1").await?;
                }
                #[allow(unreachable_code)]
                Ok::<bool, tokio_postgres::Error>(false)
            };
            let reading = async {
                while let Some(Ok(message)) = messages.next().await {
                    if let AsyncMessage::Notification(message) = message {
                        read(message.payload(), node, &*notified);
                    }
                }
            };
            let asleep = awake.wait_for(|is_awake| !*is_awake);
            let is_pooled = matches!(
                select(pin!(asleep), select(pin!(listening), pin!(reading))).await,
                Either::Right((Either::Left((Ok(true), _)), _))
            );
            if is_pooled {
                tracing::info!(
                    "a connection pooler answers for the shared database; changes are found by asking alone"
                );
                return;
            }
        }
        sleep(PAUSE).await;
    }
}

/// Reads an announcement: the node that made it, then the buckets.
fn read(payload: &str, node: Uuid, notified: &(dyn Fn(Notified) + Send + Sync)) {
    if let Some((from, buckets)) = payload.split_once('\n')
        && from != node.to_string()
    {
        buckets
            .split(' ')
            .filter_map(|bucket| bucket.parse().ok())
            .for_each(|bucket| notified(Notified::Bucket(bucket)));
    }
}

/// Takes leases that nobody holds, that have ended, or that this node holds.
const TAKE: &str = "INSERT INTO mnemon.leases AS old (namespace, work, holder, until) \
     SELECT name, $2::text, $3::uuid, now() + $4::double precision * interval '1 second' \
     FROM unnest($1::text[]) AS wanted(name) ORDER BY name \
     ON CONFLICT (namespace, work) DO UPDATE SET holder = excluded.holder, until = excluded.until \
     WHERE old.holder = excluded.holder OR old.until < now() RETURNING namespace";

/// Takes leases. Returns the namespaces in which this node got them.
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
