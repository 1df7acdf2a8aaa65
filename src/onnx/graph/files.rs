//! The bytes of a model's graph, and of the files beside it that hold its weights.

use std::borrow::Cow;

use bytes::Bytes;

use super::{
    external,
    tensors::{self, Data, Tensor},
};
use crate::{error::Result, models::Model};

/// A graph as ONNX Runtime takes it, all in memory, so that ONNX Runtime reads no file that was not checked.
pub(crate) struct GraphFiles {
    /// The bytes of `model.onnx`.
    pub(crate) bytes: Bytes,
    /// The files that hold weights of the graph, by their names in the graph.
    pub(crate) external: Vec<(String, Vec<u8>)>,
}

impl GraphFiles {
    /// Reads a model's graph and the weight files that it refers to. All hashes are checked, and every file is in the
    /// model's folder.
    ///
    /// # Errors
    /// [`Error::InvalidModel`](crate::Error::InvalidModel),
    /// [`Error::ModelHashMismatch`](crate::Error::ModelHashMismatch).
    pub(crate) fn read(model: &Model) -> Result<Self> {
        let bytes = match model.read("model.onnx")? {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => Bytes::from(bytes),
        };
        let external = match model.folder() {
            Some(folder) => external::read(folder, &bytes, &model.manifest.files)?,
            None => Vec::new(),
        };
        Ok(GraphFiles { bytes, external })
    }

    /// Returns the graph in which each tensor is replaced by the fields that `write` writes, if its bytes are in
    /// `raw_data` or in a file beside the graph. Other tensors are not changed.
    pub(crate) fn rewritten(&self, mut write: impl FnMut(&Tensor<'_>, &[u8], &mut Vec<u8>)) -> Result<Vec<u8>, String> {
        let rewritten = tensors::rewritten(&self.bytes, |tensor, out| {
            match tensor.data {
                Data::Typed => tensor.put(out),
                Data::Raw(bytes) => write(tensor, bytes, out),
                Data::External(range) => {
                    let bytes =
                        range.part(&self.external).map_err(|fault| format!("tensor {:?} {fault}", tensor.name))?;
                    write(tensor, bytes, out);
                }
            }
            Ok(())
        });
        rewritten.map_err(|fault| format!("model.onnx: {fault}"))
    }
}
