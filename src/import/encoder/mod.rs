//! Builds the ONNX graph of a BERT-like encoder from weights that come without a graph.

pub(super) mod build;
pub(super) mod family;
mod graph_writer;
mod weights;
