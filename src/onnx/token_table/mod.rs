//! Models that are a table of tokens: a text's vector is the sum of its tokens' rows, scaled to unit length.
//!
//! Such a model needs no ONNX Runtime, although its file is an ONNX graph: [`TokenTable::of`] finds the table in a
//! graph that only looks up tokens, adds their rows and normalizes the sum. The bundled model is one. The graph is that
//! of `models/make_static.py`, for `input_ids` of `n` texts with `t` tokens each:
//!
//! ```text
//! rows    = Cast(Gather(codes, input_ids))                   n × t × d   codes: 8-bit, one row for each token
//! scales  = Transpose(Gather(scales, input_ids), 0 2 1)      n × 1 × t   scales: f32, one for each row
//! total   = Squeeze(MatMul(scales, rows), 1)                 n × d
//! output  = total / Max(ReduceL2(total, 1), floor)           n × d
//! ```
//!
//! Every other graph is left to ONNX Runtime: the names of values do not count, but each operator, its order and its
//! attributes do.
//!
//! Invariant: the same vectors as ONNX Runtime computes from the graph, to a millionth of a component; and the same
//! bits on every processor and whatever else is embedded, because the rows are added one by one, in the order of the
//! tokens.

use std::sync::Arc;

use bytes::Bytes;
use mnemon_index::add_scaled;

use super::{
    graph::proto::{AttributeProto, FLOAT, GraphProto, INT8, INT64, ModelProto, NodeProto, TensorProto},
    normalized,
};
use crate::{
    embed::schedule::Execute,
    error::{Error, Result},
    model_folders::{Pooling, folder::Manifest},
};

#[cfg(test)]
mod tests;

/// A row of 8-bit numbers for each token, and a scale for each row.
pub(super) struct TokenTable {
    /// The rows, one after the other. A part of the model's file, which is not copied.
    codes: Bytes,
    scales: Vec<f32>,
    dimension: usize,
}

impl TokenTable {
    /// Returns the vector of a text with these tokens: of unit length, or zeros if all of its rows are zero.
    ///
    /// # Errors
    /// [`Error::Embedding`]: the table has no row for a token, or a scale that is not finite.
    pub(super) fn vector(&self, tokens: &[u32]) -> Result<Vec<f32>> {
        let mut sum = vec![0.0; self.dimension];
        for &token in tokens {
            let row = token as usize;
            let Some(&scale) = self.scales.get(row) else {
                let reason =
                    format!("the model has rows for {} tokens, but the text has token {token}", self.scales.len());
                return Err(Error::Embedding { reason, source: None });
            };
            // Rows of special tokens.
            if scale == 0.0 {
                continue;
            }
            let codes = &self.codes[row * self.dimension..][..self.dimension];
            add_scaled(&mut sum, codes, scale);
        }
        normalized(sum)
    }
}

impl Execute for Arc<TokenTable> {
    fn execute(&mut self, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        rows.iter().map(|row| self.vector(row)).collect()
    }
}

/// The operators of the graph, each of which [`TokenTable::of`] visits.
const NODES: usize = 9;

