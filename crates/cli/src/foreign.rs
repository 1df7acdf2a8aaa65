//! Reads messages from the files of other systems, which are JSON or JSON Lines.

use std::{
    cell::Cell,
    fmt,
    io::{self, BufRead, BufReader, Cursor, Read},
    path::Path,
    rc::Rc,
};

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use mnemon::{DEFAULT_SESSION, MessageLine, from_chatgpt, from_langchain, from_llamaindex, from_mem0, from_openai};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Map, Value};

use crate::{input, transcripts::Transcript};

/// A system whose files can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// Messages of OpenAI's chat completions, as a list or in the field `messages` of each line.
    Openai,
    /// conversations.json of ChatGPT's data export.
    Chatgpt,
    /// LangChain's `messages_to_dict`.
    Langchain,
    /// LlamaIndex's `ChatMessage` as JSON, or its `SimpleChatStore`.
    Llamaindex,
    /// The memories that mem0's `get_all` lists.
    Mem0,
    /// Transcripts of Claude Code, such as ~/.claude/projects/*/*.jsonl.
    ClaudeCode,
    /// Rollouts of Codex, such as ~/.codex/sessions/*/*/*/*.jsonl.
    Codex,
}

/// The most bytes of one value, such as a conversation: a compressed file might never end.
const MAX_VALUE_BYTES: u64 = 1 << 30;

/// The messages of one conversation, message or memory of a file.
pub(crate) struct Found {
    pub(crate) messages: Vec<anyhow::Result<MessageLine>>,
    /// The number of the line at which they end.
    pub(crate) line: u64,
    /// Bytes of the file up to there.
    pub(crate) bytes_read: u64,
}

/// The files of a system.
pub(crate) struct ForeignFiles<'a> {
    pub(crate) source: Source,
    /// The session of messages that name none.
    pub(crate) session: Option<&'a str>,
    /// The transcript of a coding agent that is being read.
    pub(crate) transcript: Transcript,
}

/// Takes what was found. A callback, because serde passes the elements of a list to one.
type Take<'a> = dyn FnMut(Found) -> anyhow::Result<()> + 'a;

impl ForeignFiles<'_> {
    /// Reads a file, or stdin for `-`.
    ///
    /// # Errors
    /// Those of `take`. A file that is neither JSON nor JSON Lines; what is before the fault has been taken.
    pub(crate) fn read(&mut self, path: &Path, take: &mut Take<'_>) -> anyhow::Result<()> {
        let mut reader = BufReader::with_capacity(1 << 16, input::open(path)?);
        let mut first = Vec::new();
        reader
            .by_ref()
            .take(input::MAX_LINE_BYTES)
            .read_until(b'\n', &mut first)
            .with_context(|| path.display().to_string())?;
        let is_lines = first.ends_with(b"\n") && serde_json::from_slice::<Map<String, Value>>(&first).is_ok();
        let reader = Cursor::new(first).chain(reader);
        if is_lines { self.read_lines(path, reader, take) } else { self.read_values(path, reader, take) }
    }

    /// Reads JSON Lines. A line that is no JSON is passed on as an error, and does not end the file.
    fn read_lines(&mut self, path: &Path, reader: impl Read, take: &mut Take<'_>) -> anyhow::Result<()> {
        for line in input::lines_of(reader, path) {
            let line = line?;
            let value = line.text.and_then(|text| Ok(serde_json::from_str(&text)?));
            let messages = value.map_or_else(|error| vec![Err(error)], |value| self.convert(value));
            take(Found { messages, line: line.number, bytes_read: line.bytes_read })?;
        }
        Ok(())
    }

    /// Reads values that follow each other, or lists of them.
    fn read_values(&mut self, path: &Path, reader: impl Read, take: &mut Take<'_>) -> anyhow::Result<()> {
        let position = Rc::new(Position::default());
        let reader = BufReader::with_capacity(1 << 16, reader);
        let mut json = serde_json::Deserializer::from_reader(Counted { reader, position: Rc::clone(&position) });
        let (mut stopped, mut number) = (None, 0);
        let is_list = self.source == Source::Openai;
        let mut take_value = |value| {
            number += 1;
            position.begin.set(position.bytes.get());
            let messages = self.convert(value).into_iter();
            let messages = messages.map(|message| message.with_context(|| format!("value {number}"))).collect();
            let found = Found { messages, line: position.line.get() + 1, bytes_read: position.bytes.get() };
            take(found).map_err(|error| stopped = Some(error))
        };
        loop {
            position.is_blank.set(true);
            let values = Values { take: &mut take_value, is_list };
            match values.deserialize(&mut json) {
                Ok(()) => {}
                Err(error) if error.is_eof() && position.is_blank.get() => return Ok(()),
                Err(error) => {
                    let fault = || anyhow!("{error}").context(input::at(path, position.line.get() + 1));
                    return Err(stopped.unwrap_or_else(fault));
                }
            }
        }
    }

    /// Reads the messages of one value, each by itself.
    fn convert(&mut self, value: Value) -> Vec<anyhow::Result<MessageLine>> {
        let lines = match self.source {
            Source::Openai => openai(&list(value, "messages")),
            Source::Chatgpt => all(from_chatgpt(&value)),
            Source::Langchain => all(from_langchain(&list(value, "messages"))),
            Source::Llamaindex => match value.get("store").and_then(Value::as_object) {
                Some(store) => store.iter().flat_map(|(session, messages)| llamaindex(session, messages)).collect(),
                None => all(from_llamaindex(&list(value, "messages"))),
            },
            Source::Mem0 => all(from_mem0(&list(value, "results"))),
            Source::ClaudeCode => each(self.transcript.claude_code(&value)),
            Source::Codex => each(self.transcript.codex(&value)),
        };
        let place = |(at, line): (usize, anyhow::Result<MessageLine>)| {
            let mut line = line?;
            if let Some(session) = self.session.filter(|_| line.message.session == DEFAULT_SESSION) {
                session.clone_into(&mut line.message.session);
                if self.source == Source::Langchain && line.has_id {
                    // A history that was copied for another session repeats the ids.
                    line.message.id = format!("{session}/{}", line.message.id);
                }
            }
            line.message.check().with_context(|| format!("message {}", at + 1))?;
            Ok(line)
        };
        lines.into_iter().enumerate().map(place).collect()
    }
}

