//! The tensors of an ONNX file, wherever in it they are; and the file written anew, with something else in their places.
//!
//! This reading alone decides which other files a model has, and what ONNX Runtime is given: what is found is what is replaced. Of
//! ONNX's messages (`onnx.proto3`) only the way down to tensors is known; the rest is passed on as it is, byte by byte, where `prost`
//! would lose the fields that its structures do not name.

use super::{
    folder,
    protobuf::{Value, begin_bytes, end_bytes, fields, put_bytes, put_varint, varints},
};

/// Messages within messages, at most: as many as prost takes.
const MAX_DEPTH: usize = 100;

/// No reader of protocol buffers takes a larger file.
const MAX_BYTES: usize = i32::MAX as usize;

const DAMAGED: &str = "it is no ONNX file, or damaged; export the model again";

/// A message on the way to a tensor.
#[derive(Clone, Copy)]
enum Message {
    Model,
    Training,
    Function,
    Graph,
    Node,
    Attribute,
    Sparse,
    Tensor,
}

impl Message {
    /// What is in a field of it, if tensors can be in that.
    fn inner(self, field: u64) -> Option<Message> {
        Some(match (self, field) {
            (Message::Model, 7) | (Message::Training, 1 | 2) | (Message::Attribute, 6 | 11) => Message::Graph,
            (Message::Model, 20) => Message::Training,
            (Message::Model, 25) => Message::Function,
            (Message::Graph, 1) | (Message::Function, 7) => Message::Node,
            (Message::Node, 5) | (Message::Function, 11) => Message::Attribute,
            (Message::Graph, 15) | (Message::Attribute, 22 | 23) => Message::Sparse,
            (Message::Graph, 5) | (Message::Attribute, 5 | 10) | (Message::Sparse, 1 | 2) => Message::Tensor,
            _ => return None,
        })
    }
}

/// The fields of a tensor.
mod field {
    pub(super) const DIMS: u64 = 1;
    pub(super) const DATA_TYPE: u64 = 2;
    pub(super) const NAME: u64 = 8;
    pub(super) const RAW_DATA: u64 = 9;
    pub(super) const EXTERNAL_DATA: u64 = 13;
    pub(super) const DATA_LOCATION: u64 = 14;
    /// Of an entry of `EXTERNAL_DATA`.
    pub(super) const KEY: u64 = 1;
    pub(super) const VALUE: u64 = 2;
    /// `DATA_LOCATION` of what is in another file.
    pub(super) const EXTERNAL: u64 = 1;
}

/// A tensor as it is in a file.
pub(super) struct Tensor<'m> {
    pub(super) name: &'m str,
    /// `TensorProto.DataType`.
    pub(super) kind: u64,
    pub(super) dims: Vec<u64>,
    /// Whether it is an initializer of the model's own graph, which ONNX Runtime can be given beside it.
    pub(super) is_weight: bool,
    pub(super) data: Data<'m>,
    message: &'m [u8],
    /// All fields but `RAW_DATA`, and what says where else it is.
    rest: Vec<&'m [u8]>,
}

pub(super) enum Data<'m> {
    Raw(&'m [u8]),
    /// In one of the fields for numbers and texts, or none.
    Typed,
    External(Place<'m>),
}

/// A part of another file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place<'m> {
    /// The name of a file in the model's folder.
    pub(super) file: &'m str,
    pub(super) offset: usize,
    /// All the rest, if none is given.
    pub(super) length: Option<usize>,
}

/// The file with what `write` writes for each tensor; or what is wrong with it. `write` is given the tensors in their order.
pub(super) fn rewritten(
    model: &[u8],
    write: impl FnMut(&Tensor<'_>, &mut Vec<u8>) -> Result<(), String>,
) -> Result<Vec<u8>, String> {
    let mut rewriting = Rewriting { write, out: Vec::new(), has_graph: false };
    rewriting.message(Message::Model, model, 0)?;
    match rewriting.has_graph {
        true => Ok(rewriting.out),
        false => Err("it is no ONNX file: it has no graph; export the model again".into()),
    }
}

struct Rewriting<W> {
    write: W,
    out: Vec<u8>,
    has_graph: bool,
}

impl<W: FnMut(&Tensor<'_>, &mut Vec<u8>) -> Result<(), String>> Rewriting<W> {
    fn message(&mut self, message: Message, bytes: &[u8], depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(DAMAGED.into());
        }
        for field in fields(bytes).ok_or(DAMAGED)? {
            let (Some(inner), Value::Bytes(bytes)) = (message.inner(field.number), field.value) else {
                self.out.extend_from_slice(field.encoded);
                continue;
            };
            let begin = begin_bytes(&mut self.out, field.number);
            match inner {
                // In a model's own graph, not in a node of it.
                Message::Tensor => (self.write)(&Tensor::read(bytes, depth == 1)?, &mut self.out)?,
                _ => self.message(inner, bytes, depth + 1)?,
            }
            if self.out.len() > MAX_BYTES {
                let what = "it has more than 2 GiB in weights of other files that are no initializers of its graph, or of a kind";
                return Err(format!(
                    "{what} that is rare; export the model again, with its weights as initializers of f32 or f16"
                ));
            }
            end_bytes(&mut self.out, begin);
            self.has_graph |= matches!((message, inner), (Message::Model, Message::Graph));
        }
        Ok(())
    }
}

