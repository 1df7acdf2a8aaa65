//! Models that are a table of tokens: a text's vector is the sum of its tokens' rows, scaled to unit length.
//!
//! Such a model needs no ONNX Runtime, although its file is an ONNX graph: [`recognize`] finds the table in the graph.
//! The bundled model is one. Invariant: the same vectors as ONNX Runtime computes from the graph, to a millionth of a
//! component; and the same bits on every processor and whatever else is embedded, because the rows are added one by
//! one, in the order of the tokens.

mod recognize;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use mnemon_index::add_scaled;

use super::unit_vector::normalized;
use crate::{
    embed::schedule::Execute,
    error::{Error, Result},
};

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
