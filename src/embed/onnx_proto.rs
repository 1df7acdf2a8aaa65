//! The messages of an ONNX file (`onnx.proto3`) that are read, to see what a graph holds, and written, by the import. What ONNX
//! Runtime is given is none of their business: [`tensors`](super::tensors) reads that.
//!
//! prost decodes them: what it does not know it skips, what is cut short is an error, no length in a file is believed before the
//! bytes are there, and messages nest no deeper than 100. Considered: `candle-onnx` and the crates that generate all of the
//! format need `protoc` when they are built, or a tensor library. A tensor's bytes are a part of the file's, not a copy.

use bytes::Bytes;
use prost::Message;

/// `TensorProto.DataType`.
pub(super) const FLOAT: i32 = 1;
pub(super) const INT64: i32 = 7;

/// `AttributeProto.AttributeType`.
const ATTRIBUTE_FLOAT: i32 = 1;
const ATTRIBUTE_INT: i32 = 2;
const ATTRIBUTE_INTS: i32 = 7;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ModelProto {
    #[prost(int64, tag = "1")]
    pub(super) ir_version: i64,
    #[prost(string, tag = "2")]
    pub(super) producer_name: String,
    #[prost(message, optional, tag = "7")]
    pub(super) graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub(super) opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "20")]
    pub(super) training_info: Vec<TrainingInfoProto>,
    #[prost(message, repeated, tag = "25")]
    pub(super) functions: Vec<FunctionProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OperatorSetIdProto {
    #[prost(string, tag = "1")]
    pub(super) domain: String,
    #[prost(int64, tag = "2")]
    pub(super) version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrainingInfoProto {
    #[prost(message, optional, tag = "1")]
    pub(super) initialization: Option<GraphProto>,
    #[prost(message, optional, tag = "2")]
    pub(super) algorithm: Option<GraphProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FunctionProto {
    #[prost(message, repeated, tag = "7")]
    pub(super) node: Vec<NodeProto>,
    /// Attributes with default values.
    #[prost(message, repeated, tag = "11")]
    pub(super) attribute_proto: Vec<AttributeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(super) input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub(super) output: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "15")]
    pub(super) sparse_initializer: Vec<SparseTensorProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub(super) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(super) name: String,
    #[prost(string, tag = "4")]
    pub(super) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) attribute: Vec<AttributeProto>,
}

/// A number is written also where it is 0: readers of the older syntax tell that from none.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AttributeProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(float, optional, tag = "2")]
    pub(super) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(super) i: Option<i64>,
    #[prost(message, optional, tag = "5")]
    pub(super) t: Option<TensorProto>,
    #[prost(message, optional, tag = "6")]
    pub(super) g: Option<GraphProto>,
    #[prost(int64, repeated, tag = "8")]
    pub(super) ints: Vec<i64>,
    #[prost(message, repeated, tag = "10")]
    pub(super) tensors: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(super) graphs: Vec<GraphProto>,
    #[prost(int32, tag = "20")]
    pub(super) r#type: i32,
    #[prost(message, optional, tag = "22")]
    pub(super) sparse_tensor: Option<SparseTensorProto>,
    #[prost(message, repeated, tag = "23")]
    pub(super) sparse_tensors: Vec<SparseTensorProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub(super) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(super) data_type: i32,
    #[prost(string, tag = "8")]
    pub(super) name: String,
    #[prost(bytes = "bytes", tag = "9")]
    pub(super) raw_data: Bytes,
    #[prost(message, repeated, tag = "13")]
    pub(super) external_data: Vec<StringStringEntryProto>,
    #[prost(int32, tag = "14")]
    pub(super) data_location: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SparseTensorProto {
    #[prost(message, optional, tag = "1")]
    pub(super) values: Option<TensorProto>,
    #[prost(message, optional, tag = "2")]
    pub(super) indices: Option<TensorProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StringStringEntryProto {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueInfoProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, optional, tag = "2")]
    pub(super) r#type: Option<TypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub(super) tensor_type: Option<TensorTypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorTypeProto {
    #[prost(int32, tag = "1")]
    pub(super) elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<TensorShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) dim: Vec<DimensionProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DimensionProto {
    #[prost(oneof = "Dimension", tags = "1, 2")]
    pub(super) value: Option<Dimension>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Dimension {
    #[prost(int64, tag = "1")]
    Size(i64),
    #[prost(string, tag = "2")]
    Name(String),
}

impl ModelProto {
    /// All nodes, wherever in the model they are: in its graph, in graphs of attributes, in functions.
    pub(super) fn visit<'m>(&'m self, see: &mut dyn FnMut(&'m NodeProto)) {
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
    pub(super) fn float(name: &str, value: f32) -> Self {
        AttributeProto { name: name.into(), r#type: ATTRIBUTE_FLOAT, f: Some(value), ..Default::default() }
    }

    pub(super) fn int(name: &str, value: i64) -> Self {
        AttributeProto { name: name.into(), r#type: ATTRIBUTE_INT, i: Some(value), ..Default::default() }
    }

    pub(super) fn ints(name: &str, values: &[i64]) -> Self {
        AttributeProto { name: name.into(), r#type: ATTRIBUTE_INTS, ints: values.to_vec(), ..Default::default() }
    }
}

impl ValueInfoProto {
    /// A tensor, each dimension a name or a size.
    pub(super) fn tensor(name: &str, elem_type: i32, dimensions: &[Dimension]) -> Self {
        let dim = dimensions.iter().map(|value| DimensionProto { value: Some(value.clone()) }).collect();
        let tensor_type = Some(TensorTypeProto { elem_type, shape: Some(TensorShapeProto { dim }) });
        ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
    }

    /// Its dimensions, sizes where they are fixed; none if it says nothing of them.
    pub(super) fn shape(&self) -> Option<Vec<Option<usize>>> {
        let dimensions = &self.r#type.as_ref()?.tensor_type.as_ref()?.shape.as_ref()?.dim;
        let size = |dimension: &DimensionProto| match dimension.value {
            Some(Dimension::Size(size)) => usize::try_from(size).ok().filter(|&size| size > 0),
            _ => None,
        };
        Some(dimensions.iter().map(size).collect())
    }
}
