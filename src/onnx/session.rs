//! Sessions of ONNX Runtime: their settings, their device, opening them, and the inputs and outputs of a text encoder.
//!
//! Used by embedders and rerankers alike. This module does not know where the weights come from, nor what an output
//! means.

use std::{
    num::NonZero,
    path::{Path, PathBuf},
};

use ort::{
    environment::Environment,
    logging::LogLevel,
    session::{Session, builder::SessionBuilder},
    value::{DynValue, Outlet, Tensor, TensorElementType},
};

use super::weights::Weights;
use crate::{
    config::Device,
    error::{Error, Result},
    model_folders::folder,
};

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

/// The inputs that a graph may have. Only the first is required: a token table needs no mask.
const INPUTS: [&str; 3] = ["input_ids", "attention_mask", "token_type_ids"];

/// Opens a session of the model in `folder`.
///
/// # Errors
/// [`Error::InvalidModel`], [`Error::DeviceUnavailable`].
pub(super) fn open(
    weights: &Weights,
    environment: &Environment,
    device: &Device,
    threads: usize,
    folder: &Path,
) -> Result<Session> {
    let configure = || -> ort::Result<SessionBuilder> {
        let builder = Session::builder(environment)?.with_intra_threads(threads)?.with_inter_threads(1)?;
        // ONNX Runtime's own format, which it would detect by the first bytes, was not checked for references to other
        // files.
        let builder = builder.with_config_entry("session.load_model_format", "ONNX")?;
        // Errors are returned, so they are not printed as well.
        let builder = builder.with_log_level(LogLevel::Fatal)?;
        // Spinning idle threads would take a core from the program.
        Ok(builder.with_intra_op_spinning(false)?)
    };
    let refused =
        |error: ort::Error| folder::invalid(folder, "ONNX Runtime does not load model.onnx", Some(error.into()));
    weights.commit(device.apply(configure().map_err(refused)?)?).map_err(refused)
}

/// The element type of each of [`INPUTS`], 64-bit or 32-bit integers; none if the graph lacks the input.
pub(super) struct Inputs([Option<TensorElementType>; INPUTS.len()]);

impl Inputs {
    /// Reads the inputs of a session. Fails with the reason if they are not those of a text encoder.
    pub(super) fn of(session: &Session) -> Result<Self, String> {
        let names: Vec<&str> = session.inputs().iter().map(Outlet::name).collect();
        if !names.contains(&INPUTS[0]) || !names.iter().all(|name| INPUTS.contains(name)) {
            return Err(format!(
                "model.onnx: its inputs are {names:?}, but only {INPUTS:?} are supported and the first is required; export the model as \
                 a text encoder with these names"
            ));
        }
        let mut kinds = [None; INPUTS.len()];
        for (name, kind) in INPUTS.into_iter().zip(&mut kinds) {
            let Some(input) = session.inputs().iter().find(|input| input.name() == name) else { continue };
            *kind = match input.dtype().tensor_type() {
                given @ Some(TensorElementType::Int64 | TensorElementType::Int32) => given,
                _ => {
                    let (given, wanted) = (input.dtype(), TensorElementType::Int64);
                    return Err(format!(
                        "model.onnx: {name:?} is {given}, not a tensor of {wanted}; export the model again"
                    ));
                }
            };
        }
        Ok(Inputs(kinds))
    }

    /// Returns true if the graph is told which tokens are padding.
    pub(super) fn has_mask(&self) -> bool {
        self.0[1].is_some()
    }

    /// Makes tensors of this shape of the values of [`INPUTS`], for the inputs that the graph has.
    pub(super) fn tensors(
        &self,
        shape: [usize; 2],
        values: [Vec<i64>; 3],
    ) -> ort::Result<Vec<(&'static str, DynValue)>> {
        let mut tensors = Vec::with_capacity(INPUTS.len());
        for ((name, kind), values) in INPUTS.into_iter().zip(self.0).zip(values) {
            let tensor = match kind {
                None => continue,
                Some(TensorElementType::Int32) => {
                    let values: Vec<i32> = values.into_iter().map(|value| value as i32).collect();
                    Tensor::from_array((shape, values))?.into_dyn()
                }
                Some(_) => Tensor::from_array((shape, values))?.into_dyn(),
            };
            tensors.push((name, tensor));
        }
        Ok(tensors)
    }
}

/// Finds the output of this name. Fails with the names of all outputs.
pub(super) fn output<'s>(session: &'s Session, name: &str) -> Result<&'s Outlet, String> {
    session.outputs().iter().find(|output| output.name() == name).ok_or_else(|| {
        let names: Vec<&str> = session.outputs().iter().map(Outlet::name).collect();
        format!("model.onnx: its outputs are {names:?}; {name:?} is not among them")
    })
}
