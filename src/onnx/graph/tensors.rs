//! Finds the tensors of an ONNX file, wherever in the file they are, and rewrites the file with other contents for
//! them.
//!
//! Only this module decides which other files a model refers to and what ONNX Runtime is given: the tensors that are
//! found are those that are replaced. Of ONNX's messages (`onnx.proto3`) it knows only the path down to tensors. All
//! other bytes are copied unchanged; `prost` would lose the fields that its structs do not name.

use super::wire::{Value, begin_bytes, end_bytes, fields, put_bytes, put_varint, varints};
use crate::model_folders::is_plain;

/// Maximum nesting of messages, the same as prost's.
const MAX_DEPTH: usize = 100;

/// Maximum size of a protocol buffer.
const MAX_BYTES: usize = i32::MAX as usize;

const DAMAGED: &str = "it is not an ONNX file, or it is damaged; export the model again";

/// A type of message that may contain tensors.
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
    /// Returns the type of message in a field, if it may contain tensors.
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

/// The field numbers of a tensor.
mod field {
    pub(super) const DIMS: u64 = 1;
    pub(super) const DATA_TYPE: u64 = 2;
    pub(super) const NAME: u64 = 8;
    pub(super) const RAW_DATA: u64 = 9;
    pub(super) const EXTERNAL_DATA: u64 = 13;
    pub(super) const DATA_LOCATION: u64 = 14;
    /// Fields of an entry of `EXTERNAL_DATA`.
    pub(super) const KEY: u64 = 1;
    pub(super) const VALUE: u64 = 2;
    /// The value of `DATA_LOCATION` for data in another file.
    pub(super) const EXTERNAL: u64 = 1;
}

/// A tensor in an ONNX file.
pub(crate) struct Tensor<'m> {
    pub(crate) name: &'m str,
    /// `TensorProto.DataType`.
    pub(crate) kind: u64,
    pub(crate) dims: Vec<u64>,
    /// Whether it is an initializer of the main graph, which ONNX Runtime accepts separately from the graph.
    pub(crate) is_weight: bool,
    pub(crate) data: Data<'m>,
    message: &'m [u8],
    /// All fields except `RAW_DATA` and those that state where external data is.
    rest: Vec<&'m [u8]>,
}

/// The data of a tensor.
pub(crate) enum Data<'m> {
    Raw(&'m [u8]),
    /// Data in one of the typed fields for numbers and strings, or no data.
    Typed,
    External(ExternalRange<'m>),
}

/// A part of another file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ExternalRange<'m> {
    /// The name of a file in the model's folder.
    pub(crate) file: &'m str,
    pub(crate) offset: usize,
    /// `None`: up to the end of the file.
    pub(crate) length: Option<usize>,
}

/// Returns the file with each tensor replaced by the output of `write`. `write` is called for the tensors in order.
///
/// # Errors
/// The reason why the file or a tensor is invalid, or the error of `write`.
pub(crate) fn rewritten(
    model: &[u8],
    write: impl FnMut(&Tensor<'_>, &mut Vec<u8>) -> Result<(), String>,
) -> Result<Vec<u8>, String> {
    let mut rewriting = Rewriting { write, out: Vec::new(), has_graph: false };
    rewriting.message(Message::Model, model, 0)?;
    match rewriting.has_graph {
        true => Ok(rewriting.out),
        false => Err("it is not an ONNX file: it has no graph; export the model again".into()),
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
                // At depth 1 the tensor is an initializer of the main graph; deeper, it belongs to a node.
                Message::Tensor => (self.write)(&Tensor::read(bytes, depth == 1)?, &mut self.out)?,
                _ => self.message(inner, bytes, depth + 1)?,
            }
            if self.out.len() > MAX_BYTES {
                return Err("it has more than 2 GiB of external weights that are not initializers of the main graph, or have an \
                            uncommon type; export the model again, with its weights as initializers of f32 or f16"
                    .into());
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
                // External if any occurrence of the field states so: readers differ in how they treat repeated fields
                // and unknown locations.
                (field::DATA_LOCATION, Value::Varint(location)) => {
                    is_external |= location != 0;
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
            _ => Data::External(ExternalRange::read(&entries).map_err(|fault| format!("tensor {name:?} {fault}"))?),
        };
        Ok(Tensor { name, kind, dims, is_weight, data, message, rest })
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.message);
    }

    /// Writes the tensor with its data inside.
    pub(crate) fn put_with(&self, data: &[u8], out: &mut Vec<u8>) {
        self.rest.iter().for_each(|field| out.extend_from_slice(field));
        put_bytes(out, field::RAW_DATA, data);
    }

    /// Writes the tensor with its data in another file.
    pub(crate) fn put_outside(&self, file: &str, offset: usize, length: usize, out: &mut Vec<u8>) {
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

impl<'m> ExternalRange<'m> {
    fn read(entries: &[(&'m str, &'m str)]) -> Result<Self, String> {
        let value = |key| {
            let mut values = entries.iter().filter(|(found, _)| *found == key).map(|(_, value)| *value);
            match (values.next(), values.next()) {
                (_, Some(_)) => Err(format!("states {key} twice for its data in another file; export the model again")),
                (value, None) => Ok(value),
            }
        };
        let number = |key| {
            let parsed = |text: &str| {
                text.parse::<usize>().map_err(|_| {
                    format!("has its data in another file, but {key} {text:?} is not a number; export the model again")
                })
            };
            value(key)?.map(parsed).transpose()
        };
        let file =
            value("location")?.ok_or("has its data in another file that it does not name; export the model again")?;
        if !is_plain(file) {
            return Err(format!("has its data in {file:?}, but only files in the model's own folder are allowed"));
        }
        Ok(ExternalRange { file, offset: number("offset")?.unwrap_or(0), length: number("length")? })
    }

    /// Returns the bytes of this part of one of the files.
    pub(crate) fn part<'f>(&self, files: &'f [(String, Vec<u8>)]) -> Result<&'f [u8], String> {
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
