//! Scaling vectors to unit length.

use crate::error::{Error, Result};

/// Scales a vector to unit length. A vector of zeros stays as it is.
///
/// # Errors
/// [`Error::Embedding`]: a component is not finite.
pub(super) fn normalized(mut row: Vec<f32>) -> Result<Vec<f32>> {
    let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !norm.is_finite() {
        let remedy = "leave out this text, or export the model again, in f32 if it is in f16";
        let reason = format!("the model gave a vector of length {norm}, so a component is not finite; {remedy}");
        return Err(Error::Embedding { reason, source: None });
    }
    if norm > 0.0 {
        row.iter_mut().for_each(|x| *x /= norm);
    }
    Ok(row)
}
