//! Checks of what an embedder returns: its windows, its vectors, how many of them, and its identity.

use std::ops::Range;

use crate::{
    error::{Error, Result},
    ids::ModelIdentity,
};

/// Maximum windows of one text: the store numbers them in 16 bits.
const MAX_WINDOWS: usize = 1 << 16;

/// The parts of a text that these windows cover.
///
/// # Errors
/// [`Error::Embedding`]: no window, more than [`MAX_WINDOWS`], or a range that is not on character boundaries of the
/// text.
pub(super) fn parts<'t>(text: &'t str, windows: &[Range<usize>]) -> Result<Vec<&'t str>> {
    let parts: Option<Vec<&str>> = windows.iter().map(|window| text.get(window.clone())).collect();
    match parts {
        Some(parts) if (1..=MAX_WINDOWS).contains(&parts.len()) => Ok(parts),
        _ => Err(Error::Embedding {
            reason: format!(
                "a text of {} bytes was split into {} windows, or a window is not a range of the text; the embedder's `windows` must \
                 return 1 to {MAX_WINDOWS} ranges of the text, on character boundaries",
                text.len(),
                windows.len()
            ),
            source: None,
        }),
    }
}

/// Checks that there is one row of vectors for each text.
///
/// # Errors
/// [`Error::InvalidVector`].
pub(super) fn check_count(identity: &ModelIdentity, found: usize, texts: usize) -> Result<()> {
    match found == texts {
        true => Ok(()),
        false => Err(Error::InvalidVector {
            reason: format!("{identity}: the embedder gave {found} vectors for {texts} texts"),
        }),
    }
}

/// Checks that a vector has the right dimension, finite components, and length 1 or 0.
///
/// # Errors
/// [`Error::InvalidVector`].
pub(super) fn check_vector(identity: &ModelIdentity, vector: &[f32]) -> Result<()> {
    let invalid = |reason: String| Err(Error::InvalidVector { reason: format!("{identity}: {reason}") });
    if vector.len() != identity.dimension {
        return invalid(format!("a vector of {} components", vector.len()));
    }
    if vector.iter().any(|x| !x.is_finite()) {
        return invalid("a component is not finite".into());
    }
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if norm != 0.0 && (norm - 1.0).abs() > 1e-3 {
        return invalid(format!("a vector of length {norm}, not 1"));
    }
    Ok(())
}

/// Checks that vectors of this identity can be stored.
///
/// # Errors
/// [`Error::InvalidVector`]: the dimension is 0 or more than 65,535.
pub(crate) fn check_identity(identity: &ModelIdentity) -> Result<()> {
    match identity.dimension {
        1..=65_535 => Ok(()),
        _ => Err(Error::InvalidVector { reason: format!("{identity}: the dimension is not within 1 to 65535") }),
    }
}
