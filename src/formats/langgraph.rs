//! Checkpoints of LangGraph in SQLite: the state of a thread after each step, in MessagePack.
//!
//! A message is read from the first checkpoint that has it, because a state that was trimmed has the last messages alone. The
//! path from the newest checkpoint to the first counts, so what a thread said before it was forked from an earlier checkpoint
//! is left out. A state may also keep the changes alone (`DeltaChannel`), which are then among the writes of the steps.

use std::collections::{HashMap, HashSet};

use rmpv::Value as Packed;
use serde_json::{Map, Value};

use super::{
    agent::cut_arguments,
    chats::is_langchain,
    database::{Database, bytes, text},
    reader::{Found, ReadOptions, Rows},
    said::{filled, moment},
};
use crate::{
    error::{Error, Result},
    message::{ContentPart, MessageLine, Timestamp, cut, format::from_langchain},
};

/// The types of LangGraph's extensions that hold a module, a class, and what the object is made with: one argument, named ones,
/// and the fields of Pydantic's models.
const OBJECTS: [i8; 4] = [0, 2, 4, 5];
/// The extension that holds a whole state of a `DeltaChannel`.
const SNAPSHOT: i8 = 7;
/// The most extensions within each other.
const MAX_DEPTH: usize = 64;
/// How the names of channels begin that are LangGraph's own.
const OWN_CHANNELS: [&str; 2] = ["__", "branch:"];

pub(super) fn read(database: Database, options: &ReadOptions) -> Result<Rows<'static>> {
    let threads = "SELECT thread_id FROM checkpoints GROUP BY thread_id ORDER BY MIN(checkpoint_id)";
    let threads = database.rows(threads, [], |row| text(row, "thread_id"))?;
    let tool_output = options.tool_output;
    Ok(Box::new(threads.into_iter().map(move |thread| read_thread(&database, &thread, tool_output))))
}

fn read_thread(database: &Database, thread: &str, tool_output: usize) -> Result<Found> {
    let mut found = Found::default();
    let mut states = States::default();
    let mut parent: Option<(String, Vec<String>)> = None;
    for id in path(database, thread)? {
        let state = state(database, thread, &id)?.unwrap_or_else(|reason| {
            found.messages.push(Err(Error::message(format!("thread {thread:?}, checkpoint {id}: {reason}"))));
            Value::Null
        });
        let channels = state["channel_values"].as_object();
        let has = |channel: &String| channels.is_some_and(|channels| channels.contains_key(channel));
        let versions = state["channel_versions"].as_object().into_iter().flatten().map(|(channel, _)| channel);
        let changing: Vec<String> =
            versions.filter(|channel| is_of_program(channel) && !has(channel)).cloned().collect();
        let time = moment(&state["ts"]);
        // The changes before this checkpoint are those that the step after its parent wrote.
        if let Some((parent, _)) = &parent {
            states.add_writes(database, thread, parent, &changing, time)?;
        }
        for (_, list) in channels.into_iter().flatten().filter(|(channel, _)| is_of_program(channel)) {
            states.add(list, time);
        }
        parent = Some((id, changing));
    }
    // What the last step wrote, before its checkpoint.
    if let Some((last, changing)) = parent {
        states.add_writes(database, thread, &last, &changing, None)?;
    }
    let subgraphs =
        "SELECT COUNT(DISTINCT checkpoint_ns) AS count FROM checkpoints WHERE thread_id = ?1 AND checkpoint_ns <> ''";
    let subgraphs = database.rows(subgraphs, [thread], |row| row.get::<_, i64>("count").unwrap_or(0))?;
    if let Some(count) = subgraphs.first().filter(|count| **count > 0) {
        found
            .notes
            .push(format!("thread {thread:?}: the states of {count} subgraphs, which the graph asked, were left out"));
    }
    found.messages.extend(states.messages.into_iter().filter_map(|message| message.into_line(thread, tool_output)));
    Ok(found)
}

