//! Reads messages from the files of other systems, which are JSON or JSON Lines.

use std::{
    cell::Cell,
    fmt,
    io::{self, BufRead, BufReader, Read},
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
use serde_json::Value;

use crate::input;

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
}

/// Reads a file, or stdin for `-`. Calls `accept` with the messages of each conversation, message or memory, the number
/// of the line at which it ends, and the bytes read so far. Messages that name no session are in `session`.
///
/// # Errors
/// Those of `accept`. A file that is not JSON; what is before the fault has been accepted.
pub(crate) fn read(
    path: &Path,
    source: Source,
    session: Option<&str>,
    accept: &mut dyn FnMut(u64, u64, anyhow::Result<Vec<MessageLine>>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let position = Rc::new(Position { line: Cell::new(1), bytes: Cell::new(0), is_blank: Cell::new(true) });
    let reader = BufReader::with_capacity(1 << 16, input::open(path)?);
    let mut json = serde_json::Deserializer::from_reader(Counted { reader, position: Rc::clone(&position) });
    let (mut stopped, mut number) = (None, 0);
    let mut take = |value| {
        number += 1;
        let messages = convert(source, session, value).with_context(|| format!("value {number}"));
        accept(position.line.get(), position.bytes.get(), messages).map_err(|error| stopped = Some(error))
    };
    loop {
        position.is_blank.set(true);
        match (Values { take: &mut take, is_list: source == Source::Openai }).deserialize(&mut json) {
            Ok(()) => {}
            Err(error) if error.is_eof() && position.is_blank.get() => return Ok(()),
            Err(error) => {
                let fault = || anyhow!("{error}").context(input::at(path, position.line.get()));
                return Err(stopped.unwrap_or_else(fault));
            }
        }
    }
}

/// Reads the messages of one value.
fn convert(source: Source, session: Option<&str>, value: Value) -> anyhow::Result<Vec<MessageLine>> {
    let mut lines = match source {
        Source::Openai => {
            let messages = list(value, "messages");
            let has_id = messages.iter().any(|message| message.get("mnemon").is_some());
            let line = |message| MessageLine { namespace: None, message, has_id };
            from_openai(&messages)?.into_iter().map(line).collect()
        }
        Source::Chatgpt => from_chatgpt(&value)?,
        Source::Langchain => from_langchain(&list(value, "messages"))?,
        Source::Llamaindex => match value.get("store").and_then(Value::as_object) {
            Some(store) => {
                let mut all = Vec::new();
                for (session, messages) in store {
                    let mut lines = from_llamaindex(&list(messages.clone(), "messages"))?;
                    lines.iter_mut().for_each(|line| line.message.session.clone_from(session));
                    all.extend(lines);
                }
                all
            }
            None => from_llamaindex(&list(value, "messages"))?,
        },
        Source::Mem0 => from_mem0(&list(value, "results"))?,
    };
    for MessageLine { message, .. } in &mut lines {
        if let Some(session) = session.filter(|_| message.session == DEFAULT_SESSION) {
            session.clone_into(&mut message.session);
        }
        message.check()?;
    }
    Ok(lines)
}

/// Returns the elements of a list, of the list in this field, or the value itself.
fn list(mut value: Value, field: &str) -> Vec<Value> {
    if let Some(inner) = value.get_mut(field).filter(|inner| inner.is_array()) {
        value = inner.take();
    }
    match value {
        Value::Array(values) => values,
        value => vec![value],
    }
}

/// Passes a value to `take`, or if it is a list, each element as soon as it is read.
struct Values<'a, F> {
    take: &'a mut F,
    /// Whether a list is passed as a whole.
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
struct Position {
    /// The number of the line, from 1.
    line: Cell<u64>,
    bytes: Cell<u64>,
    /// Whether nothing but white space was read since it was set.
    is_blank: Cell<bool>,
}

/// A reader that counts. It is asked for one byte at a time, so the position is that of the JSON that was parsed.
struct Counted<R> {
    reader: R,
    position: Rc<Position>,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(out)?;
        let Position { line, bytes, is_blank } = &*self.position;
        bytes.set(bytes.get() + read as u64);
        line.set(line.get() + out[..read].iter().filter(|byte| **byte == b'\n').count() as u64);
        is_blank.set(is_blank.get() && out[..read].iter().all(u8::is_ascii_whitespace));
        Ok(read)
    }
}
