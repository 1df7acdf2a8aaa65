//! The open questions to the shared database that reads wait for: one at a time about the same, for all who wait.
//!
//! A question that was sent before a read began may be too old for it. That read waits for the next question, which is
//! sent when the first one has ended. If the shared database does not answer the first one, all who wait fail with it:
//! the time limit of one question is the limit for all of them. Who sends questions and applies answers is not known
//! here.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Instant,
};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    error::{Error, Result},
    store::Version,
};

/// The subject of a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// The changes of a namespace.
    Namespace(String),
    /// The namespaces under a prefix, or all.
    Under(Option<String>),
}

/// The questions that have not ended.
#[derive(Default)]
pub(super) struct Questions(Mutex<HashMap<Subject, Open>>);

struct Open {
    sent: Instant,
    current: Arc<OpenQuestion>,
    /// Nothing was heard of it for long.
    is_silent: bool,
    /// The question that is sent when the current one has ended.
    next: Option<Arc<OpenQuestion>>,
}

/// A question for those who wait for it.
pub(super) struct OpenQuestion {
    pub(super) about: Subject,
    heard: watch::Sender<Progress>,
}

/// The progress of a question.
enum Progress {
    Nothing,
    /// Nothing for so long that reads go on that may be behind.
    NothingForLong,
    End(std::result::Result<QuestionAnswer, Arc<Error>>),
}

/// The end of a question: what it asked for is applied.
#[derive(Clone)]
pub(super) struct QuestionAnswer {
    pub(super) sent: Instant,
    /// The name and version of each namespace, and whether it exists, if that was asked.
    pub(super) namespaces: Arc<[(String, Version, bool)]>,
}

/// A wait for a question.
pub(super) struct QuestionWait(watch::Receiver<Progress>);

impl Questions {
    /// Returns a wait for the question about something that was sent at a time which `serves`, or will be sent. With a
    /// question, if it is new: it must be sent.
    pub(super) fn open(
        &self,
        about: Subject,
        serves: impl Fn(Instant) -> bool,
    ) -> (QuestionWait, Option<Arc<OpenQuestion>>) {
        match self.0.lock().entry(about) {
            Entry::Occupied(mut open) => {
                let about = open.key().clone();
                let open = open.get_mut();
                let is_silent = open.is_silent;
                let asked = match serves(open.sent) {
                    true => &open.current,
                    false => open.next.get_or_insert_with(|| OpenQuestion::new(about, is_silent)),
                };
                (QuestionWait(asked.heard.subscribe()), None)
            }
            Entry::Vacant(vacant) => {
                let asked = OpenQuestion::new(vacant.key().clone(), false);
                vacant.insert(Open::new(Arc::clone(&asked)));
                (QuestionWait(asked.heard.subscribe()), Some(asked))
            }
        }
    }

    /// Lets reads go on that may be behind: those that wait for a question of which nothing is heard, or for the next one.
    pub(super) fn hear_nothing(&self, asked: &OpenQuestion) {
        if let Some(open) = self.0.lock().get_mut(&asked.about) {
            open.is_silent = true;
            for asked in [Some(&open.current), open.next.as_ref()].into_iter().flatten() {
                asked.heard.send_replace(Progress::NothingForLong);
            }
        }
    }

    /// Takes a question out before its end is told. Returns when it was sent, and the next one about the same: it must be
    /// sent, if this one was answered.
    pub(super) fn close(
        &self,
        asked: &OpenQuestion,
        is_answered: bool,
    ) -> Option<(Instant, Option<Arc<OpenQuestion>>)> {
        let mut questions = self.0.lock();
        if !std::ptr::eq(&*questions.get(&asked.about)?.current, asked) {
            return None;
        }
        let Open { sent, next, .. } = questions.remove(&asked.about)?;
        if let Some(next) = next.as_ref().filter(|_| is_answered) {
            next.heard.send_replace(Progress::Nothing);
            questions.insert(asked.about.clone(), Open::new(Arc::clone(next)));
        }
        Some((sent, next))
    }
}

impl Open {
    fn new(current: Arc<OpenQuestion>) -> Self {
        Open { sent: Instant::now(), current, is_silent: false, next: None }
    }
}

impl OpenQuestion {
    fn new(about: Subject, is_silent: bool) -> Arc<Self> {
        let heard = if is_silent { Progress::NothingForLong } else { Progress::Nothing };
        Arc::new(OpenQuestion { about, heard: watch::Sender::new(heard) })
    }

    /// Returns true if all who wait were told.
    pub(super) fn has_ended(&self) -> bool {
        matches!(*self.heard.borrow(), Progress::End(_))
    }

    /// Tells all who wait how the question ended.
    pub(super) fn end(&self, end: std::result::Result<QuestionAnswer, Arc<Error>>) {
        self.heard.send_replace(Progress::End(end));
    }
}

impl QuestionWait {
    /// Waits for the end of the question. Returns `None` if nothing is heard of it for long and the read `may_go_on`.
    ///
    /// # Errors
    /// That of the question; [`Error::Closed`].
    pub(super) async fn heard(mut self, may_go_on: bool) -> Result<Option<QuestionAnswer>> {
        let until = |heard: &Progress| match heard {
            Progress::Nothing => false,
            Progress::NothingForLong => may_go_on,
            Progress::End(_) => true,
        };
        match &*self.0.wait_for(until).await.map_err(|_| Error::Closed)? {
            Progress::End(Ok(ended)) => Ok(Some(ended.clone())),
            Progress::End(Err(error)) => Err(again(error)),
            Progress::Nothing | Progress::NothingForLong => Ok(None),
        }
    }
}

/// The error of a question, for one more of those who wait for it.
fn again(error: &Error) -> Error {
    match error {
        Error::SharedDatabase { reason, transient } => {
            Error::SharedDatabase { reason: reason.clone(), transient: *transient }
        }
        Error::Closed => Error::Closed,
        Error::Corrupted { what } => Error::Corrupted { what: what.clone() },
        other => Error::Storage(other.cause().into()),
    }
}
