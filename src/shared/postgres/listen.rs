//! Announcements of what changed, by LISTEN and NOTIFY. They make reads fresh sooner; nothing depends on them.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use deadpool_postgres::Pool;
use futures_util::{StreamExt, future::select};
use tokio::{sync::mpsc::UnboundedReceiver, time::sleep};
use tokio_postgres::AsyncMessage;
use uuid::Uuid;

use super::{connect::Address, failure::cause};
use crate::shared::Notified;

/// How long announcements are gathered: NOTIFY takes a lock of the whole database, so there are few of them.
const GATHER: Duration = Duration::from_millis(5);
/// The most bytes of an announcement. Postgres allows 8,000.
const MAX_BYTES: usize = 7000;
/// How long a listener waits before it connects again.
const PAUSE: Duration = Duration::from_millis(500);
/// How often a listener asks whether its connection is alive.
const ALIVE: Duration = Duration::from_secs(5);

/// Announces what this node changed. What cannot be announced is found by those who poll.
pub(super) async fn announce(pool: Pool, node: Uuid, mut announced: UnboundedReceiver<(String, u64)>) {
    while let Some(first) = announced.recv().await {
        sleep(GATHER).await;
        let mut versions = BTreeMap::from([first]);
        while let Ok((name, version)) = announced.try_recv() {
            versions.insert(name, version);
        }
        let Ok(client) = pool.get().await else { continue };
        let mut payloads = vec![node.to_string()];
        for (name, version) in versions {
            let line = format!("\n{version} {name}");
            if payloads.last().is_some_and(|payload| payload.len() + line.len() > MAX_BYTES) {
                payloads.push(node.to_string());
            }
            payloads.last_mut().expect("one was pushed").push_str(&line);
        }
        let notify = "SELECT pg_notify('mnemon', payload) FROM unnest($1::text[]) AS p(payload)";
        if let Err(error) = client.execute(notify, &[&payloads]).await {
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

/// Reads an announcement: the node that made it, then a line for each namespace.
fn read(payload: &str, node: Uuid, notified: &(dyn Fn(Notified) + Send + Sync)) {
    let mut lines = payload.lines();
    if lines.next() == Some(node.to_string().as_str()) {
        return;
    }
    for line in lines {
        if let Some((version, name)) = line.split_once(' ')
            && let Ok(version) = version.parse()
        {
            notified(Notified::Version(name.to_owned(), version));
        }
    }
}