/// Reads the messages of one session of a store.
fn llamaindex(session: &str, messages: &Value) -> Vec<anyhow::Result<MessageLine>> {
    let placed = |line: anyhow::Result<MessageLine>| {
        let mut line = line.with_context(|| format!("store[{session:?}]"))?;
        session.clone_into(&mut line.message.session);
        Ok(line)
    };
    all(from_llamaindex(&list(messages.clone(), "messages"))).into_iter().map(placed).collect()
}

fn all(lines: impl Iterator<Item = mnemon::Result<MessageLine>>) -> Vec<anyhow::Result<MessageLine>> {
    lines.map(|line| line.map_err(anyhow::Error::new)).collect()
}

fn each(lines: anyhow::Result<Vec<MessageLine>>) -> Vec<anyhow::Result<MessageLine>> {
    lines.map_or_else(|error| vec![Err(error)], |lines| lines.into_iter().map(Ok).collect())
}

/// Reads OpenAI's objects. Each is a message of its own, unless it belongs to the one before.
fn openai(objects: &[Value]) -> Vec<anyhow::Result<MessageLine>> {
    let mut lines = Vec::new();
    let mut index = 0;
    for objects in objects.chunk_by(|_, next| next.pointer("/mnemon/of").is_some()) {
        let has_id = objects[0].get("mnemon").is_some();
        match from_openai(objects) {
            Ok(messages) => {
                lines.extend(messages.into_iter().map(|message| Ok(MessageLine { namespace: None, message, has_id })));
            }
            // The error counts in the chunk alone.
            Err(error) => {
                lines.push(Err(anyhow!(error.to_string().replacen("messages[0]", &format!("messages[{index}]"), 1))));
            }
        }
        index += objects.len();
    }
    lines
}

/// Returns the elements of a list, or of the list in a field, or else the value alone.
fn list(mut value: Value, field: &str) -> Vec<Value> {
    if let Some(inner) = value.get_mut(field).filter(|inner| inner.is_array()) {
        value = inner.take();
    }
    match value {
        Value::Array(values) => values,
        value => vec![value],
    }
}

/// Passes a value to `take`. Passes a list element by element, each as soon as it is read.
struct Values<'a, F> {
    take: &'a mut F,
    /// Whether a list is passed as a whole instead.
    is_list: bool,
}

impl<F: FnMut(Value) -> Result<(), ()>> Values<'_, F> {
    fn take<E: de::Error>(&mut self, value: Value) -> Result<(), E> {
        (self.take)(value).map_err(|()| E::custom("stopped"))
    }
}

impl<'de, F: FnMut(Value) -> Result<(), ()>> DeserializeSeed<'de> for Values<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Value) -> Result<(), ()>> Visitor<'de> for Values<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object or a list of them")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut values: A) -> Result<(), A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element()? {
            if self.is_list { list.push(value) } else { self.take(value)? }
        }
        if self.is_list { self.take(Value::Array(list)) } else { Ok(()) }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, map: A) -> Result<(), A::Error> {
        let value = Value::deserialize(MapAccessDeserializer::new(map))?;
        self.take(value)
    }
}

/// The position in a file.
#[derive(Default)]
struct Position {
    /// Number of line feeds.
    line: Cell<u64>,
    bytes: Cell<u64>,
    /// Bytes before the value that is being read.
    begin: Cell<u64>,
    /// Whether nothing but white space was read since this was set.
    is_blank: Cell<bool>,
}

/// A reader that counts. serde_json asks it for one byte at a time, so its position is that of the JSON that was
/// parsed.
struct Counted<R> {
    reader: R,
    position: Rc<Position>,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(out)?;
        let Position { line, bytes, begin, is_blank } = &*self.position;
        bytes.set(bytes.get() + read as u64);
        if bytes.get() - begin.get() > MAX_VALUE_BYTES {
            return Err(io::Error::other(format!("a value of more than {MAX_VALUE_BYTES} bytes")));
        }
        line.set(line.get() + out[..read].iter().filter(|byte| **byte == b'\n').count() as u64);
        is_blank.set(is_blank.get() && out[..read].iter().all(u8::is_ascii_whitespace));
        Ok(read)
    }
}
