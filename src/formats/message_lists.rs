//! The messages of JSON objects that hold a whole chat, read one by one.
//!
//! Each message is returned as if the chat had no other: with the fields of the object that come before its list. A chat that
//! lacks a field there, or that has very long ones, is one value, as are objects without such a list.

use std::io::{self, Read};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value};

use super::counted::{Counted, ValueMemory};

/// The list of a chat.
const MESSAGES: &str = "messages";
/// Where an export of several chats has them, and what is around them there.
const CHATS: &str = "list";
const AROUND_CHATS: [&str; 2] = ["chats", "left_chats"];
/// The most memory of the fields that are repeated with each message, in bytes.
const MAX_FIELDS_BYTES: usize = 64 << 10;
/// The most lists and objects around a message.
const MAX_DEPTH: usize = 8;
/// The most bytes of a number.
const MAX_SCALAR_BYTES: usize = 1024;

/// The objects of a file, or the messages in them.
pub(super) struct MessageLists {
    /// The fields without which a message cannot be read.
    needed: &'static [&'static str],
    max_memory: Option<usize>,
    /// Where the reading is, the outermost first.
    open: Vec<Open>,
}

enum Open {
    /// A list of objects.
    Objects,
    /// An object, and whether its fields were returned already or are those of its chats.
    Object(Map<String, Value>, bool),
    /// The messages of the object before it, and whether there was one.
    Messages(bool),
}

impl MessageLists {
    pub(super) fn new(needed: &'static [&'static str], max_memory: Option<usize>) -> Self {
        MessageLists { needed, max_memory, open: Vec::new() }
    }

    /// Returns the next object or message.
    pub(super) fn next_value(&mut self, bytes: &mut Counted<'_>) -> Result<Option<Value>, String> {
        loop {
            let Some(byte) = bytes.peek().map_err(|error| error.to_string())? else {
                let is_whole = self.open.is_empty();
                return if is_whole { Ok(None) } else { Err("EOF while parsing a list or an object".to_owned()) };
            };
            match (self.open.last_mut(), byte) {
                (Some(_), b',') => bytes.skip_byte(),
                (None, b'[') => self.enter(Open::Objects, bytes),
                (None | Some(Open::Objects), b'{') => self.enter(Open::Object(Map::new(), false), bytes),
                (Some(Open::Objects), b']') => self.leave(bytes),
                (Some(Open::Object(fields, is_done)), b'}') => {
                    let value = (!*is_done).then(|| Value::Object(std::mem::take(fields)));
                    self.leave(bytes);
                    if value.is_some() {
                        return Ok(value);
                    }
                }
                (Some(Open::Object(..)), b'"') => self.read_field(bytes)?,
                (Some(Open::Messages(has_any)), b']') => {
                    let has_any = *has_any;
                    self.leave(bytes);
                    if let (false, Some(Open::Object(fields, is_done))) = (has_any, self.open.last_mut()) {
                        fields.insert(MESSAGES.to_owned(), Value::Array(Vec::new()));
                        *is_done = false;
                    }
                }
                (Some(Open::Messages(has_any)), _) => {
                    *has_any = true;
                    bytes.memory = ValueMemory::new(self.max_memory);
                    let message = value(bytes)?;
                    let Some([Open::Object(fields, _), _]) = self.open.last_chunk() else {
                        unreachable!("messages are in an object")
                    };
                    let mut chat = fields.clone();
                    chat.insert(MESSAGES.to_owned(), Value::Array(vec![message]));
                    return Ok(Some(Value::Object(chat)));
                }
                _ => return Err("expected a JSON object or a list of them".to_owned()),
            }
        }
    }

    fn enter(&mut self, what: Open, bytes: &mut Counted<'_>) {
        bytes.skip_byte();
        bytes.memory = ValueMemory::new(self.max_memory);
        self.open.push(what);
    }

    fn leave(&mut self, bytes: &mut Counted<'_>) {
        bytes.skip_byte();
        self.open.pop();
    }

    /// Reads a field of an object, or enters its chats or messages.
    fn read_field(&mut self, bytes: &mut Counted<'_>) -> Result<(), String> {
        // An element, even if its text is short.
        bytes.memory.take(b",").map_err(|error| error.to_string())?;
        let name = String::deserialize(&mut serde_json::Deserializer::from_reader(&mut *bytes)).map_err(reason)?;
        if bytes.peek().map_err(|error| error.to_string())? != Some(b':') {
            return Err("expected `:`".to_owned());
        }
        bytes.skip_byte();
        let next = bytes.peek().map_err(|error| error.to_string())?;
        let is_deep = self.open.len() >= MAX_DEPTH;
        let Some(Open::Object(fields, is_done)) = self.open.last_mut() else { unreachable!("a field is in an object") };
        let is_small = bytes.memory.taken() <= MAX_FIELDS_BYTES;
        let is_known = self.needed.iter().all(|field| fields.contains_key(*field));
        let entered = match (&*name, next) {
            _ if is_deep => None,
            (MESSAGES, Some(b'[')) if is_known && is_small => Some(Open::Messages(false)),
            (CHATS, Some(b'[')) => Some(Open::Objects),
            (name, Some(b'{')) if AROUND_CHATS.contains(&name) => Some(Open::Object(Map::new(), false)),
            _ => None,
        };
        match entered {
            Some(entered) => {
                *is_done = true;
                if !matches!(entered, Open::Messages(_)) {
                    fields.clear();
                }
                self.enter(entered, bytes);
            }
            // What comes after the messages of a chat, or around chats, is not needed.
            None if *is_done => skip(bytes, self.max_memory)?,
            None => drop(fields.insert(name, value(bytes)?)),
        }
        Ok(())
    }
}

fn reason(error: serde_json::Error) -> String {
    // Its place counts from the beginning of the value.
    error.to_string().split(" at line ").next().unwrap_or_default().to_owned()
}

/// Reads a value.
fn value(bytes: &mut Counted<'_>) -> Result<Value, String> {
    match scalar(bytes).map_err(|error| error.to_string())? {
        Some(text) => serde_json::from_slice(&text).map_err(reason),
        None => Value::deserialize(&mut serde_json::Deserializer::from_reader(bytes)).map_err(reason),
    }
}

fn skip(bytes: &mut Counted<'_>, max_memory: Option<usize>) -> Result<(), String> {
    bytes.memory = ValueMemory::new(max_memory);
    match scalar(bytes).map_err(|error| error.to_string())? {
        Some(text) => serde_json::from_slice::<IgnoredAny>(&text).map(drop).map_err(reason),
        None => IgnoredAny::deserialize(&mut serde_json::Deserializer::from_reader(bytes)).map(drop).map_err(reason),
    }
}

/// Reads the text of a number, `true`, `false` or `null`, behind which serde_json would read a byte. Returns `None` before others.
fn scalar(bytes: &mut Counted<'_>) -> io::Result<Option<Vec<u8>>> {
    if matches!(bytes.peek()?, Some(b'{' | b'[' | b'"')) {
        return Ok(None);
    }
    let mut text = Vec::new();
    while let Some(byte) = bytes.next_byte()?.filter(|byte| !byte.is_ascii_whitespace() && !b",]}".contains(byte)) {
        let mut read = [0];
        bytes.read_exact(&mut read)?;
        text.push(byte);
        if text.len() > MAX_SCALAR_BYTES {
            return Err(io::Error::other("a number of too many digits"));
        }
    }
    Ok(Some(text))
}
