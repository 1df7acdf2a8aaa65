//! Writes an ONNX graph node by node. Each call returns the name of the output of the node or constant that it adds.

use std::collections::HashSet;

use bytes::Bytes;

use crate::onnx::graph::proto::{
    AttributeProto, Dimension, FLOAT, GraphProto, INT64, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    ValueInfoProto,
};

/// The version of the standard operators, which every supported ONNX Runtime knows.
const OPERATOR_SET: i64 = 17;
/// The oldest file format version that may contain this operator set.
const IR_VERSION: i64 = 8;

/// A graph under construction.
#[derive(Default)]
pub(super) struct Graph {
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    names: HashSet<String>,
}

impl Graph {
    pub(super) fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, shape, FLOAT, bytes)
    }

    pub(super) fn ints(&mut self, name: &str, shape: &[usize], values: &[i64]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, shape, INT64, bytes)
    }

    /// Adds a constant, unless one of this name exists: equal names must have equal values.
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

    /// Returns the model, with inputs `[batch, sequence]` of i64. The output of the last node, `[batch, sequence,
    /// width]` of f32, becomes the model's output under the name `output`.
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
