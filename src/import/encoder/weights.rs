//! Reads weights from `model.safetensors` by name and widens them to f32.

use std::{cell::RefCell, collections::HashSet};

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

/// Name endings of a layer norm's weight and bias, each with its ending in old checkpoints.
const OLD_NAMES: [(&str, &str); 2] = [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")];

/// The weights of a file. Counts a tensor as used once it was read.
pub(super) struct Weights<'w> {
    tensors: SafeTensors<'w>,
    /// The prefix of all names, such as `bert.`, in files of models that were saved with a head.
    prefix: String,
    used: RefCell<HashSet<String>>,
}

/// A description of a problem with a file or a tensor.
pub(super) type Fault = String;

impl<'w> Weights<'w> {
    /// Reads the file's index. `anchor` is the name of a tensor that must exist; its prefix in the file is the prefix
    /// of all names.
    pub(super) fn new(bytes: &'w [u8], anchor: &str) -> Result<Self, Fault> {
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| format!("not a safetensors file: {error}"))?;
        let prefix = tensors.names().into_iter().filter_map(|name| name.strip_suffix(anchor)).min();
        let prefix = prefix.ok_or_else(|| format!("tensor {anchor:?} is missing"))?.to_owned();
        Ok(Weights { tensors, prefix, used: RefCell::default() })
    }

    /// Returns the tensor's full name in the file, which may be the one of old checkpoints.
    fn name(&self, name: &str) -> Option<String> {
        let old = OLD_NAMES.iter().find_map(|(new, old)| Some(format!("{}{old}", name.strip_suffix(new)?)));
        let names = [Some(name.to_owned()), old].into_iter().flatten().map(|name| format!("{}{name}", self.prefix));
        names.into_iter().find(|name| self.tensors.tensor(name).is_ok())
    }

    pub(super) fn shape(&self, name: &str) -> Result<Vec<usize>, Fault> {
        let full =
            self.name(name).ok_or_else(|| format!("tensor {:?} is missing", format!("{}{name}", self.prefix)))?;
        Ok(self.tensors.tensor(&full).map_err(|error| error.to_string())?.shape().to_vec())
    }

    /// Returns the values of a tensor of this name and shape, row by row.
    pub(super) fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Fault> {
        let found = self.shape(name)?;
        if found != shape {
            return Err(format!("{name:?} has the shape {found:?}, but config.json requires {shape:?}"));
        }
        let full = self.name(name).expect("`shape` found the tensor");
        let tensor = self.tensors.tensor(&full).map_err(|error| error.to_string())?;
        let data = tensor.data();
        let pair = |bytes: &[u8]| [bytes[0], bytes[1]];
        let values: Vec<f32> = match tensor.dtype() {
            Dtype::F32 => data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            Dtype::F16 => data.chunks_exact(2).map(|bytes| f16::from_le_bytes(pair(bytes)).to_f32()).collect(),
            Dtype::BF16 => data.chunks_exact(2).map(|bytes| bf16::from_le_bytes(pair(bytes)).to_f32()).collect(),
            other => return Err(format!("{name:?} has the type {other:?}; f32, f16 and bf16 are supported")),
        };
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(format!("{name:?} contains the value {value}; all weights must be finite"));
        }
        self.used.borrow_mut().insert(full);
        Ok(values)
    }

    /// Returns the names of the tensors that begin with one of these prefixes and were not read, sorted.
    pub(super) fn unused(&self, prefixes: &[&str]) -> Vec<String> {
        let used = self.used.borrow();
        let of_encoder = |name: &str| {
            let name = name.strip_prefix(&self.prefix).unwrap_or_default();
            // Older releases saved `position_ids`, a buffer that is not a weight.
            prefixes.iter().any(|prefix| name.starts_with(prefix)) && !name.ends_with("position_ids")
        };
        let mut names: Vec<String> = self.tensors.names().into_iter().map(str::to_owned).collect();
        names.retain(|name| of_encoder(name) && !used.contains(name));
        names.sort();
        names
    }

    /// Returns the total number of values of all tensors.
    pub(super) fn count(&self) -> usize {
        self.tensors.iter().map(|(_, tensor)| tensor.shape().iter().product::<usize>()).sum()
    }
}
