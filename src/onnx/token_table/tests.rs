//! The bundled table beside ONNX Runtime, which runs the same graph.

use std::{fs, path::Path};

use super::*;
use crate::{
    model_folders::Model,
    onnx::{
        graph::{
            files::{self, GraphFiles},
            proto::ModelProto,
        },
        graph_model::GraphModel,
        session::OnnxOptions,
        tokenizer::TextTokenizer,
    },
};

fn parsed(model: &Model) -> ModelProto {
    files::parse(&model.path(), "model.onnx", &GraphFiles::read(model).unwrap().bytes).unwrap()
}

fn texts() -> Vec<String> {
    let read = |file| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/sample").join(file));
    let lines = read("messages.jsonl").unwrap() + &read("queries.jsonl").unwrap();
    let mut texts: Vec<String> = lines.lines().map(str::to_owned).collect();
    texts.extend(
        [
            "",
            " ",
            "ok",
            "\u{0}",
            "\u{202e}",
            "a\u{301}",
            "名前 は 何 です か",
            "Ich hätte gern zwei Brötchen! 🙂",
            "[SEP] [PAD] [UNK]",
            "۱۲۳ नमस्ते สวัสดี",
        ]
        .map(str::to_owned),
    );
    // As many tokens as the model takes: longer texts are split into chunks.
    texts.push("a small engine keeps what people said and finds it again when somebody asks ".repeat(36));
    texts.push("x".repeat(5000));
    texts
}

#[test]
fn the_vectors_are_those_of_onnx_runtime() {
    let model = Model::bundled();
    let tokenizer = TextTokenizer::open(&model.path(), &model.read("tokenizer.json").unwrap()).unwrap();
    let table = TokenTable::of(&parsed(&model), &model.manifest).expect("the bundled model is a table");
    let graph = GraphFiles::read(&model).unwrap();
    let reference = GraphModel::open(&model, graph, &OnnxOptions::default(), tokenizer.pad_id()).unwrap();
    let (mut largest, texts) = (0.0_f32, texts());
    for text in &texts {
        let tokens = tokenizer.encode(text).unwrap();
        assert!(tokens.len() <= model.manifest.max_tokens);
        let (own, expected) = (table.vector(&tokens).unwrap(), reference.query(&tokens, None).unwrap());
        assert_eq!(own.len(), expected.len());
        let difference = own.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(difference <= 1e-6, "{difference}: {text:.200}");
        largest = largest.max(difference);
    }
    assert!(texts.len() > 500);
    println!("{} texts, the largest difference of a component is {largest:e}", texts.len());
    let missing = table.vector(&[0, 30_522]).unwrap_err().to_string();
    assert!(missing.contains("rows for 30522 tokens, but the text has token 30522"), "{missing}");
}

#[test]
fn graphs_that_compute_something_else_are_not_tables() {
    let model = Model::bundled();
    let sound = parsed(&model);
    let is_table = |change: &dyn Fn(&mut ModelProto)| {
        let mut changed = sound.clone();
        change(&mut changed);
        TokenTable::of(&changed, &model.manifest).is_some()
    };
    assert!(is_table(&|_| {}));
    // Names do not count, except those of the input and of the operators.
    assert!(is_table(&|model| {
        let graph = model.graph.as_mut().unwrap();
        let rename = |name: &mut String| {
            if name != "input_ids" {
                name.insert(0, 'x');
            }
        };
        graph.node.iter_mut().flat_map(|node| node.input.iter_mut().chain(&mut node.output)).for_each(rename);
        graph.initializer.iter_mut().for_each(|tensor| rename(&mut tensor.name));
        graph.output.iter_mut().for_each(|output| rename(&mut output.name));
    }));
    let nodes = sound.graph.as_ref().unwrap().node.len();
    for node in 0..nodes {
        assert!(!is_table(&|model| model.graph.as_mut().unwrap().node[node].op_type = "Relu".into()), "{node}");
        assert!(!is_table(&|model| drop(model.graph.as_mut().unwrap().node.remove(node))), "{node}");
        let attributes = sound.graph.as_ref().unwrap().node[node].attribute.len();
        for attribute in 0..attributes {
            assert!(
                !is_table(&|model| {
                    let changed = &mut model.graph.as_mut().unwrap().node[node].attribute[attribute];
                    changed.i = changed.i.map(|i| 1 - i.min(1));
                    changed.ints.iter_mut().for_each(|i| *i += 1);
                }),
                "{node}, {attribute}"
            );
        }
    }
    assert!(!is_table(&|model| model.opset_import[0].domain = "com.microsoft".into()));
    assert!(!is_table(&|model| model.functions.push(Default::default())));
    assert!(!is_table(&|model| {
        let graph = model.graph.as_mut().unwrap();
        graph.input.push(graph.input[0].clone());
    }));
    for tensor in 0..sound.graph.as_ref().unwrap().initializer.len() {
        for change in [|t: &mut _| cut(t), |t: &mut _| retyped(t), |t: &mut _| outside(t)] {
            assert!(!is_table(&|model| change(&mut model.graph.as_mut().unwrap().initializer[tensor])), "{tensor}");
        }
    }
    for (dimension, pooling) in [(255, crate::model_folders::Pooling::None), (256, crate::model_folders::Pooling::Mean)]
    {
        let mut manifest = model.manifest.clone();
        (manifest.dimension, manifest.pooling) = (dimension, pooling);
        assert!(TokenTable::of(&sound, &manifest).is_none());
    }
}

type Tensor = crate::onnx::graph::proto::TensorProto;

fn cut(tensor: &mut Tensor) {
    tensor.raw_data.truncate(tensor.raw_data.len() - 1);
}

fn retyped(tensor: &mut Tensor) {
    tensor.data_type = 2;
}

fn outside(tensor: &mut Tensor) {
    tensor.data_location = 1;
}
