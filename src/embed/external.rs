//! Weights of a graph that lie in files beside it (ONNX external data): all of them in the model's folder, named and hashed in
//! its manifest, and read before ONNX Runtime could ask the file system for anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use bytes::Bytes;
use prost::Message;

use super::{
    folder,
    onnx_proto::{Item, ModelProto, TensorProto},
};
use crate::error::Result;

/// The graph in these bytes, which are hash-checked.
pub(super) fn parse(folder: &Path, file: &str, bytes: &Bytes) -> Result<ModelProto> {
    let model = ModelProto::decode(bytes.clone())
        .map_err(|error| folder::invalid(folder, format!("{file} is no ONNX file"), Some(error.into())))?;
    match model.graph {
        Some(_) => Ok(model),
        None => Err(folder::invalid(folder, format!("{file} is no ONNX file: it has no graph"), None)),
    }
}

/// The tensors whose data is in other files, wherever in the model they are.
fn tensors(model: &ModelProto) -> Vec<&TensorProto> {
    let mut tensors = Vec::new();
    model.visit(&mut |item| match item {
        Item::Tensor(tensor) if tensor.is_external() => tensors.push(tensor),
        _ => {}
    });
    tensors
}

/// The files that the model has weights in, each a name in the model's own folder.
///
/// # Errors
/// What is wrong with one: it leads out of the folder, or a tensor names none.
pub(super) fn files(model: &ModelProto) -> Result<BTreeSet<&str>, String> {
    let mut files = BTreeSet::new();
    for tensor in tensors(model) {
        let mut locations = tensor.locations().peekable();
        if locations.peek().is_none() {
            return Err(format!("tensor {:?} has its data in a file that it does not name", tensor.name));
        }
        for location in locations {
            if !folder::is_plain(location) {
                return Err(format!(
                    "tensor {:?} has its data in {location:?}; it may only be in a file of the model's own folder",
                    tensor.name
                ));
            }
            files.insert(location);
        }
    }
    Ok(files)
}

/// The files of [`files`], read from the folder with their hashes checked; and that each tensor's data is in its file.
pub(super) fn read(folder: &Path, graph: &Bytes, hashes: &BTreeMap<String, String>) -> Result<Vec<(String, Vec<u8>)>> {
    let model = parse(folder, "model.onnx", graph)?;
    let fault = |reason| folder::invalid(folder, format!("model.onnx: {reason}"), None);
    let mut read = Vec::new();
    for file in files(&model).map_err(fault)? {
        folder::check(folder, &[file], hashes)?;
        folder::confined(folder, file)?;
        read.push((file.to_owned(), folder::read(folder, file, hashes)?));
    }
    let sizes = read.iter().map(|(file, bytes)| (file.as_str(), bytes.len() as u64)).collect();
    tensors(&model).into_iter().try_for_each(|tensor| within(tensor, &sizes)).map_err(fault)?;
    Ok(read)
}

/// Checks that a tensor's part of its files ends before they do.
fn within(tensor: &TensorProto, sizes: &BTreeMap<&str, u64>) -> Result<(), String> {
    let number = |key| match tensor.place(key) {
        Some(text) => text.parse::<u64>().map_err(|_| format!("tensor {:?}: {key} is {text:?}", tensor.name)),
        None => Ok(0),
    };
    let end = number("offset")?.saturating_add(number("length")?);
    match tensor.locations().find(|location| end > sizes[location]) {
        Some(location) => {
            Err(format!("tensor {:?} ends at byte {end} of {location}, which has {}", tensor.name, sizes[location]))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::embed::onnx_proto::{
        AttributeProto, FunctionProto, GraphProto, NodeProto, SparseTensorProto, StringStringEntryProto,
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

    /// Each place of a model that a tensor can be in.
    fn everywhere(tensor: &TensorProto) -> Vec<ModelProto> {
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
        models
    }

    #[test]
    fn external_data_is_found_wherever_it_is() {
        for (place, model) in everywhere(&external("weights.bin")).into_iter().enumerate() {
            let read = ModelProto::decode(Bytes::from(model.encode_to_vec())).unwrap();
            assert_eq!(files(&read).unwrap().into_iter().collect::<Vec<_>>(), ["weights.bin"], "{place}");
        }
        let inside = TensorProto { data_location: 0, ..external("../weights.bin") };
        for model in everywhere(&inside) {
            assert!(files(&model).unwrap().is_empty(), "what is in the file itself is not looked for in another");
        }
    }

    #[test]
    fn it_stays_in_the_folder() {
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
                let fault = files(&model).unwrap_err();
                assert!(fault.contains("own folder"), "{location:?}: {fault}");
            }
        }
        // A place that is no place, and a tensor that names two files, of which one is outside.
        let unknown = TensorProto { data_location: 99, ..external("../w") };
        let mut two = external("../w");
        two.external_data.extend(external("w").external_data);
        let none = TensorProto { external_data: Vec::new(), ..external("") };
        for tensor in [unknown, two, none] {
            assert!(everywhere(&tensor).iter().all(|model| files(model).is_err()));
        }
    }

    #[test]
    fn data_ends_with_its_file() {
        let sizes = BTreeMap::from([("w", 100)]);
        let check = |offset: &str, length: &str| {
            let mut tensor = external("w");
            tensor.external_data[1].value = offset.into();
            tensor.external_data[2].value = length.into();
            within(&tensor, &sizes)
        };
        for (offset, length) in [("0", "100"), ("96", "4"), ("100", "0")] {
            check(offset, length).unwrap();
        }
        for (offset, length) in [("0", "101"), ("97", "4"), ("18446744073709551615", "1"), ("-1", "4"), ("x", "4")] {
            check(offset, length).unwrap_err();
        }
    }

    proptest! {
        /// Bytes that are no model, or a damaged one: an answer or an error, never a panic.
        #[test]
        fn any_bytes_can_be_read(noise in proptest::collection::vec(any::<u8>(), 0..400), at in any::<prop::sample::Index>(), byte: u8) {
            let _ = ModelProto::decode(Bytes::from(noise)).map(|model| files(&model).is_ok());
            for model in everywhere(&external("w")) {
                let mut bytes = model.encode_to_vec();
                let at = at.index(bytes.len());
                bytes[at] = byte;
                let _ = ModelProto::decode(Bytes::from(bytes.clone())).map(|model| files(&model).is_ok());
                bytes.truncate(at);
                let _ = ModelProto::decode(Bytes::from(bytes)).map(|model| files(&model).is_ok());
            }
        }
    }

    #[test]
    fn claimed_sizes_and_depths_are_not_believed() {
        // A graph (field 7) of 2^63 bytes, then of 4 GB; a thousand graphs in attributes of each other.
        let huge = [0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(ModelProto::decode(&huge[..]).is_err());
        assert!(ModelProto::decode(&[0x3a, 0xff, 0xff, 0xff, 0xff, 0x0f, 1][..]).is_err());
        let mut graph = Vec::new();
        for _ in 0..1000 {
            // GraphProto.node (1) > NodeProto.attribute (5) > AttributeProto.g (6).
            for tag in [0x32, 0x2a, 0x0a] {
                let mut outer = vec![tag];
                prost::encode_length_delimiter(graph.len(), &mut outer).unwrap();
                outer.append(&mut graph);
                graph = outer;
            }
        }
        assert!(GraphProto::decode(&graph[..]).is_err());
    }
}
