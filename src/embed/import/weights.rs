//! Weights in `model.safetensors`, by name, widened to f32.

use std::{cell::RefCell, collections::HashSet};

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

/// Old checkpoints' names of a layer norm's weight and bias.
const OLD_NAMES: [(&str, &str); 2] = [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")];

pub(super) struct Weights<'w> {
    tensors: SafeTensors<'w>,
    /// What stands before all names that a model with a head has, such as `bert.`.
    prefix: String,
    used: RefCell<HashSet<String>>,
}

/// What is wrong with a file or a tensor of it.
pub(super) type Fault = String;

impl<'w> Weights<'w> {
    /// The weights in this file. `anchor` is the name of a tensor that there has to be; what the file has before it, all names
    /// have before them.
    pub(super) fn new(bytes: &'w [u8], anchor: &str) -> Result<Self, Fault> {
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| format!("no safetensors file: {error}"))?;
        let prefix = tensors.names().into_iter().filter_map(|name| name.strip_suffix(anchor)).min();
        let prefix = prefix.ok_or_else(|| format!("it has no tensor {anchor:?}"))?.to_owned();
        Ok(Weights { tensors, prefix, used: RefCell::default() })
    }

    fn name(&self, name: &str) -> Option<String> {
        let old = OLD_NAMES.iter().find_map(|(new, old)| Some(format!("{}{old}", name.strip_suffix(new)?)));
        let names = [Some(name.to_owned()), old].into_iter().flatten().map(|name| format!("{}{name}", self.prefix));
        names.into_iter().find(|name| self.tensors.tensor(name).is_ok())
    }

    pub(super) fn shape(&self, name: &str) -> Result<Vec<usize>, Fault> {
        let full = self.name(name).ok_or_else(|| format!("it has no tensor {:?}", format!("{}{name}", self.prefix)))?;
        Ok(self.tensors.tensor(&full).map_err(|error| error.to_string())?.shape().to_vec())
    }

    /// The tensor of this name and shape, row by row.
    pub(super) fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Fault> {
        let found = self.shape(name)?;
        if found != shape {
            return Err(format!("{name:?} has the shape {found:?}; config.json asks for {shape:?}"));
        }
        let full = self.name(name).expect("it has a shape");
        let tensor = self.tensors.tensor(&full).map_err(|error| error.to_string())?;
        let data = tensor.data();
        let pair = |bytes: &[u8]| [bytes[0], bytes[1]];
        let values: Vec<f32> = match tensor.dtype() {
            Dtype::F32 => data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            Dtype::F16 => data.chunks_exact(2).map(|bytes| f16::from_le_bytes(pair(bytes)).to_f32()).collect(),
            Dtype::BF16 => data.chunks_exact(2).map(|bytes| bf16::from_le_bytes(pair(bytes)).to_f32()).collect(),
            other => return Err(format!("{name:?} is of {other:?}; f32, f16 and bf16 can be read")),
        };
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(format!("{name:?} has a value that is {value}"));
        }
        self.used.borrow_mut().insert(full);
        Ok(values)
    }

    /// Tensors under these folders of names that were not asked for, in order.
    pub(super) fn unused(&self, folders: &[&str]) -> Vec<String> {
        let used = self.used.borrow();
        let of_encoder = |name: &str| {
            let name = name.strip_prefix(&self.prefix).unwrap_or_default();
            // A buffer of older releases, no weight.
            folders.iter().any(|folder| name.starts_with(folder)) && !name.ends_with("position_ids")
        };
        let mut names: Vec<String> = self.tensors.names().into_iter().map(str::to_owned).collect();
        names.retain(|name| of_encoder(name) && !used.contains(name));
        names.sort();
        names
    }

    /// Values of all tensors: what they take in f32, a quarter of the bytes.
    pub(super) fn count(&self) -> usize {
        self.tensors.iter().map(|(_, tensor)| tensor.shape().iter().product::<usize>()).sum()
    }
}
