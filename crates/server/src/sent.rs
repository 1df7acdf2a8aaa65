//! Answers that are being sent: their bytes count until the client has read them.
//!
//! An answer is handed to the connection in pieces, so that it is known how far its client reads. Where answers that nobody reads
//! take half of the bytes of all answers, their connections are closed: those that have read nothing for a second.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{
    body::{Body, Bytes, HttpBody, to_bytes},
    http::Response,
    response::IntoResponse,
};
use hyper::body::{Frame, SizeHint};
use mnemon::ReadBudget;
use tokio_util::sync::CancellationToken;

use crate::problem::Problem;

/// Answers up to this size do not count.
pub(crate) const SMALL: usize = 64 << 10;
/// Bytes that are handed to the connection at a time.
const PIECE: usize = 64 << 10;
/// The time after which a client that reads nothing may lose its connection.
const STALLED: Duration = Duration::from_secs(1);

/// In the extensions of a request: cancelled to close its connection.
#[derive(Clone)]
pub(crate) struct Connection(pub(crate) CancellationToken);

/// The clients that have not read all of their answers.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Reading>);

#[derive(Default)]
struct Reading {
    next: u64,
    /// Each with the time at which it last read something.
    clients: BTreeMap<u64, (Instant, Option<CancellationToken>)>,
}

impl Readers {
    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connections of the clients that read nothing.
    fn close_stalled(&self) {
        for (since, connection) in self.lock().clients.values() {
            if let Some(connection) = connection.as_ref().filter(|_| since.elapsed() > STALLED) {
                connection.cancel();
            }
        }
    }
}

/// Counts an answer among those in work, of which these are the bytes, until its client has read it. One for which there is no room is
/// replaced by a problem. An answer without a known size is made while it is read.
pub(crate) async fn counted(
    response: Response<Body>,
    in_work: &ReadBudget,
    readers: &Arc<Readers>,
    connection: Option<Connection>,
) -> Response<Body> {
    let Some(size) = response.body().size_hint().exact().filter(|size| *size > SMALL as u64) else { return response };
    let share = in_work.share(usize::MAX);
    if in_work.is_above_half() {
        readers.close_stalled();
    }
    if share.take(size as usize).is_err() {
        return Problem::overloaded().into_response();
    }
    let (head, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.expect("the answer is in memory");
    Response::from_parts(head, Body::new(Sent::new(bytes, share, readers, connection)))
}

/// The body of an answer, whose bytes count until it is dropped.
struct Sent {
    rest: Bytes,
    _share: ReadBudget,
    readers: Arc<Readers>,
    number: u64,
}

impl Sent {
    fn new(rest: Bytes, share: ReadBudget, readers: &Arc<Readers>, connection: Option<Connection>) -> Self {
        let mut reading = readers.lock();
        let number = reading.next;
        reading.next += 1;
        reading.clients.insert(number, (Instant::now(), connection.map(|connection| connection.0)));
        drop(reading);
        Sent { rest, _share: share, readers: Arc::clone(readers), number }
    }
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        if let Some((since, _)) = self.readers.lock().clients.get_mut(&self.number) {
            *since = Instant::now();
        }
        let piece = PIECE.min(self.rest.len());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.readers.lock().clients.remove(&self.number);
    }
}