/// Returns the checkpoints from the first to the newest.
fn path(database: &Database, thread: &str) -> Result<Vec<String>> {
    let sql = "SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints \
               WHERE thread_id = ?1 AND checkpoint_ns = '' ORDER BY checkpoint_id";
    let checkpoints =
        database.rows(sql, [thread], |row| (text(row, "checkpoint_id"), text(row, "parent_checkpoint_id")))?;
    let parents: HashMap<&str, &str> = checkpoints.iter().map(|(id, parent)| (&**id, &**parent)).collect();
    let newest = checkpoints.last().map(|(id, _)| &**id);
    // A parent may have been deleted, and a circle of parents would have no end.
    let path = std::iter::successors(newest, |id| parents.get(id).copied().filter(|id| parents.contains_key(id)));
    let mut path: Vec<String> = path.take(checkpoints.len()).map(str::to_owned).collect();
    path.reverse();
    Ok(path)
}

/// Returns the state of a checkpoint, or why it cannot be read.
fn state(database: &Database, thread: &str, id: &str) -> Result<std::result::Result<Value, String>> {
    let sql =
        "SELECT type, checkpoint FROM checkpoints WHERE thread_id = ?1 AND checkpoint_ns = '' AND checkpoint_id = ?2";
    let rows = database.rows(sql, [thread, id], |row| unpacked(&text(row, "type"), bytes(row, "checkpoint")))?;
    // It may have been deleted meanwhile.
    Ok(rows.into_iter().next().unwrap_or(Ok(Value::Null)))
}

/// Whether a channel is one that the program named.
fn is_of_program(channel: &str) -> bool {
    !OWN_CHANNELS.iter().any(|own| channel.starts_with(own))
}

/// The messages of the states of a thread.
#[derive(Default)]
struct States {
    messages: Vec<Seen>,
    /// The places of messages by their ids.
    places: HashMap<String, usize>,
}

struct Seen {
    message: Value,
    /// When the first checkpoint with it was made.
    time: Option<Timestamp>,
}

impl States {
    /// Adds the messages of a list. One that is known already takes the place of its earlier form.
    fn add(&mut self, list: &Value, time: Option<Timestamp>) {
        let values = list.as_array().map_or(std::slice::from_ref(list), Vec::as_slice);
        let mut keys = HashSet::new();
        for message in values.iter().filter(|value| is_langchain(value)) {
            let fields = ["data", "kwargs"].iter().find_map(|field| message.get(*field)).unwrap_or(message);
            let own = filled(&fields["id"]).map_or_else(|| message.to_string(), str::to_owned);
            // Messages without ids may be equal.
            let key = (0..).map(|count| format!("{own}/{count}")).find(|key| keys.insert(key.clone()));
            let key = key.expect("one of all numbers is free");
            match self.places.get(&key) {
                Some(at) => self.messages[*at].message = message.clone(),
                None => {
                    self.places.insert(key, self.messages.len());
                    self.messages.push(Seen { message: message.clone(), time });
                }
            }
        }
    }

    /// Adds what the step after a checkpoint wrote to some channels.
    fn add_writes(
        &mut self,
        database: &Database,
        thread: &str,
        checkpoint: &str,
        channels: &[String],
        time: Option<Timestamp>,
    ) -> Result<()> {
        if channels.is_empty() {
            return Ok(());
        }
        let sql = "SELECT * FROM writes WHERE thread_id = ?1 AND checkpoint_ns = '' AND checkpoint_id = ?2 ORDER BY task_id, idx";
        let writes = database.rows(sql, [thread, checkpoint], |row| {
            let channel = text(row, "channel");
            let is_known = channels.contains(&channel);
            // A write that cannot be read is that of a state that cannot be read, which was told.
            let value = is_known.then(|| unpacked(&text(row, "type"), bytes(row, "value")).ok());
            (text(row, "task_path"), value.flatten())
        })?;
        let mut writes: Vec<_> = writes.into_iter().filter_map(|(path, value)| Some((path, value?))).collect();
        // The order in which LangGraph applies them. Its older versions have no such column.
        writes.sort_by(|(a, _), (b, _)| a.cmp(b));
        writes.iter().for_each(|(_, value)| self.add(value, time));
        Ok(())
    }
}

