//! A pool of connections between this machine and the server, such as PgBouncer.
//!
//! In transaction mode it may give each transaction another connection of the server's. So nothing may be left on one: a
//! LISTEN would be somebody else's. And a statement that was prepared must be found again by its name, which is the
//! pooler's work.

use std::{
    future::{Ready, ready},
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{StreamExt, future::select};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::timeout,
};
use tokio_postgres::{
    Client, Error, SimpleQueryMessage,
    tls::{ChannelBinding, TlsConnect, TlsStream},
};

use super::{connect::Address, failure::Failure};

/// How long a pooler may take to find a second connection to the server.
const SECOND: Duration = Duration::from_secs(1);

/// Returns true if a pooler answers in place of the server: it has told the client another number of its process than the
/// server has.
pub(super) async fn is_between(client: &Client) -> Result<bool, Error> {
    let mut sent = Sent::default();
    if client.cancel_token().cancel_query_raw(&mut sent, Plain).await.is_err() {
        return Ok(false);
    }
    // The last 8 bytes of a request to cancel are the number of the process and a secret.
    let told = sent.0.last_chunk::<8>().map(|end| i32::from_be_bytes([end[0], end[1], end[2], end[3]]));
    // Not prepared, which a pooler might not pass on.
    let messages = client.simple_query("SELECT pg_backend_pid()").await?;
    let process = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse::<i32>().ok(),
        _ => None,
    });
    Ok(told != process)
}

/// Checks that a prepared statement is found on another connection of the server's. If the pooler gives no second one, this
/// is not known.
pub(super) async fn check(client: &Client, address: &Address) -> Result<(), Failure> {
    let prepared = client.prepare("SELECT 1").await?;
    let Ok((other, mut messages)) = address.connect().await else { return Ok(()) };
    let found = async {
        // Mostly it takes the connection that has the statement.
        other.batch_execute("BEGIN; SELECT 1").await?;
        let found = timeout(SECOND, client.query(&prepared, &[])).await;
        other.batch_execute("ROLLBACK").await?;
        found.unwrap_or_else(|_| Ok(Vec::new()))
    };
    let driven = async { while let Some(Ok(_)) = messages.next().await {} };
    match select(std::pin::pin!(found), std::pin::pin!(driven)).await {
        futures_util::future::Either::Left((found, _)) => Ok(found.map(drop)?),
        futures_util::future::Either::Right(_) => Ok(()),
    }
}

/// Takes what is sent to it.
#[derive(Default)]
struct Sent(Vec<u8>);

impl AsyncRead for Sent {
    /// Agrees to TLS, which is the only question.
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        buffer.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Sent {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl TlsStream for &mut Sent {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// TLS that changes nothing.
struct Plain;

impl<'s> TlsConnect<&'s mut Sent> for Plain {
    type Stream = &'s mut Sent;
    type Error = io::Error;
    type Future = Ready<io::Result<&'s mut Sent>>;

    fn connect(self, stream: &'s mut Sent) -> Self::Future {
        ready(Ok(stream))
    }
}
