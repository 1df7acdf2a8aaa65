//! The settings of an embedder.

use std::{num::NonZero, path::PathBuf};

use crate::config::Device;

/// Settings of an [`OnnxEmbedder`](crate::OnnxEmbedder).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OnnxOptions {
    /// Threads that embed documents in parallel, at least 1; also the threads of one query. Default: the number of
    /// cores.
    pub threads: usize,
    /// The library file of ONNX Runtime, or a folder with it; no other path is tried. ONNX Runtime is loaded once in a
    /// process, so the first model that needs it decides. Default: the places that [`Runtime`](crate::Runtime) lists.
    pub runtime: Option<PathBuf>,
    /// The device that runs the model. Default: the processor.
    pub device: Device,
}

impl Default for OnnxOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        OnnxOptions { threads, runtime: None, device: Device::Cpu }
    }
}
