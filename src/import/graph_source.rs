//! Finds or builds the ONNX graph of a source folder, chooses its output and the pooling, and detects its quantization.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{
    description::{ImportOptions, ModelDescription},
    encoder::{self, family},
};
use crate::{
    error::Result,
    ids::hex,
    model_folders::{
        Pooling, Quantization,
        folder::{self, invalid},
    },
    onnx::graph::{
        files,
        proto::{ModelProto, ValueInfoProto},
    },
};

/// The paths at which tools save the graph, in the order of preference.
const GRAPHS: [&str; 2] = ["model.onnx", "onnx/model.onnx"];

/// The file of the weights that a graph is built from if the folder has no graph, or if the option `graph` names this file.
const WEIGHTS: &str = "model.safetensors";

/// The outputs that are read if a manifest names none: the states of the tokens, or the vector of the text.
const STATES: &str = "last_hidden_state";
const SENTENCE: &str = "sentence_embedding";

const NO_POOLING: &str = "neither the folder nor the options state the pooling, which combines the states of the tokens into a \
                          vector; set the option `pooling` to mean, cls or last_token";

/// A graph with its files and properties.
pub(super) struct SourceGraph {
    /// `model.onnx`, and the files of its weights. If the graph was read from a file, its tensors share these bytes.
    pub(super) files: BTreeMap<String, Bytes>,
    pub(super) model: ModelProto,
    pub(super) output: GraphOutput,
    /// The number of components of the output, if known.
    pub(super) width: Option<usize>,
    /// The maximum number of tokens of a text, if known.
    pub(super) max_tokens: Option<usize>,
    /// The hashes of the files that the graph was built from. Empty if the graph was read from a file, or if other files
    /// determine the vectors too.
    pub(super) made_from: BTreeMap<String, String>,
}

/// The output of a graph that the embedder reads.
pub(super) struct GraphOutput {
    pub(super) pooling: Pooling,
    /// `None` for the default output.
    pub(super) name: Option<String>,
}

/// Reads the graph of the folder `root`, or builds it from the weights.
pub(super) fn read(root: &Path, described: &ModelDescription, options: &ImportOptions) -> Result<SourceGraph> {
    match graph_file(root, described, options)? {
        Some(file) => read_graph(root, &file, described, options),
        None => build(described, options),
    }
}

/// Returns the graph's path in the folder, or `None` if the graph is to be built from the weights.
fn graph_file(root: &Path, described: &ModelDescription, options: &ImportOptions) -> Result<Option<PathBuf>> {
    if let Some(graph) = &options.graph {
        return match root.join(graph).is_file() {
            true => Ok(Some(graph.clone()).filter(|graph| *graph != Path::new(WEIGHTS))),
            false => Err(invalid(root, format!("{} is missing", graph.display()), None)),
        };
    }
    if let Some(graph) = GRAPHS.into_iter().find(|graph| root.join(graph).is_file()) {
        return Ok(Some(graph.into()));
    }
    let weights = described.folder.join(WEIGHTS).is_file();
    let mut others: Vec<String> = ["", "onnx"].into_iter().flat_map(|folder| graphs(root, folder)).collect();
    match (&others[..], weights) {
        ([], true) => Ok(None),
        ([only], false) => Ok(Some(only.into())),
        ([], false) => {
            let problem = if described.folder.join("pytorch_model.bin").is_file() {
                "the weights are in pytorch_model.bin, a pickle, which is not supported; save the model with safe_serialization=True, or export it"
            } else if described.folder.join("model.safetensors.index.json").is_file() {
                "the weights are split over several files, which is not supported; export the model"
            } else {
                "the folder has neither an ONNX graph (model.onnx, onnx/model.onnx) nor model.safetensors; export the model"
            };
            Err(invalid(root, format!("{problem} to ONNX with `optimum-cli export onnx --model FOLDER OUT`"), None))
        }
        _ => {
            others.sort();
            others.extend(weights.then(|| WEIGHTS.to_owned()));
            let reason = format!(
                "the folder has several graphs or weights: {}; set the option `graph` to one of them",
                others.join(", ")
            );
            Err(invalid(root, reason, None))
        }
    }
}

