//! Tensors in and out: weights by name from `model.safetensors`, widened to f32, and an ONNX graph, written node by node.

use std::{cell::RefCell, collections::HashSet};

use bytes::Bytes;
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use crate::onnx::graph::proto::{
    AttributeProto, Dimension, FLOAT, GraphProto, INT64, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    ValueInfoProto,
};

/// The name endings of a layer norm's weight and bias, each with its ending in old checkpoints.
const OLD_NAMES: [(&str, &str); 2] = [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")];

/// The weights of a file. It records which tensors were read, so that the importer can find unexpected ones.
pub(super) struct Weights<'w> {
    tensors: SafeTensors<'w>,
    /// The prefix of all names, such as `bert.`, in files of models that were saved with a head.
    prefix: String,
    used: RefCell<HashSet<String>>,
}

/// The description of a problem with a file or a tensor.
pub(super) type Fault = String;

impl<'w> Weights<'w> {
    /// Reads the file's index. `anchor` is the name of a tensor that must exist; its prefix in the file is the prefix
    /// of all names.
    pub(super) fn new(bytes: &'w [u8], anchor: &str) -> Result<Self, Fault> {
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| format!("not a safetensors file: {error}"))?;
        let prefix = tensors.names().into_iter().filter_map(|name| name.strip_suffix(anchor)).min();
        let prefix = prefix.ok_or_else(|| format!("tensor {anchor:?} is missing"))?.to_owned();
        Ok(Weights { tensors, prefix, used: RefCell::default() })
    }

    /// Returns the tensor's full name in the file, which may be its name in old checkpoints.
    fn name(&self, name: &str) -> Option<String> {
        let old = OLD_NAMES.iter().find_map(|(new, old)| Some(format!("{}{old}", name.strip_suffix(new)?)));
        let names = [Some(name.to_owned()), old].into_iter().flatten().map(|name| format!("{}{name}", self.prefix));
        names.into_iter().find(|name| self.tensors.tensor(name).is_ok())
    }

    pub(super) fn shape(&self, name: &str) -> Result<Vec<usize>, Fault> {
        let full =
            self.name(name).ok_or_else(|| format!("tensor {:?} is missing", format!("{}{name}", self.prefix)))?;
        Ok(self.tensors.tensor(&full).map_err(|error| error.to_string())?.shape().to_vec())
    }

    /// Returns the values of the tensor with this name and shape, row by row.
    pub(super) fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Fault> {
        let found = self.shape(name)?;
        if found != shape {
            return Err(format!("{name:?} has the shape {found:?}, but config.json requires {shape:?}"));
        }
        let full = self.name(name).expect("`shape` found the tensor");
        let tensor = self.tensors.tensor(&full).map_err(|error| error.to_string())?;
        let data = tensor.data();
        let pair = |bytes: &[u8]| [bytes[0], bytes[1]];
        let values: Vec<f32> = match tensor.dtype() {
            Dtype::F32 => data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            Dtype::F16 => data.chunks_exact(2).map(|bytes| f16::from_le_bytes(pair(bytes)).to_f32()).collect(),
            Dtype::BF16 => data.chunks_exact(2).map(|bytes| bf16::from_le_bytes(pair(bytes)).to_f32()).collect(),
            other => return Err(format!("{name:?} has the type {other:?}; f32, f16 and bf16 are supported")),
        };
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(format!("{name:?} contains the value {value}; all weights must be finite"));
        }
        self.used.borrow_mut().insert(full);
        Ok(values)
    }

    /// Returns the names of the tensors that begin with one of these prefixes and were not read, sorted.
    pub(super) fn unused(&self, prefixes: &[&str]) -> Vec<String> {
        let used = self.used.borrow();
        let of_encoder = |name: &str| {
            let name = name.strip_prefix(&self.prefix).unwrap_or_default();
            // Older releases saved `position_ids`, a buffer that is not a weight.
            prefixes.iter().any(|prefix| name.starts_with(prefix)) && !name.ends_with("position_ids")
        };
        let mut names: Vec<String> = self.tensors.names().into_iter().map(str::to_owned).collect();
        names.retain(|name| of_encoder(name) && !used.contains(name));
        names.sort();
        names
    }

    /// Returns the total number of values of all tensors.
    pub(super) fn count(&self) -> usize {
        self.tensors.iter().map(|(_, tensor)| tensor.shape().iter().product::<usize>()).sum()
    }
}

/// The version of the standard operators, which every supported ONNX Runtime knows.
const OPERATOR_SET: i64 = 17;
/// The oldest file format version that may contain this operator set.
const IR_VERSION: i64 = 8;

/// A graph under construction. Each method that adds a node or a constant returns the name of its output.
#[derive(Default)]
pub(super) struct GraphWriter {
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    names: HashSet<String>,
}

impl GraphWriter {
    pub(super) fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, shape, FLOAT, bytes)
    }

    pub(super) fn ints(&mut self, name: &str, shape: &[usize], values: &[i64]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, shape, INT64, bytes)
    }

    /// Adds a constant, unless one of this name exists. Constants of one name must have the same values.
    fn constant(&mut self, name: &str, shape: &[usize], data_type: i32, bytes: Vec<u8>) -> String {
        if self.names.insert(name.to_owned()) {
            let dims = shape.iter().map(|&size| size as i64).collect();
            let raw_data = Bytes::from(bytes);
            self.constants.push(TensorProto { name: name.into(), dims, data_type, raw_data, ..Default::default() });
        }
        name.to_owned()
    }

    pub(super) fn node(&mut self, op_type: &str, inputs: &[&str]) -> String {
        self.node_with(op_type, inputs, Vec::new())
    }

    pub(super) fn node_with(&mut self, op_type: &str, inputs: &[&str], attribute: Vec<AttributeProto>) -> String {
        let output = format!("{op_type}_{}", self.nodes.len());
        self.nodes.push(NodeProto {
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![output.clone()],
            name: format!("n_{output}"),
            op_type: op_type.to_owned(),
            attribute,
        });
        output
    }

    /// Returns the model. Its inputs are i64 `[batch, sequence]`, its output f32 `[batch, sequence, width]` with the name
    /// `output`, which is the output of the last node.
    pub(super) fn into_model(mut self, inputs: &[&str], output: &str, width: usize) -> ModelProto {
        self.nodes.last_mut().expect("an encoder has nodes").output = vec![output.to_owned()];
        let rows = || ["batch", "sequence"].map(|name| Dimension::Name(name.into())).to_vec();
        let input = inputs.iter().map(|input| ValueInfoProto::tensor(input, INT64, &rows())).collect();
        let states = [rows(), vec![Dimension::Size(width as i64)]].concat();
        let graph = GraphProto {
            node: self.nodes,
            name: "encoder".into(),
            initializer: self.constants,
            input,
            output: vec![ValueInfoProto::tensor(output, FLOAT, &states)],
            sparse_initializer: Vec::new(),
        };
        ModelProto {
            ir_version: IR_VERSION,
            producer_name: "mnemon".into(),
            graph: Some(graph),
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: OPERATOR_SET }],
            ..Default::default()
        }
    }
}
