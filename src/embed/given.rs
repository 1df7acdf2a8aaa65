//! The embedder of databases whose vectors the program makes.

use super::embedder::Embedder;
use crate::{error::Result, ids::ModelIdentity};

/// Makes no vectors: the program gives one with each text of a document, in [`DocumentOptions::vectors`], and one with each
/// search, in [`DocumentSearch::vector`]. A database that is made with it is later opened without an embedder, too.
///
/// A text without a vector, and every message, is found by its words alone: its vector is zero. So is what a query without a
/// vector finds. Vectors are compared by their cosine; they are stored with length 1.
///
/// ```
/// # fn main() -> mnemon::Result<()> {
/// use std::sync::Arc;
/// use mnemon::{DocumentOptions, DocumentSearch, Engine, models::GivenVectors};
/// let given = Arc::new(GivenVectors::new("my-model", 2));
/// let engine = Engine::builder_in_memory().embedder(given).open()?;
/// let documents = engine.documents(&"acme/notes".parse()?);
/// let options = DocumentOptions::default().vectors([vec![0.6, 0.8]]);
/// documents.blocking().put("boat", "a red boat".into(), options)?;
/// engine.blocking().flush()?;
/// let found = documents.blocking().search(DocumentSearch::default().vector([1.0, 0.0]))?;
/// assert!((found[0].score.unwrap() - 0.6).abs() < 1e-3);
/// # Ok(())
/// # }
/// ```
///
/// [`DocumentOptions::vectors`]: field@crate::document::DocumentOptions::vectors
/// [`DocumentSearch::vector`]: field@crate::document::DocumentSearch::vector
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenVectors {
    identity: ModelIdentity,
}

impl GivenVectors {
    /// Vectors of `dimension` components, 1 to 65,535. `name` is that of the model that makes them: a database does not accept
    /// those of another name.
    pub fn new(name: &str, dimension: usize) -> Self {
        GivenVectors { identity: ModelIdentity::given(name, dimension) }
    }

    /// The embedder of a database with this identity, if its vectors are given.
    pub(crate) fn of(identity: &ModelIdentity) -> Option<Self> {
        identity.is_given().then(|| GivenVectors { identity: identity.clone() })
    }
}

impl Embedder for GivenVectors {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        Ok(vec![vec![0.0; self.identity.dimension]; texts.len()])
    }

    fn embed_query(&self, _: &str) -> Result<Vec<f32>> {
        Ok(vec![0.0; self.identity.dimension])
    }
}
