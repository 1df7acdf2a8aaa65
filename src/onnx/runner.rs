//! Running one session of an embedding model: tokens to vectors.

use std::borrow::Cow;

use half::f16;
use ort::{
    session::{HasSelectedOutputs, OutputSelector, RunOptions, Session},
    value::{DynValue, Outlet, TensorElementType},
};

use super::{
    session::{self, Inputs},
    unit_vector::normalized,
};
use crate::{
    error::{Error, Result},
    models::{Pooling, manifest::Manifest},
};

/// A session of an embedding model.
pub(super) struct Runner {
    session: Session,
    inputs: Inputs,
    output: Output,
    options: RunOptions<HasSelectedOutputs>,
    pad_id: i64,
}

/// The graph's output, and how vectors are made of it.
struct Output {
    name: String,
    pooling: Pooling,
    dimension: usize,
    /// Components of the graph's output.
    model_dimension: usize,
}

impl Runner {
    /// Fails with the reason if the graph's inputs or outputs are not those of a text encoder.
    pub(super) fn new(session: Session, manifest: &Manifest, pad_id: u32) -> Result<Self, String> {
        let inputs = Inputs::of(&session)?;
        let output = chosen_output(&session, manifest)?;
        match output.dtype().tensor_type() {
            Some(TensorElementType::Float32 | TensorElementType::Float16) => {}
            _ => {
                let (name, given) = (output.name(), output.dtype());
                return Err(format!(
                    "model.onnx: {name:?} is {given}, not a tensor of f32 or f16; name another output in manifest.toml, or export the model \
                     again"
                ));
            }
        }
        // ONNX Runtime then skips the computation of other outputs.
        let selected = OutputSelector::no_default().with(output.name());
        let options = RunOptions::new().map_err(|error| error.to_string())?.with_outputs(selected);
        let (name, pooling, dimension) = (output.name().to_owned(), manifest.pooling, manifest.dimension);
        let model_dimension = manifest.model_dimension.unwrap_or(dimension);
        let output = Output { name, pooling, dimension, model_dimension };
        Ok(Runner { session, inputs, output, options, pad_id: pad_id.into() })
    }

    /// Embeds a batch. Returns a unit vector for each row of tokens, or zeros if the model's output is all zero. Rows
    /// of different lengths are padded.
    ///
    /// # Errors
    /// [`Error::Embedding`]: the graph fails, or its output contradicts the manifest or is not finite.
    pub(super) fn run(&mut self, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        let longest = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        if longest == 0 {
            return Ok(vec![vec![0.0; self.output.dimension]; rows.len()]);
        }
        let shape = [rows.len(), longest];
        let failed = |error: ort::Error| Error::Embedding {
            reason: format!("ONNX Runtime failed on {} texts of up to {longest} tokens", rows.len()),
            source: Some(error.into()),
        };
        let mut ids = Vec::with_capacity(shape[0] * shape[1]);
        let mut mask = Vec::with_capacity(ids.capacity());
        for (end, row) in (longest..).step_by(longest).zip(rows) {
            ids.extend(row.iter().map(|&id| i64::from(id)));
            ids.resize(end, self.pad_id);
            mask.resize(end - longest + row.len(), 1);
            mask.resize(end, 0);
        }
        let types = vec![0; ids.len()];
        let inputs = self.inputs.tensors(shape, [ids, mask, types]).map_err(failed)?;
        let outputs = self.session.run_with_options(inputs, &self.options).map_err(failed)?;
        self.output.vectors(rows, longest, &outputs[self.output.name.as_str()])
    }
}

impl Output {
    fn vectors(&self, rows: &[&[u32]], longest: usize, value: &DynValue) -> Result<Vec<Vec<f32>>> {
        let (shape, values) = extract(value)
            .map_err(|error| Error::Embedding { reason: "ONNX Runtime failed".into(), source: Some(error.into()) })?;
        let expected: &[usize] = match self.pooling {
            Pooling::None => &[rows.len(), self.model_dimension],
            _ => &[rows.len(), longest, self.model_dimension],
        };
        if shape != expected {
            let name = &self.name;
            let reason = format!(
                "the model gave {name:?} of shape {shape:?} instead of {expected:?}, which follows from manifest.toml; correct its \
                     pooling, model_dimension or output, or import the model again"
            );
            return Err(Error::Embedding { reason, source: None });
        }
        let pooled = rows.iter().zip(values.chunks(values.len() / rows.len()));
        pooled.map(|(row, values)| normalized(self.pool(row.len(), values))).collect()
    }

    /// Pools the outputs of a row with this number of tokens.
    fn pool(&self, tokens: usize, values: &[f32]) -> Vec<f32> {
        let token = |at: usize| &values[at * self.model_dimension..][..self.dimension];
        match self.pooling {
            _ if tokens == 0 => vec![0.0; self.dimension],
            Pooling::None | Pooling::Cls => token(0).to_vec(),
            Pooling::LastToken => token(tokens - 1).to_vec(),
            // The sum is enough, because the vector is normalized.
            Pooling::Mean => (1..tokens).fold(token(0).to_vec(), |mut sum, at| {
                sum.iter_mut().zip(token(at)).for_each(|(sum, x)| *sum += x);
                sum
            }),
        }
    }
}

/// Chooses the output that the manifest names, else the usual one for its pooling, or the only one.
fn chosen_output<'s>(session: &'s Session, manifest: &Manifest) -> Result<&'s Outlet, String> {
    let usual = match manifest.pooling {
        Pooling::None => "sentence_embedding",
        _ => "last_hidden_state",
    };
    let chosen = match (&manifest.output, session.outputs()) {
        (Some(name), _) => session::output(session, name),
        (None, [only]) => Ok(only),
        (None, _) => session::output(session, usual),
    };
    chosen.map_err(|fault| format!("{fault}; set output in manifest.toml to the output that has the vectors"))
}

fn extract(value: &DynValue) -> ort::Result<(Vec<usize>, Cow<'_, [f32]>)> {
    let sizes = |shape: &[i64]| shape.iter().map(|&size| size as usize).collect();
    if value.dtype().tensor_type() == Some(TensorElementType::Float16) {
        let (shape, values) = value.try_extract_tensor::<f16>()?;
        return Ok((sizes(shape), values.iter().map(|value| value.to_f32()).collect()));
    }
    let (shape, values) = value.try_extract_tensor::<f32>()?;
    Ok((sizes(shape), Cow::Borrowed(values)))
}