/// Lists the paths of the ONNX files directly in `folder`, relative to `root`.
fn graphs(root: &Path, folder: &str) -> Vec<String> {
    let entries = root.join(folder).read_dir().into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    names.filter(|name| name.ends_with(".onnx")).map(|name| format!("{prefix}{name}")).collect()
}

fn read_graph(root: &Path, file: &Path, described: &ModelDescription, options: &ImportOptions) -> Result<SourceGraph> {
    let path = root.join(file);
    let (shown, folder) = (file.display().to_string(), path.parent().unwrap_or(root));
    let load = |name: &str| {
        let bytes = fs::read(folder.join(name));
        bytes.map(Bytes::from).map_err(|error| invalid(folder, format!("{name}: {error}"), Some(error.into())))
    };
    let bytes = fs::read(&path).map_err(|error| invalid(root, format!("{shown}: {error}"), Some(error.into())))?;
    let bytes = Bytes::from(bytes);
    let model = files::parse(root, &shown, &bytes)?;
    let mut files = BTreeMap::new();
    for name in files::weight_files(&bytes).map_err(|fault| invalid(root, format!("{shown}: {fault}"), None))? {
        folder::confined(folder, &name)?;
        let weights = load(&name)?;
        files.insert(name, weights);
    }
    if files.insert("model.onnx".to_owned(), bytes).is_some() {
        return Err(invalid(
            root,
            format!(
                "{shown} has weights in another file named model.onnx; export the model with another name for that file"
            ),
            None,
        ));
    }
    let outputs = &model.graph.as_ref().expect("parsing checks that there is a graph").output;
    let pooling = options.pooling.or(described.pooling);
    let (output, width) = choose_output(outputs, options.output.as_deref(), pooling, !described.dense.is_empty())
        .map_err(|fault| invalid(root, format!("{shown}: {fault}"), None))?;
    let (max_tokens, made_from) = (family::max_tokens(&described.config), BTreeMap::new());
    Ok(SourceGraph { files, output, width, max_tokens, made_from, model })
}

/// Chooses the output to read and its pooling. Returns them with the output's number of components, if known.
///
/// If the pooling is known, the states of the tokens are preferred, because they do not depend on the pooling in the
/// graph.
fn choose_output(
    outputs: &[ValueInfoProto],
    given: Option<&str>,
    pooling: Option<Pooling>,
    layers_after: bool,
) -> Result<(GraphOutput, Option<usize>), String> {
    let names = || outputs.iter().map(|output| output.name.as_str()).collect::<Vec<_>>();
    let rank = |output: &ValueInfoProto| output.shape().map(|shape| shape.len());
    let only = (outputs.len() == 1).then(|| &outputs[0]);
    let named = |name: &str| outputs.iter().find(|output| output.name == name);
    let (states, sentence) = match given {
        Some(name) => {
            let output = named(name)
                .ok_or_else(|| format!("the graph has no output {name:?}; its outputs are {:?}", names()))?;
            let pools = rank(output) == Some(2) || pooling == Some(Pooling::None);
            if pools { (None, Some(output)) } else { (Some(output), None) }
        }
        None => (
            named(STATES).or_else(|| named("token_embeddings")).or(only.filter(|only| rank(only) == Some(3))),
            named(SENTENCE).or(only.filter(|only| rank(only) == Some(2))),
        ),
    };
    let (output, pooling, default) = match (states, sentence, pooling) {
        (_, Some(sentence), Some(Pooling::None)) => (sentence, Pooling::None, SENTENCE),
        (Some(states), _, Some(pooling)) if pooling != Pooling::None && !layers_after => (states, pooling, STATES),
        (_, Some(sentence), _) => (sentence, Pooling::None, SENTENCE),
        (Some(_), None, _) if layers_after => {
            return Err("the model has layers after its pooling, but the graph does not contain them; export the model with its pooling \
                        (`optimum-cli export onnx --library sentence_transformers`)"
                .into());
        }
        (Some(_), None, None) => {
            return Err(NO_POOLING.into());
        }
        _ => {
            return Err(format!(
                "its outputs are {:?}, and none is {STATES:?} [batch, sequence, width] or {SENTENCE:?} [batch, width]; set the \
                 option `output` to the one to read",
                names()
            ));
        }
    };
    let width = output.shape().and_then(|shape| *shape.last()?);
    let name = (output.name != default && outputs.len() > 1).then(|| output.name.clone());
    Ok((GraphOutput { pooling, name }, width))
}

