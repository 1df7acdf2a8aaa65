//! What a reader of files is given, and what it yields.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::source::SourceFile;
use crate::{
    error::{Error, Result},
    ids::Namespace,
    message::{DEFAULT_SESSION, Message, MessageLine, TimeZone, Timestamp},
};

/// How the files of other programs are read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The most bytes of each output of a tool, and of the arguments of each call. 0: calls of tools and their outputs are left
    /// out of the transcripts of agents and of ChatGPT's conversations.
    pub tool_output: usize,
    /// The namespace of all messages. `None`: that of the line, or of the folder in which a coding agent worked.
    pub namespace: Option<Namespace>,
    /// The session of messages whose format names none. `None`: `default`.
    pub session: Option<String>,
    /// The name of the person who is the user in the chats of groups. The others have the role of the user, too, their
    /// names, and the source [`Import`](crate::message::Source::Import). `None`: found out from the file where it says so.
    pub me: Option<String>,
    /// The time zone of times that have none, such as `Europe/Berlin` or `+02:00`. `None`: UTC.
    pub time_zone: Option<TimeZone>,
    /// Whether the files are of another machine. The folders that transcripts name are not looked for on this one then: their
    /// namespaces are made of their paths alone.
    pub is_of_another_machine: bool,
    /// A change of each message, such as the removal of secrets, before its id is computed.
    pub edit: Option<MessageEdit>,
    /// The most memory, in bytes and estimated from the text, that one value of JSON, or what a reader holds of a file, may
    /// take. `None`: as much as it needs; a value has at most 1 GiB of text in any case.
    pub max_memory: Option<usize>,
}

/// A change of a message that was read.
#[derive(Clone)]
pub struct MessageEdit(Arc<EditMessage>);

type EditMessage = dyn Fn(&mut Message) -> Result<()> + Send + Sync;

impl MessageEdit {
    /// Makes a change of a function. Its error is that of the message.
    pub fn new(edit: impl Fn(&mut Message) -> Result<()> + Send + Sync + 'static) -> Self {
        MessageEdit(Arc::new(edit))
    }
}

impl fmt::Debug for MessageEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MessageEdit")
    }
}

impl ReadOptions {
    /// Returns the time zone of times that have none.
    pub(super) fn zone(&self) -> TimeZone {
        self.time_zone.clone().unwrap_or_else(TimeZone::utc)
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
    /// Gives messages the namespace and the session that were asked for, and an id, and errors their place.
    pub(super) fn placed(mut self, file: &str, options: &ReadOptions, ids: &mut DerivedIds) -> Self {
        let value = self.value.map(|number| format!("value {number}: ")).unwrap_or_default();
        let at = |reason: String| Error::InvalidFile { file: file.to_owned(), line: self.line, reason };
        let placed = |(index, line): (usize, Result<MessageLine>)| {
            let mut line = line.map_err(|error| match error {
                Error::InvalidFile { .. } => error,
                error => at(format!("{value}{error}")),
            })?;
            if let Some(session) = options.session.as_ref().filter(|_| line.message.session == DEFAULT_SESSION) {
                line.message.session.clone_from(session);
            }
            line.namespace = options.namespace.clone().or(line.namespace);
            let edited = options.edit.as_ref().map_or(Ok(()), |edit| edit.0(&mut line.message));
            let checked = edited.and_then(|()| line.message.check());
            checked.map_err(|error| at(format!("{value}message {}: {error}", index + 1)))?;
            ids.give(&mut line);
            Ok(line)
        };
        self.messages = std::mem::take(&mut self.messages).into_iter().enumerate().map(placed).collect();
        for line in &mut self.removed {
            line.namespace = options.namespace.clone().or(line.namespace.take());
        }
        self
    }
}

/// Computes the ids of the messages of a file that come without one, so that reading it again gives the same ids.
#[derive(Default)]
pub(super) struct DerivedIds {
    /// How often each message was there, by a part of its hash. Of two equal lines in one file the second is another message;
    /// in another file it is the same one.
    seen: HashMap<[u8; 8], u32>,
}

impl DerivedIds {
    fn give(&mut self, line: &mut MessageLine) {
        if line.has_id {
            return;
        }
        line.message.id.clear();
        let mut hasher = Sha256::new_with_prefix(serde_json::to_vec(&line.message).expect("a message is JSON"));
        // The id does not depend on the namespace, so that messages which are read first and stored later have the same.
        let namespace = line.namespace.as_ref().map(Namespace::to_string).unwrap_or_default();
        let hash: [u8; 32] = hasher.clone().chain_update(namespace).finalize().into();
        let count = self.seen.entry(hash[..8].try_into().expect("8 of 32")).or_default();
        hasher.update(count.to_le_bytes());
        *count += 1;
        let bytes: [u8; 32] = hasher.finalize().into();
        line.message.id = uuid::Uuid::new_v8(bytes[..16].try_into().expect("16 of 32")).to_string();
    }
}