impl<'m> Tensor<'m> {
    fn read(message: &'m [u8], is_weight: bool) -> Result<Self, String> {
        let (mut name, mut kind, mut dims, mut rest) = ("", 0, Vec::new(), Vec::new());
        let (mut raw, mut entries, mut is_external) = (None, Vec::new(), false);
        let is_typed = |number| matches!(number, 4..=7 | 10 | 11);
        let mut has_values = false;
        for found in fields(message).ok_or(DAMAGED)? {
            match (found.number, found.value) {
                (field::RAW_DATA, Value::Bytes(bytes)) => {
                    raw = Some(bytes);
                    continue;
                }
                (field::EXTERNAL_DATA, Value::Bytes(bytes)) => {
                    entries.push(entry(bytes).ok_or(DAMAGED)?);
                    continue;
                }
                // Whatever it says last: readers differ in what they make of a place that they do not know.
                (field::DATA_LOCATION, Value::Varint(place)) => {
                    is_external |= place != 0;
                    continue;
                }
                (field::NAME, Value::Bytes(bytes)) => name = std::str::from_utf8(bytes).map_err(|_| DAMAGED)?,
                (field::DATA_TYPE, Value::Varint(found)) => kind = found,
                (field::DIMS, Value::Varint(dim)) => dims.push(dim),
                (field::DIMS, Value::Bytes(packed)) => dims.extend(varints(packed).ok_or(DAMAGED)?),
                (number, _) => has_values |= is_typed(number),
            }
            rest.push(found.encoded);
        }
        let data = match raw {
            _ if !is_external => raw.map_or(Data::Typed, Data::Raw),
            _ if has_values || raw.is_some_and(|raw| !raw.is_empty()) => {
                return Err(format!(
                    "tensor {name:?} has its data in the graph and in another file; export the model again"
                ));
            }
            _ => Data::External(Place::read(&entries).map_err(|fault| format!("tensor {name:?} {fault}"))?),
        };
        Ok(Tensor { name, kind, dims, is_weight, data, message, rest })
    }

    /// Writes it as it is.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.message);
    }

    /// Writes it with its data in it.
    pub(super) fn put_with(&self, data: &[u8], out: &mut Vec<u8>) {
        self.rest.iter().for_each(|field| out.extend_from_slice(field));
        put_bytes(out, field::RAW_DATA, data);
    }

    /// Writes it with its data elsewhere.
    pub(super) fn put_outside(&self, file: &str, offset: usize, length: usize, out: &mut Vec<u8>) {
        self.rest.iter().for_each(|field| out.extend_from_slice(field));
        for (key, value) in [("location", file), ("offset", &offset.to_string()), ("length", &length.to_string())] {
            let entry = begin_bytes(out, field::EXTERNAL_DATA);
            put_bytes(out, field::KEY, key.as_bytes());
            put_bytes(out, field::VALUE, value.as_bytes());
            end_bytes(out, entry);
        }
        put_varint(out, field::DATA_LOCATION, field::EXTERNAL);
    }
}

impl<'m> Place<'m> {
    fn read(entries: &[(&'m str, &'m str)]) -> Result<Self, String> {
        let value = |key| {
            let mut values = entries.iter().filter(|(found, _)| *found == key).map(|(_, value)| *value);
            match (values.next(), values.next()) {
                (_, Some(_)) => {
                    Err(format!("has its data in a file, and two times a {key} in it; export the model again"))
                }
                (value, None) => Ok(value),
            }
        };
        let number = |key| {
            let parsed =
                |text: &str| text.parse::<usize>().map_err(|_| format!("has its data in a file, at {key} {text:?}"));
            value(key)?.map(parsed).transpose()
        };
        let file = value("location")?.ok_or("has its data in a file that it does not name; export the model again")?;
        if !folder::is_plain(file) {
            return Err(format!("has its data in {file:?}; it may only be in a file of the model's own folder"));
        }
        Ok(Place { file, offset: number("offset")?.unwrap_or(0), length: number("length")? })
    }

    /// The bytes of it in one of these files.
    pub(super) fn part<'f>(&self, files: &'f [(String, Vec<u8>)]) -> Result<&'f [u8], String> {
        let (_, bytes) = files
            .iter()
            .find(|(name, _)| name == self.file)
            .ok_or_else(|| format!("is in {}, which was not read", self.file))?;
        let end = self.length.map_or(bytes.len().max(self.offset), |length| self.offset.saturating_add(length));
        bytes
            .get(self.offset..end)
            .ok_or_else(|| format!("ends at byte {end} of {}, which has {}", self.file, bytes.len()))
    }
}

fn entry(message: &[u8]) -> Option<(&str, &str)> {
    let (mut key, mut value) = ("", "");
    for found in fields(message)? {
        match (found.number, found.value) {
            (field::KEY, Value::Bytes(bytes)) => key = std::str::from_utf8(bytes).ok()?,
            (field::VALUE, Value::Bytes(bytes)) => value = std::str::from_utf8(bytes).ok()?,
            _ => {}
        }
    }
    Some((key, value))
}
