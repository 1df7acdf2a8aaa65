//! The bytes of a model's graph, and of the files beside it that hold its weights (ONNX external data).
//!
//! Invariant: every file that a graph refers to is in the model's folder and in its manifest with its hash, and is read
//! before ONNX Runtime could open any file.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use bytes::Bytes;
use prost::Message;

use super::{
    proto::ModelProto,
    tensors::{self, Data, Tensor},
};
use crate::{
    error::Result,
    model_folders::{Model, folder},
};

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
            Some(folder) => read_weight_files(folder, &bytes, &model.manifest.files)?,
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

/// Parses an ONNX file whose hash was checked.
pub(crate) fn parse(folder: &Path, file: &str, bytes: &Bytes) -> Result<ModelProto> {
    let model = ModelProto::decode(bytes.clone()).map_err(|error| {
        folder::invalid(folder, format!("{file} is not an ONNX file; export the model again"), Some(error.into()))
    })?;
    match model.graph {
        Some(_) => Ok(model),
        None => Err(folder::invalid(
            folder,
            format!("{file} is not an ONNX file: it has no graph; export the model again"),
            None,
        )),
    }
}

/// Returns the names of the files that hold weights of a graph.
///
/// # Errors
/// The reason why the graph or a tensor is invalid, such as a path out of the model's folder, or no file name.
pub(crate) fn weight_files(graph: &[u8]) -> Result<BTreeSet<String>, String> {
    let mut files = BTreeSet::new();
    tensors::rewritten(graph, |tensor, _| {
        if let Data::External(range) = tensor.data {
            files.insert(range.file.to_owned());
        }
        Ok(())
    })?;
    Ok(files)
}

