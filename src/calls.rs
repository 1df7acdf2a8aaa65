//! What the calls of all modules have in common: spans for subscribers of `tracing`, and waiting for a future.
//!
//! Fields of spans are counts and times, never content: no text, no id, no namespace. They are `i64`, the integers of
//! OpenTelemetry. Without a subscriber a span costs nothing but a check.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Instant,
};

use tracing::{Instrument, Span, span::EnteredSpan};

/// Makes the span of a call, with an empty field `micros` for its time. Other fields are numbers, or empty.
macro_rules! call_span {
    ($level:ident $name:literal $(, $field:ident $(= $value:expr)?)*) => {
        tracing::span!(
            tracing::Level::$level,
            $name,
            $($field = call_span!(@ $($value)?),)*
            micros = tracing::field::Empty
        )
    };
    (@ $value:expr) => { $value as i64 };
    (@) => { tracing::field::Empty };
}
pub(crate) use call_span;

/// A span that is entered on this thread until it is dropped.
pub(crate) struct Timed {
    span: EnteredSpan,
    /// `None` if no subscriber wants the span.
    started: Option<Instant>,
}

impl Timed {
    pub(crate) fn enter(span: Span) -> Self {
        Timed { started: started(&span), span: span.entered() }
    }

    pub(crate) fn record(&self, field: &str, count: usize) {
        self.span.record(field, count as i64);
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        record_time(&self.span, self.started);
    }
}

/// Awaits `work` in a span.
pub(crate) async fn timed<T>(span: Span, work: impl Future<Output = T>) -> T {
    let started = started(&span);
    let output = work.instrument(span.clone()).await;
    record_time(&span, started);
    output
}

fn started(span: &Span) -> Option<Instant> {
    (!span.is_disabled()).then(Instant::now)
}

fn record_time(span: &Span, started: Option<Instant>) {
    if let Some(started) = started {
        span.record("micros", started.elapsed().as_micros() as i64);
    }
}

/// Runs a future to its end. The thread sleeps while the future waits.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
