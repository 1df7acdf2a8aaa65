//! The embedder of an engine that was opened without one.
//!
//! The feature `onnx` decides which of the two versions of this module is compiled: one runs model folders, the other
//! has no model to run.

use std::sync::Arc;

use crate::{
    config::Config,
    embed::{Embedder, GivenVectors},
    error::Result,
    ids::ModelIdentity,
};

/// Opens the model that a database was made with, or no model if its vectors are given, or the default model for a new
/// database (`stored` is none).
///
/// # Errors
/// Those of `Model::find_same` and `OnnxEmbedder::open`; [`Error::InvalidConfig`](crate::Error::InvalidConfig) without
/// the feature `onnx`.
pub(crate) fn open(stored: Option<&ModelIdentity>, config: &Config) -> Result<Arc<dyn Embedder>> {
    match stored.and_then(GivenVectors::of) {
        Some(given) => Ok(Arc::new(given)),
        None => imp::open(stored, config),
    }
}

/// Finds the model of this identity. `None`: it is not installed, or this program cannot run it.
pub(crate) fn find(identity: &ModelIdentity) -> Option<Arc<dyn Embedder>> {
    match GivenVectors::of(identity) {
        Some(given) => Some(Arc::new(given)),
        None => imp::find(identity),
    }
}

#[cfg(feature = "onnx")]
mod imp {
    use super::{Arc, Config, Embedder, ModelIdentity, Result};
    use crate::{
        model_folders::Model,
        onnx::{OnnxEmbedder, OnnxOptions},
    };

    pub(super) fn open(stored: Option<&ModelIdentity>, config: &Config) -> Result<Arc<dyn Embedder>> {
        let model = match stored {
            Some(identity) => Model::find_same(identity)?,
            None => Model::find(Model::DEFAULT)?,
        };
        let mut options = OnnxOptions::default();
        (options.threads, options.device) = (config.threads, config.device.clone());
        Ok(Arc::new(OnnxEmbedder::open(model, options)?))
    }

    pub(super) fn find(identity: &ModelIdentity) -> Option<Arc<dyn Embedder>> {
        let found = Model::find_same(identity).and_then(OnnxEmbedder::new).ok()?;
        Some(Arc::new(found))
    }
}

#[cfg(not(feature = "onnx"))]
mod imp {
    use super::{Arc, Config, Embedder, ModelIdentity, Result};
    use crate::error::Error;

    pub(super) fn open(stored: Option<&ModelIdentity>, _: &Config) -> Result<Arc<dyn Embedder>> {
        let model = stored.map(|identity| format!("; the database was made with {identity}")).unwrap_or_default();
        let reason = format!(
            "no embedder was given, and mnemon was built without the feature `onnx`, which runs models{model}: give the engine \
             an embedder, or enable the feature"
        );
        Err(Error::InvalidConfig { reason })
    }

    pub(super) fn find(_: &ModelIdentity) -> Option<Arc<dyn Embedder>> {
        None
    }
}

#[cfg(all(test, not(feature = "onnx")))]
mod tests {
    use super::*;

    #[test]
    fn without_onnx_the_error_states_the_remedy() {
        let identity = ModelIdentity { name: "static-en-256".into(), dimension: 256, hash: "0".repeat(64) };
        for stored in [None, Some(&identity)] {
            let error = open(stored, &Config::default()).err().expect("nothing runs models").to_string();
            for part in ["no embedder was given", "give the engine an embedder", "the feature `onnx`"] {
                assert!(error.contains(part), "{error}");
            }
            assert_eq!(error.contains("static-en-256"), stored.is_some(), "{error}");
        }
    }
}
