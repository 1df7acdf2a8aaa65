//! What all sessions of ONNX Runtime have in common: how they are made, and the inputs of a text encoder.

use std::path::Path;

use ort::{
    environment::Environment,
    logging::LogLevel,
    session::{Session, builder::SessionBuilder},
    value::{DynValue, Outlet, Tensor, TensorElementType},
};

use super::{device::Device, folder, weights::Weights};
use crate::error::Result;

/// The inputs that a graph may have. The first it has; the others not always: a token table needs no mask.
const INPUTS: [&str; 3] = ["input_ids", "attention_mask", "token_type_ids"];

/// A session of the model in `folder`.
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
        // In its own format, which it would tell by the first bytes, nothing was looked for that lies in other files.
        let builder = builder.with_config_entry("session.load_model_format", "ONNX")?;
        // What fails is returned; it is not printed as well.
        let builder = builder.with_log_level(LogLevel::Fatal)?;
        // Idle threads that spin take a core from the program that links us.
        Ok(builder.with_intra_op_spinning(false)?)
    };
    let refused = |error: ort::Error| folder::invalid(folder, "ONNX Runtime refuses model.onnx", Some(error.into()));
    weights.commit(device.apply(configure().map_err(refused)?)?).map_err(refused)
}

/// Of each of [`INPUTS`], whether a graph has it, of 64 bits or of 32.
pub(super) struct Inputs([Option<TensorElementType>; INPUTS.len()]);

impl Inputs {
    /// Those of a session; or what about them does not fit.
    pub(super) fn of(session: &Session) -> Result<Self, String> {
        let names: Vec<&str> = session.inputs().iter().map(Outlet::name).collect();
        if !names.contains(&INPUTS[0]) || !names.iter().all(|name| INPUTS.contains(name)) {
            return Err(format!(
                "model.onnx: its inputs are {names:?}; they are to be {INPUTS:?}, or the first of them: \
                 export the model as an encoder of text, with these names"
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
                        "model.onnx: {name:?} is {given}; it is to be a tensor of {wanted}: export the model again"
                    ));
                }
            };
        }
        Ok(Inputs(kinds))
    }

    /// The values of [`INPUTS`] as tensors of this shape; those that the graph does not have are left out.
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

/// The output of this name among a session's; or what there is instead.
pub(super) fn output<'s>(session: &'s Session, name: &str) -> Result<&'s Outlet, String> {
    session.outputs().iter().find(|output| output.name() == name).ok_or_else(|| {
        let names: Vec<&str> = session.outputs().iter().map(Outlet::name).collect();
        format!("model.onnx: its outputs are {names:?}; {name:?} is to be among them")
    })
}
