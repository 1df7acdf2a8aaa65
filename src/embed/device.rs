//! Where models run.

use std::str::FromStr;

use ort::session::builder::SessionBuilder;

use crate::error::{Error, Result};

/// What runs a model. Written `cpu`, `cuda` for the first GPU, `cuda:1` for the second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU. Needs the feature `cuda`, and an ONNX Runtime that was built for CUDA: the PyPI package
    /// `onnxruntime-gpu` carries one. A GPU that is not there is an error; nothing falls back to the processor. Vectors are those of
    /// the processor but for the last digits, which may differ with a text's company: its kernels are chosen by the size of a run.
    Cuda {
        /// The GPU's number, from 0.
        id: u16,
        /// Bytes of its memory that are used for what is computed, if they are to be limited.
        memory_limit: Option<usize>,
    },
}

impl Device {
    pub(super) fn is_cpu(&self) -> bool {
        *self == Device::Cpu
    }

    /// Has a session run here.
    ///
    /// # Errors
    /// [`Error::DeviceUnavailable`].
    #[cfg(feature = "cuda")]
    pub(super) fn apply(&self, builder: SessionBuilder) -> Result<SessionBuilder> {
        use ort::ep::{ArenaExtendStrategy, CUDA, ExecutionProvider};

        const REMEDY: &str = "install onnxruntime-gpu and the CUDA that it asks for, and set ORT_DYLIB_PATH to the libonnxruntime \
                              in its `capi` folder; or run on the CPU";
        let Device::Cuda { id, memory_limit } = *self else { return Ok(builder) };
        let unavailable = |reason: &str, source| Error::DeviceUnavailable {
            device: format!("GPU {id}"),
            reason: format!("{reason}; {REMEDY}"),
            source,
        };
        if !CUDA::is_available().unwrap_or(false) {
            return Err(unavailable("this ONNX Runtime was not built for CUDA", None));
        }
        // What is asked for and no more: by default the arena doubles.
        let mut cuda =
            CUDA::default().with_device_id(id.into()).with_arena_extend_strategy(ArenaExtendStrategy::SameAsRequested);
        if let Some(limit) = memory_limit {
            cuda = cuda.with_memory_limit(limit);
        }
        builder
            .with_execution_providers([cuda.build().error_on_failure()])
            .map_err(|error| unavailable("it cannot be used", Some(ort::Error::<()>::from(error).into())))
    }

    #[cfg(not(feature = "cuda"))]
    pub(super) fn apply(&self, builder: SessionBuilder) -> Result<SessionBuilder> {
        match self {
            Device::Cpu => Ok(builder),
            Device::Cuda { id, .. } => Err(Error::DeviceUnavailable {
                device: format!("GPU {id}"),
                reason: "this program was built without mnemon's feature `cuda`; build it with, or run on the CPU"
                    .into(),
                source: None,
            }),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let id = match text {
            "cpu" => return Ok(Device::Cpu),
            "cuda" => Some(0),
            _ => text.strip_prefix("cuda:").and_then(|id| id.parse().ok()),
        };
        let id = id.ok_or_else(|| Error::InvalidConfig {
            reason: format!("device {text:?} is not cpu, cuda, or the number of a GPU, as in cuda:1"),
        })?;
        Ok(Device::Cuda { id, memory_limit: None })
    }
}