impl TokenTable {
    /// Takes the table from a graph. `None`: the graph computes something else, or the manifest describes another
    /// output.
    pub(super) fn of(model: &ModelProto, manifest: &Manifest) -> Option<TokenTable> {
        let graph = model.graph.as_ref()?;
        // Operators of other domains, and functions, may have the names of the standard ones.
        let is_standard = model.opset_import.iter().all(|set| matches!(set.domain.as_str(), "" | "ai.onnx"));
        let ([output], NODES, true, true) =
            (&graph.output[..], graph.node.len(), is_standard, model.functions.is_empty())
        else {
            return None;
        };
        let [total, length] = made(graph, "Div", &output.name)?;
        let [norm, floor] = made(graph, "Max", length)?;
        let [normed] = made(graph, "ReduceL2", norm)?;
        let [product, squeezed] = made(graph, "Squeeze", total)?;
        let [transposed, rows] = made(graph, "MatMul", product)?;
        let [text_scales] = made(graph, "Transpose", transposed)?;
        let [scales, scale_ids] = made(graph, "Gather", text_scales)?;
        let [text_codes] = made(graph, "Cast", rows)?;
        let [codes, code_ids] = made(graph, "Gather", text_codes)?;

        let floor = f32s(tensor(graph, floor, FLOAT)?)?;
        let inputs = graph.input.iter().map(|input| input.name.as_str());
        let inputs = inputs.filter(|name| graph.initializer.iter().all(|tensor| tensor.name != *name));
        let is_sum = normed == total
            && ints(graph, norm, "axes") == [1]
            && int(graph, norm, "keepdims").unwrap_or(1) == 1
            && matches!(floor[..], [floor] if floor > 0.0 && floor.is_finite())
            && tensor(graph, squeezed, INT64)?.raw_data == 1_i64.to_le_bytes()[..]
            && ints(graph, transposed, "perm") == [0, 2, 1]
            && int(graph, rows, "to") == Some(i64::from(FLOAT))
            && [text_scales, text_codes].iter().all(|rows| int(graph, rows, "axis").unwrap_or(0) == 0)
            && scale_ids == code_ids
            && inputs.eq(["input_ids"])
            && code_ids == "input_ids";
        if !is_sum || manifest.pooling != Pooling::None || manifest.output.as_ref().is_some_and(|o| *o != output.name) {
            return None;
        }
        let (codes, scales) = (tensor(graph, codes, INT8)?, tensor(graph, scales, FLOAT)?);
        let ([tokens, dimension], [rows, 1]) = (sizes(codes)?, sizes(scales)?) else { return None };
        let is_whole = codes.raw_data.len() == tokens.checked_mul(dimension)? && rows == tokens;
        let described = (manifest.dimension, manifest.model_dimension.unwrap_or(dimension));
        let scales = f32s(scales).filter(|scales| scales.len() == tokens)?;
        (is_whole && described == (dimension, dimension)).then(|| TokenTable {
            codes: Bytes::clone(&codes.raw_data),
            scales,
            dimension,
        })
    }
}

/// Returns the inputs of the operator that makes a value, if it is this operator with this many inputs.
fn made<'g, const N: usize>(graph: &'g GraphProto, operator: &str, value: &str) -> Option<[&'g str; N]> {
    let node = maker(graph, value).filter(|node| node.op_type == operator)?;
    node.input.iter().map(String::as_str).collect::<Vec<_>>().try_into().ok()
}

/// Returns the operator whose only output is this value.
fn maker<'g>(graph: &'g GraphProto, value: &str) -> Option<&'g NodeProto> {
    graph.node.iter().find(|node| matches!(&node.output[..], [only] if only == value))
}

fn attribute<'g>(graph: &'g GraphProto, value: &str, name: &str) -> Option<&'g AttributeProto> {
    maker(graph, value)?.attribute.iter().find(|attribute| attribute.name == name)
}

/// Returns a number among the attributes of the operator that makes a value.
fn int(graph: &GraphProto, value: &str, name: &str) -> Option<i64> {
    attribute(graph, value, name)?.i
}

/// Returns a list of numbers among the attributes of the operator that makes a value.
fn ints<'g>(graph: &'g GraphProto, value: &str, name: &str) -> &'g [i64] {
    attribute(graph, value, name).map_or(&[], |attribute| &attribute.ints)
}

/// Returns a constant of this type that is in the graph itself.
fn tensor<'g>(graph: &'g GraphProto, name: &str, data_type: i32) -> Option<&'g TensorProto> {
    let tensor = graph.initializer.iter().find(|tensor| tensor.name == name)?;
    (tensor.data_type == data_type && tensor.data_location == 0).then_some(tensor)
}

fn sizes(tensor: &TensorProto) -> Option<[usize; 2]> {
    let sizes: Option<Vec<usize>> = tensor.dims.iter().map(|&size| usize::try_from(size).ok()).collect();
    sizes?.try_into().ok()
}

fn f32s(tensor: &TensorProto) -> Option<Vec<f32>> {
    let (values, rest) = tensor.raw_data.as_chunks::<4>();
    rest.is_empty().then(|| values.iter().map(|value| f32::from_le_bytes(*value)).collect())
}
