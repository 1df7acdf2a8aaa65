//! What a reader of files is given, and what it yields.

use std::{
    collections::{HashMap, VecDeque},
    str::FromStr,
};

use serde_json::Value;

use super::source::SourceFile;
use crate::{
    error::{Error, Result},
    message::{DEFAULT_SESSION, MessageLine, Timestamp},
};

/// How the files of other programs are read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The most bytes of each output of a tool, and of the arguments of each call. 0: calls of tools and their outputs are left
    /// out of the transcripts of agents and of ChatGPT's conversations.
    pub tool_output: usize,
    /// The session of messages whose format names none. `None`: `default`.
    pub session: Option<String>,
    /// The name of the person who is the user in the chats of groups. The others have the role of the user, too, and their
    /// names. `None`: found out from the file where it says so.
    pub me: Option<String>,
    /// The time zone of times that have none, such as `Europe/Berlin` or `+02:00`. `None`: UTC.
    pub time_zone: Option<TimeZone>,
}

/// A time zone, by its name in the database of time zones, or by its distance from UTC.
#[derive(Clone, Debug)]
pub struct TimeZone(jiff::tz::TimeZone);

impl ReadOptions {
    /// Returns the time zone of times that have none.
    pub(super) fn zone(&self) -> TimeZone {
        self.time_zone.clone().unwrap_or(TimeZone(jiff::tz::TimeZone::UTC))
    }
}

impl TimeZone {
    /// Returns the moment of a local time. Of two moments with that time, when clocks are set back, the first.
    pub(super) fn moment(&self, local: jiff::civil::DateTime) -> Option<Timestamp> {
        let zoned = self.0.to_ambiguous_zoned(local).compatible().ok()?;
        Timestamp::from_micros(zoned.timestamp().as_microsecond())
    }
}

impl FromStr for TimeZone {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let offset =
            || format!("2000-01-01T00:00:00{name}[{name}]").parse::<jiff::Zoned>().map(|at| at.time_zone().clone());
        jiff::tz::TimeZone::get(name).or_else(|_| offset()).map(TimeZone).map_err(|_| Error::InvalidConfig {
            reason: format!("{name:?} is not a time zone such as Europe/Berlin or +02:00"),
        })
    }
}

/// What one value, line or message of a file holds.
#[derive(Debug, Default)]
pub struct Found {
    /// The number of the line at which it ends.
    pub line: u64,
    /// Bytes of the file up to there.
    pub bytes_read: u64,
    /// The messages, or why one cannot be read.
    pub messages: Vec<Result<MessageLine>>,
    /// Messages that were taken back later, by an edit of the prompt before them. An earlier reading may have returned them.
    pub removed: Vec<MessageLine>,
    /// What was left out and why, in sentences for people.
    pub notes: Vec<String>,
    /// The number of the value in the file, where a line may have several.
    pub(super) value: Option<u64>,
}

/// What a file holds, one [`Found`] after the other.
pub(super) type Rows<'f> = Box<dyn Iterator<Item = Result<Found>> + 'f>;

/// A reader of the files of one folder or archive, or of one file, in one format.
pub(super) trait Reader {
    /// Reads a file. An error of the iterator ends the file.
    fn read<'f>(&'f mut self, file: SourceFile<'f>) -> Box<dyn Iterator<Item = Result<Found>> + 'f>;
}

/// A reader of a format whose files are values of JSON. There is one for each file.
pub(super) trait ValueReader {
    /// Reads a value, and adds what it holds.
    fn read(&mut self, value: Value, found: &mut Found);

    /// Returns what only the end of the file decides. `earlier` is for sessions that are in several files of a folder.
    fn end(&mut self, _earlier: &mut EarlierFiles) -> VecDeque<Found> {
        VecDeque::new()
    }
}

/// What is known of the sessions of a folder that are in several files.
pub(super) type EarlierFiles = HashMap<String, EarlierFile>;

/// What the files of a session said that were read already.
#[derive(Default)]
pub(super) struct EarlierFile {
    /// When each file began, and the number of the line from which on it replaces the files that began before it.
    pub(super) replaced: Vec<(Option<Timestamp>, u64)>,
    /// The messages: when their file began, the numbers of their lines, and the messages without their content.
    pub(super) messages: Vec<(Option<Timestamp>, u64, MessageLine)>,
}

/// Creates a reader of values that need nothing of those before them.
pub(super) fn each<F: FnMut(Value, &mut Found) + 'static>(read: F) -> Box<dyn ValueReader> {
    struct Each<F>(F);

    impl<F: FnMut(Value, &mut Found)> ValueReader for Each<F> {
        fn read(&mut self, value: Value, found: &mut Found) {
            self.0(value, found);
        }
    }

    Box::new(Each(read))
}

impl Found {
    /// Gives messages without a session the one that was asked for, and errors their place.
    pub(super) fn placed(mut self, file: &str, session: Option<&str>) -> Self {
        let value = self.value.map(|number| format!("value {number}: ")).unwrap_or_default();
        let at = |reason: String| Error::InvalidFile { file: file.to_owned(), line: self.line, reason };
        let placed = |(index, line): (usize, Result<MessageLine>)| {
            let mut line = line.map_err(|error| match error {
                Error::InvalidFile { .. } => error,
                error => at(format!("{value}{error}")),
            })?;
            if let Some(session) = session.filter(|_| line.message.session == DEFAULT_SESSION) {
                session.clone_into(&mut line.message.session);
            }
            let checked = line.message.check();
            checked.map_err(|error| at(format!("{value}message {}: {error}", index + 1)))?;
            Ok(line)
        };
        self.messages = std::mem::take(&mut self.messages).into_iter().enumerate().map(placed).collect();
        self
    }
}