impl Seen {
    fn into_line(self, thread: &str, tool_output: usize) -> Option<Result<MessageLine>> {
        let mut line = match from_langchain(&[self.message]).next()? {
            Ok(line) => line,
            Err(error) => return Some(Err(Error::message(format!("thread {thread:?}: {error}")))),
        };
        let message = &mut line.message;
        message.content =
            std::mem::take(&mut message.content).into_iter().filter_map(|part| kept(part, tool_output)).collect();
        if message.content.is_empty() {
            return None;
        }
        thread.clone_into(&mut message.session);
        message.id = format!("{thread}/{}", message.id);
        message.created_at = message.created_at.or(self.time);
        Some(Ok(line))
    }
}

/// Returns a part with calls of tools and their outputs cut, or `None` if these are left out.
fn kept(part: ContentPart, tool_output: usize) -> Option<ContentPart> {
    match part {
        ContentPart::ToolCall { .. } | ContentPart::ToolResult { .. } if tool_output == 0 => None,
        ContentPart::ToolCall { id, name, arguments } => {
            Some(ContentPart::ToolCall { id, name, arguments: cut_arguments(arguments, tool_output) })
        }
        ContentPart::ToolResult { id, content } => {
            Some(ContentPart::ToolResult { id, content: cut(content, tool_output) })
        }
        part => Some(part),
    }
}

/// Returns what LangGraph wrote of a value, or why it cannot be read.
fn unpacked(kind: &str, bytes: &[u8]) -> std::result::Result<Value, String> {
    match kind {
        "msgpack" => unpack(bytes, 0).map_err(|error| format!("it is no MessagePack: {error}")),
        "json" => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
        "null" => Ok(Value::Null),
        kind if kind.contains('+') => {
            Err(format!("it is encrypted ({kind}); copy the thread with its key to a checkpointer without one"))
        }
        kind => Err(format!("its type is {kind:?}, which is none of msgpack and json")),
    }
}

fn unpack(mut bytes: &[u8], depth: usize) -> std::result::Result<Value, rmpv::decode::Error> {
    rmpv::decode::read_value_with_max_depth(&mut bytes, MAX_DEPTH).map(|value| plain(value, depth))
}

/// Returns a value without MessagePack's own types. An object of Python has its fields alone.
fn plain(value: Packed, depth: usize) -> Value {
    let key = |key: Packed| key.as_str().map_or_else(|| key.to_string(), str::to_owned);
    match value {
        Packed::Nil | Packed::Binary(_) => Value::Null,
        Packed::Boolean(value) => value.into(),
        Packed::Integer(value) => {
            value.as_i64().map(Value::from).or(value.as_u64().map(Value::from)).unwrap_or_default()
        }
        Packed::F32(value) => value.into(),
        Packed::F64(value) => value.into(),
        Packed::String(text) => String::from_utf8_lossy(text.as_bytes()).into(),
        Packed::Array(values) => values.into_iter().map(|value| plain(value, depth)).collect(),
        Packed::Map(fields) => {
            fields.into_iter().map(|(name, value)| (key(name), plain(value, depth))).collect::<Map<_, _>>().into()
        }
        Packed::Ext(kind, bytes) if depth < MAX_DEPTH => {
            let mut inner = unpack(&bytes, depth + 1).unwrap_or_default();
            match kind {
                SNAPSHOT => inner,
                kind if OBJECTS.contains(&kind) => inner.get_mut(2).map(Value::take).unwrap_or_default(),
                _ => Value::Null,
            }
        }
        Packed::Ext(..) => Value::Null,
    }
}