fn build(described: &ModelDescription, options: &ImportOptions) -> Result<SourceGraph> {
    let folder = &described.folder;
    let fault = |reason: String| invalid(folder, reason, None);
    let pooling = match options.pooling.or(described.pooling) {
        Some(Pooling::None) => {
            let reason =
                "a graph that is built from weights returns the states of the tokens; set a pooling other than none";
            return Err(fault(reason.into()));
        }
        Some(pooling) => pooling,
        None => return Err(fault(NO_POOLING.into())),
    };
    if pooling == Pooling::Mean && described.dense.iter().any(|dense| dense.tanh) {
        return Err(fault(
            "a layer with tanh after a mean is not supported; export the model to ONNX with its pooling".into(),
        ));
    }
    if let Some(output) = options.output.as_deref().filter(|output| *output != STATES) {
        return Err(fault(format!(
            "a graph that is built from weights has the output {STATES:?} alone, not {output:?}"
        )));
    }
    let weights = fs::read(folder.join(WEIGHTS))
        .map_err(|error| invalid(folder, format!("{WEIGHTS}: {error}"), Some(error.into())))?;
    let encoder = encoder::build(&described.config, &weights, &described.dense).map_err(fault)?;
    let made_from = made_from(described, &weights);
    drop(weights);
    let bytes = encoder.model.encode();
    Ok(SourceGraph {
        files: BTreeMap::from([("model.onnx".to_owned(), bytes.into())]),
        model: encoder.model,
        output: GraphOutput { pooling, name: None },
        width: Some(encoder.width),
        max_tokens: Some(encoder.max_tokens),
        made_from,
    })
}

/// Returns the hashes of the files that determine the vectors of a graph that is built from weights, besides the settings
/// in the manifest. Returns an empty map if these files are not all in one folder under their usual names.
fn made_from(described: &ModelDescription, weights: &[u8]) -> BTreeMap<String, String> {
    let read = |name: &str| Some((name.to_owned(), hex(&Sha256::digest(fs::read(described.folder.join(name)).ok()?))));
    let others: &[&str] = match described.folder.join("tokenizer.json").is_file() {
        true => &["config.json", "tokenizer.json"],
        false => &["config.json", "vocab.txt", "tokenizer_config.json"],
    };
    match others.iter().map(|name| read(name)).collect::<Option<BTreeMap<_, _>>>() {
        Some(mut files) if described.dense.is_empty() && !described.lower_case => {
            files.insert(WEIGHTS.to_owned(), hex(&Sha256::digest(weights)));
            files
        }
        _ => BTreeMap::new(),
    }
}