/// Reads the [`weight_files`] of a graph from the folder, and checks their hashes.
pub(crate) fn read_weight_files(
    folder: &Path,
    graph: &[u8],
    hashes: &BTreeMap<String, String>,
) -> Result<Vec<(String, Vec<u8>)>> {
    let mut read = Vec::new();
    for file in weight_files(graph).map_err(|fault| folder::invalid(folder, format!("model.onnx: {fault}"), None))? {
        folder::check(folder, &[&file], hashes)?;
        folder::confined(folder, &file)?;
        let bytes = folder::read(folder, &file, hashes)?;
        read.push((file, bytes));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::onnx::graph::proto::{
        AttributeProto, FunctionProto, GraphProto, NodeProto, SparseTensorProto, StringStringEntryProto, TensorProto,
        TrainingInfoProto,
    };

    fn external(location: &str) -> TensorProto {
        let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
        TensorProto {
            name: "w".into(),
            data_location: 1,
            external_data: vec![entry("location", location), entry("offset", "0"), entry("length", "4")],
            ..Default::default()
        }
    }

    /// Makes a model for each position that a tensor can have in one.
    fn everywhere(tensor: &TensorProto) -> Vec<Vec<u8>> {
        let one = || Some(tensor.clone());
        let sparse = || SparseTensorProto { values: one(), indices: None };
        let of_graph = |graph| ModelProto { graph: Some(graph), ..Default::default() };
        let of_attribute = |attribute: AttributeProto| {
            let node = NodeProto { attribute: vec![attribute], ..Default::default() };
            GraphProto { node: vec![node], ..Default::default() }
        };
        let initializer = || GraphProto { initializer: vec![tensor.clone()], ..Default::default() };
        let attributes = [
            AttributeProto { t: one(), ..Default::default() },
            AttributeProto { tensors: vec![tensor.clone()], ..Default::default() },
            AttributeProto { sparse_tensor: Some(sparse()), ..Default::default() },
            AttributeProto { sparse_tensors: vec![sparse()], ..Default::default() },
            AttributeProto { g: Some(initializer()), ..Default::default() },
            AttributeProto { graphs: vec![GraphProto::default(), initializer()], ..Default::default() },
        ];
        let indices = SparseTensorProto { values: None, indices: one() };
        let mut models = vec![
            of_graph(initializer()),
            of_graph(GraphProto { sparse_initializer: vec![sparse(), indices], ..Default::default() }),
        ];
        let training = [
            TrainingInfoProto { initialization: Some(initializer()), algorithm: None },
            TrainingInfoProto { initialization: None, algorithm: Some(initializer()) },
        ];
        models.extend(training.map(|training| ModelProto { training_info: vec![training], ..Default::default() }));
        for attribute in attributes {
            let node = of_attribute(attribute.clone()).node;
            let function = FunctionProto { node, attribute_proto: vec![] };
            let defaults = FunctionProto { node: vec![], attribute_proto: vec![attribute.clone()] };
            models.push(ModelProto { functions: vec![function, defaults], ..Default::default() });
            // A graph in an attribute of a node of a graph in an attribute.
            let nested = AttributeProto { g: Some(of_attribute(attribute.clone())), ..Default::default() };
            models.extend([of_attribute(attribute), of_attribute(nested)].map(of_graph));
        }
        for model in &mut models {
            model.graph.get_or_insert_default();
        }
        models.iter().map(Message::encode_to_vec).collect()
    }

    #[test]
    fn external_data_is_found_anywhere_in_a_model() {
        for (position, model) in everywhere(&external("weights.bin")).into_iter().enumerate() {
            assert_eq!(weight_files(&model).unwrap().into_iter().collect::<Vec<_>>(), ["weights.bin"], "{position}");
            let inside = tensors::rewritten(&model, |tensor, out| {
                tensor.put_with(b"data", out);
                Ok(())
            });
            let inside = inside.unwrap();
            assert!(weight_files(&inside).unwrap().is_empty(), "{position}");
            assert!(inside.windows(4).any(|bytes| bytes == b"data"), "{position}");
            ModelProto::decode(&*inside).unwrap();
        }
        let inside = TensorProto { data_location: 0, ..external("../weights.bin") };
        for model in everywhere(&inside) {
            assert!(weight_files(&model).unwrap().is_empty(), "no file is needed for data in the graph itself");
        }
    }

    #[test]
    fn paths_out_of_the_folder_are_rejected() {
        let outside = [
            "",
            ".",
            "..",
            "../w",
            "a/w",
            "/etc/passwd",
            "a\\w",
            "C:w",
            "C:\\w",
            "\\\\host\\w",
            "w\0",
            "*/_ORT_MEM_ADDR_/*",
        ];
        for location in outside {
            for model in everywhere(&external(location)) {
                let fault = weight_files(&model).unwrap_err();
                assert!(fault.contains("own folder"), "{location:?}: {fault}");
            }
        }
        // An unknown location, a tensor that names two files of which one is outside of the folder, and one that names
        // none.
        let unknown = TensorProto { data_location: 99, ..external("../w") };
        let mut two = external("../w");
        two.external_data.extend(external("w").external_data);
        let none = TensorProto { external_data: Vec::new(), ..external("") };
        for tensor in [unknown, two, none] {
            assert!(everywhere(&tensor).iter().all(|model| weight_files(model).is_err()));
        }
    }

    #[test]
    fn data_inside_and_outside_is_rejected() {
        let both = TensorProto { raw_data: Bytes::from_static(b"1234"), ..external("w") };
        for model in everywhere(&both) {
            let fault = weight_files(&model).unwrap_err();
            assert!(fault.contains("in the graph and in another file"), "{fault}");
        }
    }

    proptest! {
        /// Checks that bytes that are not a model, or a damaged model, never cause a panic.
        #[test]
        fn any_bytes_are_parsed_or_rejected(noise in proptest::collection::vec(any::<u8>(), 0..400), at in any::<prop::sample::Index>(), byte: u8) {
            let read = |bytes: &[u8]| (weight_files(bytes).is_ok(), parse(Path::new(""), "", &Bytes::copy_from_slice(bytes)).is_ok());
            read(&noise);
            for mut model in everywhere(&external("w")) {
                let at = at.index(model.len());
                model[at] = byte;
                read(&model);
                read(&model[..at]);
            }
        }
    }

    #[test]
    fn claimed_sizes_and_depths_are_bounded() {
        // A graph (field 7) of 2^63 bytes, then of 4 GB; a thousand graphs in attributes of each other.
        let huge = [0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        for size in [&huge[..], &[0x3a, 0xff, 0xff, 0xff, 0xff, 0x0f, 1]] {
            assert!(ModelProto::decode(size).is_err() && weight_files(size).is_err());
        }
        let within = |depth: usize| {
            let mut graph = GraphProto::default();
            for _ in 0..depth {
                let attribute = AttributeProto { g: Some(graph), ..Default::default() };
                let node = NodeProto { attribute: vec![attribute], ..Default::default() };
                graph = GraphProto { node: vec![node], ..Default::default() };
            }
            ModelProto { graph: Some(graph), ..Default::default() }.encode_to_vec()
        };
        for (depth, is_read) in [(30, true), (1000, false)] {
            let model = within(depth);
            assert_eq!((ModelProto::decode(&*model).is_ok(), weight_files(&model).is_ok()), (is_read, is_read));
        }
    }
}
