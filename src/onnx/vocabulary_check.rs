//! Checks that a tokenizer fits a graph: the graph's embedding table must have a row for every token.

use std::{collections::HashMap, path::Path};

use super::{
    graph::proto::{GraphProto, ModelProto, NodeProto},
    tokenizer::TextTokenizer,
};
use crate::{error::Result, models::folder};

/// Operators that pass their input on, or convert its type.
const TRANSPARENT: [&str; 7] = ["Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "DequantizeLinear"];

/// The longest chain of such operators that is followed, because a damaged graph may have a cycle.
const MOST_STEPS: usize = 8;

/// Checks a tokenizer against a graph. A graph whose embedding table is not found passes.
///
/// # Errors
/// [`Error::InvalidModel`](crate::Error::InvalidModel).
pub(crate) fn check(folder: &Path, model: &ModelProto, tokenizer: &[u8]) -> Result<()> {
    let most = TextTokenizer::open(folder, tokenizer)?.largest_id();
    match model.graph.as_ref().and_then(rows) {
        Some(rows) if i64::from(most) >= rows => {
            let fault =
                format!("tokenizer.json has tokens up to number {most}, but model.onnx has rows for {rows} tokens");
            let remedy = "they belong to different models: take both files from one model, and import it again";
            Err(folder::invalid(folder, format!("{fault}; {remedy}"), None))
        }
        _ => Ok(()),
    }
}

/// Returns the number of rows of the table that token ids are looked up in.
fn rows(graph: &GraphProto) -> Option<i64> {
    let makers: HashMap<&str, &NodeProto> =
        graph.node.iter().flat_map(|node| node.output.iter().map(move |output| (output.as_str(), node))).collect();
    graph.node.iter().find_map(|node| {
        let (table, ids) = match node.op_type.as_str() {
            "Gather" | "GatherBlockQuantized" => (0, 1),
            // ONNX Runtime's own operator, in graphs that its optimizer wrote.
            "EmbedLayerNormalization" => (2, 0),
            _ => return None,
        };
        let table = (origin(&makers, node.input.get(ids)?) == "input_ids").then(|| node.input.get(table))??;
        let table = origin(&makers, table);
        graph.initializer.iter().find(|tensor| tensor.name == table)?.dims.first().copied()
    })
}

/// Follows a value back through [`TRANSPARENT`] operators.
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