/// Detects from the graph's operators how its activations are quantized.
pub(super) fn quantization(model: &ModelProto) -> Quantization {
    let (mut fixed, mut dynamic) = (false, false);
    model.visit(&mut |node| {
        let op = node.op_type.as_str();
        // Dynamic quantization produces integer products without scales. If another tool produced them, the only cost of
        // this guess is that texts are run one by one.
        dynamic |= op.starts_with("DynamicQuantize") || op.starts_with("MatMulInteger") || op == "ConvInteger";
        fixed |= op.starts_with("QLinear") || matches!(op, "QuantizeLinear" | "QGemm" | "QAttention");
    });
    match (dynamic, fixed) {
        (true, _) => Quantization::Dynamic,
        (false, true) => Quantization::Static,
        (false, false) => Quantization::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::graph::proto::{Dimension, FLOAT, GraphProto, NodeProto};

    #[test]
    fn the_output_is_chosen_by_pooling_and_shape() {
        let value = |name: &str, rank: usize| {
            let dimension = |i| if i + 1 == rank { Dimension::Size(8) } else { Dimension::Name("n".into()) };
            ValueInfoProto::tensor(name, FLOAT, &(0..rank).map(dimension).collect::<Vec<_>>())
        };
        let [states, tokens, sentence] =
            [value("last_hidden_state", 3), value("token_embeddings", 3), value("sentence_embedding", 2)];
        let (other, flat) = (value("logits", 3), value("embedding", 2));
        let check_named =
            |outputs: &[&ValueInfoProto], name, given: Option<Pooling>, after, wanted: Result<_, &str>| {
                let outputs: Vec<ValueInfoProto> = outputs.iter().map(|&output| output.clone()).collect();
                let found = choose_output(&outputs, name, given, after);
                let found = found.map(|(output, width)| {
                    assert_eq!(width, Some(8));
                    (output.pooling, output.name)
                });
                match (found, wanted) {
                    (Ok(found), Ok((pooling, name))) => assert_eq!(found, (pooling, Option::map(name, str::to_owned))),
                    (Err(fault), Err(wanted)) => assert!(fault.contains(wanted), "{fault}"),
                    (found, wanted) => panic!("{found:?}, not {wanted:?}"),
                }
            };
        let check =
            |outputs: &[&ValueInfoProto], given, after, wanted| check_named(outputs, None, given, after, wanted);
        let (mean, none) = (Some(Pooling::Mean), Some(Pooling::None));
        check(&[&states], mean, false, Ok((Pooling::Mean, None)));
        check(&[&states, &sentence], mean, false, Ok((Pooling::Mean, None)));
        check(&[&tokens, &sentence], mean, false, Ok((Pooling::Mean, Some("token_embeddings"))));
        check(&[&tokens, &sentence], mean, true, Ok((Pooling::None, None)));
        check(&[&tokens, &sentence], None, false, Ok((Pooling::None, None)));
        check(&[&tokens, &sentence], none, false, Ok((Pooling::None, None)));
        check(&[&other], mean, false, Ok((Pooling::Mean, None)));
        check(&[&flat], None, false, Ok((Pooling::None, None)));
        check(&[&flat], mean, false, Ok((Pooling::None, None)));
        check(&[&states], None, false, Err("set the option `pooling`"));
        check(&[&states], mean, true, Err("layers after its pooling"));
        check(&[&states], none, false, Err("its outputs are"));
        check(&[&other, &flat], mean, false, Err("its outputs are [\"logits\", \"embedding\"]"));
        check(&[], mean, false, Err("its outputs are []"));
        // A named output takes precedence.
        let by =
            |outputs: &[&ValueInfoProto], name, given, wanted| check_named(outputs, Some(name), given, false, wanted);
        by(&[&states, &sentence], "sentence_embedding", mean, Ok((Pooling::None, None)));
        by(&[&states, &sentence], "sentence_embedding", none, Ok((Pooling::None, None)));
        by(&[&states, &flat], "embedding", mean, Ok((Pooling::None, Some("embedding"))));
        by(&[&states, &other], "logits", mean, Ok((Pooling::Mean, Some("logits"))));
        by(&[&flat], "embedding", None, Ok((Pooling::None, None)));
        by(&[&states, &other], "logits", None, Err("set the option `pooling`"));
        by(
            &[&states],
            "logits",
            mean,
            Err("the graph has no output \"logits\"; its outputs are [\"last_hidden_state\"]"),
        );
        check_named(&[&states, &flat], Some("last_hidden_state"), mean, true, Err("layers after its pooling"));
    }

    #[test]
    fn quantization_is_detected_by_operators() {
        for (operators, wanted) in [
            (&["MatMul", "Gather"][..], Quantization::None),
            (&["DequantizeLinear", "MatMul"], Quantization::None),
            (&["QuantizeLinear", "DequantizeLinear", "MatMul"], Quantization::Static),
            (&["QLinearMatMul", "QuantizeLinear"], Quantization::Static),
            (&["DynamicQuantizeLinear", "MatMulInteger"], Quantization::Dynamic),
            (&["QuantizeLinear", "MatMulIntegerToFloat"], Quantization::Dynamic),
            (&["DynamicQuantizeMatMul"], Quantization::Dynamic),
        ] {
            let node = |op: &&str| NodeProto { op_type: (*op).to_owned(), ..Default::default() };
            let graph = GraphProto { node: operators.iter().map(node).collect(), ..Default::default() };
            let model = ModelProto { graph: Some(graph), ..Default::default() };
            assert_eq!(quantization(&model), wanted, "{operators:?}");
        }
    }
}
