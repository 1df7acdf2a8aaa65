//! The messages of an ONNX file (`onnx.proto3`), as far as imports read and write them. The bytes for ONNX Runtime do
//! not pass through these structs: see [`tensors`](super::tensors).
//!
//! prost decodes the messages: it skips unknown fields, rejects truncated messages, trusts no length before the bytes
//! are there, and limits nesting to 100. Alternatives: `candle-onnx` and the crates that generate the whole format need
//! `protoc` at build time, or a tensor library. The bytes of a tensor are a slice of the file's bytes, not a copy.

use bytes::Bytes;
use prost::Message;

/// `TensorProto.DataType`.
pub(crate) const FLOAT: i32 = 1;
pub(crate) const INT8: i32 = 3;
pub(crate) const INT64: i32 = 7;

/// `AttributeProto.AttributeType`.
const ATTRIBUTE_FLOAT: i32 = 1;
const ATTRIBUTE_INT: i32 = 2;
const ATTRIBUTE_INTS: i32 = 7;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelProto {
    #[prost(int64, tag = "1")]
    pub(crate) ir_version: i64,
    #[prost(string, tag = "2")]
    pub(crate) producer_name: String,
    #[prost(message, optional, tag = "7")]
    pub(crate) graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "20")]
    pub(crate) training_info: Vec<TrainingInfoProto>,
    #[prost(message, repeated, tag = "25")]
    pub(crate) functions: Vec<FunctionProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OperatorSetIdProto {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(int64, tag = "2")]
    pub(crate) version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TrainingInfoProto {
    #[prost(message, optional, tag = "1")]
    pub(crate) initialization: Option<GraphProto>,
    #[prost(message, optional, tag = "2")]
    pub(crate) algorithm: Option<GraphProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FunctionProto {
    #[prost(message, repeated, tag = "7")]
    pub(crate) node: Vec<NodeProto>,
    /// Attributes with default values.
    #[prost(message, repeated, tag = "11")]
    pub(crate) attribute_proto: Vec<AttributeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) output: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "15")]
    pub(crate) sparse_initializer: Vec<SparseTensorProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attribute: Vec<AttributeProto>,
}

/// A number is written even if it is 0, because readers of the older syntax distinguish 0 from a missing number.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttributeProto {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(float, optional, tag = "2")]
    pub(crate) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) i: Option<i64>,
    #[prost(message, optional, tag = "5")]
    pub(crate) t: Option<TensorProto>,
    #[prost(message, optional, tag = "6")]
    pub(crate) g: Option<GraphProto>,
    #[prost(int64, repeated, tag = "8")]
    pub(crate) ints: Vec<i64>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) tensors: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) graphs: Vec<GraphProto>,
    #[prost(int32, tag = "20")]
    pub(crate) r#type: i32,
    #[prost(message, optional, tag = "22")]
    pub(crate) sparse_tensor: Option<SparseTensorProto>,
    #[prost(message, repeated, tag = "23")]
    pub(crate) sparse_tensors: Vec<SparseTensorProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(crate) data_type: i32,
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    #[prost(bytes = "bytes", tag = "9")]
    pub(crate) raw_data: Bytes,
    #[prost(message, repeated, tag = "13")]
    pub(crate) external_data: Vec<StringStringEntryProto>,
    #[prost(int32, tag = "14")]
    pub(crate) data_location: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SparseTensorProto {
    #[prost(message, optional, tag = "1")]
    pub(crate) values: Option<TensorProto>,
    #[prost(message, optional, tag = "2")]
    pub(crate) indices: Option<TensorProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StringStringEntryProto {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueInfoProto {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) r#type: Option<TypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub(crate) tensor_type: Option<TensorTypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorTypeProto {
    #[prost(int32, tag = "1")]
    pub(crate) elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<TensorShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub(crate) dim: Vec<DimensionProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DimensionProto {
    #[prost(oneof = "Dimension", tags = "1, 2")]
    pub(crate) value: Option<Dimension>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Dimension {
    #[prost(int64, tag = "1")]
    Size(i64),
    #[prost(string, tag = "2")]
    Name(String),
}

impl ModelProto {
    /// Returns the bytes of an ONNX file with this model.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Visits all nodes of the model: in its graph, in graphs of attributes, and in functions.
    pub(crate) fn visit<'m>(&'m self, see: &mut dyn FnMut(&'m NodeProto)) {
        self.graph.iter().for_each(|graph| graph.visit(see));
        self.functions.iter().flat_map(|function| &function.node).for_each(|node| node.visit(see));
    }
}

impl GraphProto {
    fn visit<'m>(&'m self, see: &mut dyn FnMut(&'m NodeProto)) {
        self.node.iter().for_each(|node| node.visit(see));
    }
}

impl NodeProto {
    fn visit<'m>(&'m self, see: &mut dyn FnMut(&'m NodeProto)) {
        see(self);
        let graphs = self.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs));
        graphs.for_each(|graph| graph.visit(see));
    }
}

impl AttributeProto {
    pub(crate) fn float(name: &str, value: f32) -> Self {
        AttributeProto { name: name.into(), r#type: ATTRIBUTE_FLOAT, f: Some(value), ..Default::default() }
    }

    pub(crate) fn int(name: &str, value: i64) -> Self {
        AttributeProto { name: name.into(), r#type: ATTRIBUTE_INT, i: Some(value), ..Default::default() }
    }

    pub(crate) fn ints(name: &str, values: &[i64]) -> Self {
        AttributeProto { name: name.into(), r#type: ATTRIBUTE_INTS, ints: values.to_vec(), ..Default::default() }
    }
}

impl ValueInfoProto {
    /// A tensor whose dimensions are names or sizes.
    pub(crate) fn tensor(name: &str, elem_type: i32, dimensions: &[Dimension]) -> Self {
        let dim = dimensions.iter().map(|value| DimensionProto { value: Some(value.clone()) }).collect();
        let tensor_type = Some(TensorTypeProto { elem_type, shape: Some(TensorShapeProto { dim }) });
        ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
    }

    /// Returns the dimensions, with the size of each that is fixed. `None`: the shape is unknown.
    pub(crate) fn shape(&self) -> Option<Vec<Option<usize>>> {
        let dimensions = &self.r#type.as_ref()?.tensor_type.as_ref()?.shape.as_ref()?.dim;
        let size = |dimension: &DimensionProto| match dimension.value {
            Some(Dimension::Size(size)) => usize::try_from(size).ok().filter(|&size| size > 0),
            _ => None,
        };
        Some(dimensions.iter().map(size).collect())
    }
}
