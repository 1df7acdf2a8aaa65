//! Announcements of what changed, by LISTEN and NOTIFY. They make reads fresh sooner; nothing depends on them.
//!
//! Every role may listen, whatever its rights. So an announcement does not name namespaces: it has the buckets that they are
//! in, one of 256 each, and who listens asks for the versions of its own namespaces in these.

use std::{collections::BTreeSet, pin::pin, time::Duration};

use deadpool_postgres::Pool;
use futures_util::{StreamExt, future::select};
use tokio::{sync::mpsc::UnboundedReceiver, time::sleep};
use tokio_postgres::AsyncMessage;
use uuid::Uuid;

use super::{connect::Address, failure::cause};
use crate::shared::Notified;

/// How long announcements are gathered: NOTIFY takes a lock of the whole database, so there are few of them.
const GATHER: Duration = Duration::from_millis(5);
/// How long a listener waits before it connects again.
const PAUSE: Duration = Duration::from_millis(500);
/// How often a listener asks whether its connection is alive.
const ALIVE: Duration = Duration::from_secs(5);

/// Announces what this node changed. What cannot be announced is found by those who poll.
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

/// Listens to what other nodes announce, over a connection of its own, which is made again when it breaks.
pub(super) async fn listen(address: Address, node: Uuid, notified: Box<dyn Fn(Notified) + Send + Sync>) {
    loop {
        if let Ok((client, mut messages)) = address.connect().await {
            let listening = async {
                client.batch_execute("LISTEN mnemon").await?;
                notified(Notified::Missed);
                loop {
                    sleep(ALIVE).await;
                    client.batch_execute("SELECT 1").await?;
                }
                #[allow(unreachable_code)]
                Ok::<(), tokio_postgres::Error>(())
            };
            let reading = async {
                while let Some(Ok(message)) = messages.next().await {
                    if let AsyncMessage::Notification(message) = message {
                        read(message.payload(), node, &*notified);
                    }
                }
            };
            select(pin!(listening), pin!(reading)).await;
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
