//! Running sessions on a device.

use ort::session::builder::SessionBuilder;

use crate::{
    config::Device,
    error::{Error, Result},
};

impl Device {
    pub(super) fn is_cpu(&self) -> bool {
        *self == Device::Cpu
    }

    /// Configures a session to run on this device.
    ///
    /// # Errors
    /// [`Error::DeviceUnavailable`].
    #[cfg(feature = "cuda")]
    pub(super) fn apply(&self, builder: SessionBuilder) -> Result<SessionBuilder> {
        use ort::ep::{ArenaExtendStrategy, CUDA, ExecutionProvider};

        const REMEDY: &str = "install onnxruntime-gpu and the CUDA version that it requires, and set ORT_DYLIB_PATH to the libonnxruntime \
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
        // Allocates only the requested memory: by default the arena doubles.
        let mut cuda =
            CUDA::default().with_device_id(id.into()).with_arena_extend_strategy(ArenaExtendStrategy::SameAsRequested);
        if let Some(limit) = memory_limit {
            cuda = cuda.with_memory_limit(limit);
        }
        builder.with_execution_providers([cuda.build().error_on_failure()]).map_err(|error| {
            unavailable("ONNX Runtime cannot use this GPU", Some(ort::Error::<()>::from(error).into()))
        })
    }

    #[cfg(not(feature = "cuda"))]
    pub(super) fn apply(&self, builder: SessionBuilder) -> Result<SessionBuilder> {
        match self {
            Device::Cpu => Ok(builder),
            Device::Cuda { id, .. } => Err(Error::DeviceUnavailable {
                device: format!("GPU {id}"),
                reason: "this program was built without mnemon's feature `cuda`; enable the feature, or run on the CPU"
                    .into(),
                source: None,
            }),
        }
    }
}
