//! Whether a tokenizer fits a graph: it must know no token that the graph's table has no row for.

use std::{collections::HashMap, path::Path};

use super::{
    folder,
    onnx_proto::{GraphProto, ModelProto, NodeProto},
    tokenizer::TextTokenizer,
};
use crate::error::Result;

/// Operators that hand on what they are given, or its rows in another type.
const TRANSPARENT: [&str; 7] = ["Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "DequantizeLinear"];

/// Of such operators one after the other; a damaged graph may have them in a circle.
const MOST_STEPS: usize = 8;

/// A graph whose table of tokens is not found is not judged.
///
/// # Errors
/// [`Error::InvalidModel`](crate::Error::InvalidModel).
pub(super) fn check(folder: &Path, model: &ModelProto, tokenizer: &[u8]) -> Result<()> {
    let most = TextTokenizer::open(folder, tokenizer)?.largest_id();
    match model.graph.as_ref().and_then(rows) {
        Some(rows) if i64::from(most) >= rows => {
            let fault = format!("tokenizer.json has tokens up to number {most}, model.onnx has rows for {rows}");
            let remedy = "they are of different models: take both files of one, and import it again";
            Err(folder::invalid(folder, format!("{fault}; {remedy}"), None))
        }
        _ => Ok(()),
    }
}

/// The rows of the table that token ids are looked up in.
fn rows(graph: &GraphProto) -> Option<i64> {
    let makers: HashMap<&str, &NodeProto> =
        graph.node.iter().flat_map(|node| node.output.iter().map(move |output| (output.as_str(), node))).collect();
    graph.node.iter().find_map(|node| {
        let (table, ids) = match node.op_type.as_str() {
            "Gather" | "GatherBlockQuantized" => (0, 1),
            // ONNX Runtime's own, in graphs that its optimiser wrote.
            "EmbedLayerNormalization" => (2, 0),
            _ => return None,
        };
        let table = (origin(&makers, node.input.get(ids)?) == "input_ids").then(|| node.input.get(table))??;
        let table = origin(&makers, table);
        graph.initializer.iter().find(|tensor| tensor.name == table)?.dims.first().copied()
    })
}

/// What a value is made of, through operators that leave it what it is.
fn origin<'g>(makers: &HashMap<&'g str, &'g NodeProto>, mut value: &'g str) -> &'g str {
    for _ in 0..MOST_STEPS {
        let maker = makers.get(value).filter(|node| TRANSPARENT.contains(&node.op_type.as_str()));
        match maker.and_then(|node| node.input.first()) {
            Some(input) => value = input,
            None => break,
        }
    }
    value
}
