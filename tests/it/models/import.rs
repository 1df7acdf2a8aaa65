//! Folders of sentence-transformers and optimum, imported and run.

use std::{collections::BTreeMap, fs, path::Path};

use mnemon::{Embedder, Error, ImportOptions, Model, ModelInfo, OnnxEmbedder, Pooling, Quantization};
use proptest::prelude::*;
use safetensors::Dtype;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    chain, root, skipped,
    tiny_models::{Kind, SHAPE, Shape, Tiny, cosine, ids, mean, pooling_config, text, write, write_tensors},
};

/// A tiny model's folder, and the one that it is imported to.
struct Folders {
    folder: TempDir,
}

impl Folders {
    fn new(tiny: &Tiny, pooling: &str) -> Self {
        let folders = Folders { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(folders.source()).unwrap();
        tiny.write(&folders.source(), pooling);
        folders
    }

    fn source(&self) -> std::path::PathBuf {
        self.folder.path().join("source")
    }

    fn import(&self, options: &ImportOptions) -> mnemon::Result<Model> {
        Model::import(self.source(), self.folder.path().join("models/tiny"), options)
    }

    fn embedder(&self) -> OnnxEmbedder {
        OnnxEmbedder::new(self.import(&ImportOptions::default()).unwrap()).unwrap()
    }
}

/// Documents alone and together, and a question, have the vector that the plain forward pass gives.
fn check(tiny: &Tiny, pooling: &str, pool: impl Fn(&[Vec<f64>]) -> Vec<f64>) {
    let folders = Folders::new(tiny, pooling);
    let embedder = folders.embedder();
    let longest = tiny.shape.tokens - 2;
    let texts: Vec<String> = [1, 2, 7, 7, 30, longest].iter().map(|&words| text(words, words as u64)).collect();
    let all: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (text, row) in all.iter().zip(embedder.embed_documents(&all).unwrap()) {
        let expected = pool(&tiny.states(&ids(text)));
        let found = cosine(&row, &expected);
        assert!(found > 0.999_999, "{:?}, {text:?}: {found}", tiny.shape);
        assert_eq!(embedder.embed_query(text).unwrap(), row);
    }
}

#[test]
fn encoders_give_what_a_plain_forward_pass_gives() {
    for kind in [Kind::Bert, Kind::Roberta, Kind::DistilBert, Kind::MpNet] {
        // Far enough for the last of MPNet's stretches.
        check(&Tiny::new(Shape { kind, tokens: 150, ..SHAPE }), "mean_tokens", mean);
        check(&Tiny::new(Shape { kind, seed: 5, ..SHAPE }), "cls_token", |rows| rows[0].clone());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the shape, the precision of the weights and the names' prefix.
    #[test]
    fn encoders_of_any_shape_give_what_a_plain_forward_pass_gives(
        kind in prop::sample::select(vec![Kind::Bert, Kind::Roberta, Kind::DistilBert, Kind::MpNet]),
        (heads, size, layers, wide) in (1usize..5, 1usize..6, 1usize..4, 1usize..20),
        activation in prop::sample::select(vec!["gelu", "gelu_new", "relu"]),
        dtype in prop::sample::select(vec![Dtype::F32, Dtype::F16, Dtype::BF16]),
        prefix in prop::sample::select(vec!["", "bert."]),
        seed: u64,
    ) {
        // One component has no direction after a norm.
        prop_assume!(heads * size > 1);
        let shape = Shape { kind, heads, size, layers, wide, activation, dtype, prefix, seed, tokens: 70 };
        check(&Tiny::new(shape), "mean_sqrt_len_tokens", mean);
    }
}

#[test]
fn dense_layers_after_the_pooling_are_imported() {
    for (pooling, activation) in [("mean_tokens", "linear.Identity"), ("cls_token", "activation.Tanh")] {
        let tiny = Tiny::new(SHAPE);
        let folders = Folders::new(&tiny, pooling);
        let weight: Vec<f32> = (0..24).map(|i| ((i * 7) % 11) as f32 / 5.0 - 1.0).collect();
        let tensors = BTreeMap::from([
            ("linear.weight".to_owned(), (vec![3, 8], weight.clone())),
            ("linear.bias".to_owned(), (vec![3], vec![0.5, -0.5, 0.25])),
        ]);
        add_dense(&folders.source(), &format!("torch.nn.modules.{activation}"));
        write_tensors(&folders.source().join("2_Dense/model.safetensors"), "", &tensors, Dtype::F32);
        let model = folders.import(&ImportOptions::default()).unwrap();
        assert_eq!(model.identity().dimension, 3);
        let embedder = OnnxEmbedder::new(model).unwrap();
        for words in [1, 9, 40] {
            let text = text(words, 3);
            let states = tiny.states(&ids(&text));
            let pooled = if pooling == "cls_token" { states[0].clone() } else { mean(&states) };
            let expected: Vec<f64> = (0..3)
                .map(|row| {
                    let product: f64 = (0..8).map(|c| f64::from(weight[row * 8 + c]) * pooled[c]).sum();
                    let sum = product + [0.5, -0.5, 0.25][row];
                    if activation.ends_with("Tanh") { sum.tanh() } else { sum }
                })
                .collect();
            let found = cosine(&embedder.embed_query(&text).unwrap(), &expected);
            assert!(found > 0.999_999, "{pooling}, {words} words: {found}");
        }
    }
}

/// Older releases write no `bias`: the layer has one unless the config says that there is none.
#[test]
fn a_dense_layer_whose_config_names_no_bias_needs_one() {
    let folders = Folders::new(&Tiny::new(SHAPE), "mean_tokens");
    add_dense(&folders.source(), "torch.nn.modules.linear.Identity");
    let path = folders.source().join("2_Dense/config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config.as_object_mut().unwrap().remove("bias");
    fs::write(&path, config.to_string()).unwrap();
    let mut tensors = BTreeMap::from([("linear.weight".to_owned(), (vec![3, 8], vec![0.0; 24]))]);
    let weights = folders.source().join("2_Dense/model.safetensors");
    write_tensors(&weights, "", &tensors, Dtype::F32);
    let error = chain(&folders.import(&ImportOptions::default()).unwrap_err());
    assert!(error.contains("linear.bias"), "{error}");
    tensors.insert("linear.bias".to_owned(), (vec![3], vec![0.0, 3.0, 4.0]));
    write_tensors(&weights, "", &tensors, Dtype::F32);
    assert!(cosine(&folders.embedder().embed_query("dog").unwrap(), &[0.0, 0.6, 0.8]) > 0.999_999);
}

fn add_dense(source: &Path, activation: &str) {
    let mut modules: Value = serde_json::from_slice(&fs::read(source.join("modules.json")).unwrap()).unwrap();
    let dense = json!({"path": "2_Dense", "type": "sentence_transformers.models.Dense"});
    let normalize = json!({"path": "3_Normalize", "type": "sentence_transformers.models.Normalize"});
    modules.as_array_mut().unwrap().extend([dense, normalize]);
    write(source, "modules.json", modules);
    let config = json!({"in_features": 8, "out_features": 3, "bias": true, "activation_function": activation});
    write(source, "2_Dense/config.json", config);
}

#[test]
fn the_settings_of_the_folder_are_in_the_manifest() {
    let tiny = Tiny::new(SHAPE);
    let folders = Folders::new(&tiny, "mean_tokens");
    let source = folders.source();
    write(&source, "sentence_bert_config.json", json!({"max_seq_length": 70, "do_lower_case": false}));
    let prompts = json!({"query": "query : ", "passage": "red "});
    write(&source, "config_sentence_transformers.json", json!({"prompts": prompts, "default_prompt_name": null}));
    fs::write(source.join("README.md"), "---\nlanguage: en\nlicense: apache-2.0\n---\nlicense: none\n").unwrap();
    let model = folders.import(&ImportOptions::default()).unwrap();
    let info = model.info().unwrap();
    let ModelInfo { pooling, max_tokens, quantization, dimension, .. } = info;
    assert_eq!((pooling, max_tokens, quantization, dimension), (Pooling::Mean, 70, Quantization::None, 8));
    assert_eq!((info.name.as_str(), info.license.as_str()), ("tiny", "apache-2.0"));
    assert_eq!((info.query_prefix.as_str(), info.document_prefix.as_str()), ("query : ", "red "));
    let embedder = OnnxEmbedder::new(model).unwrap();
    for (vector, whole) in [
        (embedder.embed_query("dog").unwrap(), "query : dog"),
        (embedder.embed_documents(&["dog"]).unwrap().remove(0), "red dog"),
    ] {
        assert!(cosine(&vector, &mean(&tiny.states(&ids(whole)))) > 0.999_999, "{whole}");
    }

    // The same again is the same; what is given says more than the folder.
    let again = folders.import(&ImportOptions::default()).unwrap();
    assert_eq!(again.info().unwrap(), folders.import(&ImportOptions::default()).unwrap().info().unwrap());
    let mut options = ImportOptions::default();
    options.pooling = Some(Pooling::Cls);
    let other = chain(&folders.import(&options).unwrap_err());
    assert!(other.contains("exists and contains another model") && other.contains("delete this one first"), "{other}");
    options.name = Some("given".into());
    options.query_prefix = Some(String::new());
    options.document_prefix = Some("green ".into());
    options.max_tokens = Some(66);
    options.description = Some("d".into());
    options.source = Some("s".into());
    options.license = Some("MIT".into());
    let given = Model::import(&source, folders.folder.path().join("given"), &options).unwrap();
    let info = given.info().unwrap();
    assert_eq!((info.name.as_str(), info.pooling, info.max_tokens), ("given", Pooling::Cls, 66));
    assert_eq!((info.query_prefix.as_str(), info.document_prefix.as_str()), ("", "green "));
    assert_eq!((info.description.as_str(), info.source.as_str(), info.license.as_str()), ("d", "s", "MIT"));
    // Nothing but the models is left.
    let left = |folder: &str| fs::read_dir(folders.folder.path().join(folder)).unwrap().count();
    assert_eq!((left("models"), left(".")), (1, 3));
}

#[test]
fn text_is_made_lower_case_where_the_folder_says_so() {
    let tiny = Tiny::new(SHAPE);
    let folders = Folders::new(&tiny, "mean_tokens");
    // The tokenizer itself does not.
    write(&folders.source(), "tokenizer_config.json", json!({"do_lower_case": false}));
    write(&folders.source(), "sentence_bert_config.json", json!({"max_seq_length": 80, "do_lower_case": true}));
    let vector = folders.embedder().embed_query("RED Dog").unwrap();
    assert!(cosine(&vector, &mean(&tiny.states(&ids("red dog")))) > 0.999_999);
}

#[test]
fn the_graph_of_a_folder_is_taken_as_it_is() {
    let bundled = root("models/static-en-256");
    let texts = ["the canal boat", "", "🙂"];
    let expected = OnnxEmbedder::new(Model::bundled()).unwrap().embed_documents(&texts).unwrap();
    for (layout, graph) in
        [("model.onnx", None), ("onnx/model.onnx", None), ("onnx/model_b.onnx", Some("onnx/model_b.onnx"))]
    {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir_all(source.join("onnx")).unwrap();
        fs::copy(bundled.join("model.onnx"), source.join(layout)).unwrap();
        if graph.is_some() {
            fs::write(source.join("onnx/model_a.onnx"), "another").unwrap();
        }
        for file in ["tokenizer.json", "config.json", "tokenizer_config.json"] {
            fs::copy(bundled.join(file), source.join(file)).unwrap();
        }
        let mut options = ImportOptions::default();
        let import = |options: &ImportOptions| Model::import(&source, folder.path().join("there"), options);
        if graph.is_some() {
            let which = chain(&import(&options).unwrap_err());
            let wanted = "several graphs or weights: onnx/model_a.onnx, onnx/model_b.onnx; set the option `graph`";
            assert!(which.contains(wanted), "{which}");
        }
        options.graph = graph.map(Into::into);
        // What a killed import left, what another one is writing, and a folder of the user's.
        let [left, held, mine] = [
            ".there.import-0192f0a1b2c37def8123456789abcdef",
            ".there.import-0192f0a1b2c37def8123456789abcde0",
            ".there.import-mine",
        ]
        .map(|name| folder.path().join(name));
        [&left, &held, &mine].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let holder = fs::File::open(&held).unwrap();
        holder.lock().unwrap();
        let model = import(&options).unwrap();
        #[cfg(unix)]
        assert_eq!([&left, &held, &mine].map(|folder| folder.exists()), [false, true, true]);
        let info = model.info().unwrap();
        assert_eq!((info.max_tokens, info.pooling), (512, Pooling::None), "its output has a row a text");
        assert_eq!(model.verify().unwrap(), [""; 0]);
        assert_eq!(OnnxEmbedder::new(model).unwrap().embed_documents(&texts).unwrap(), expected, "{layout}");
    }
}

#[test]
fn a_folder_with_graph_and_weights_is_imported_from_the_named_file() {
    let folders = Folders::new(&Tiny::new(SHAPE), "mean_tokens");
    let built = folders.import(&ImportOptions::default()).unwrap();
    let (source, to) = (folders.source(), folders.folder.path());
    fs::create_dir(source.join("onnx")).unwrap();
    fs::copy(to.join("models/tiny/model.onnx"), source.join("onnx/model_quantized.onnx")).unwrap();
    let mut options = ImportOptions::default();
    let unsaid = chain(&Model::import(&source, to.join("a"), &options).unwrap_err());
    assert!(unsaid.contains("onnx/model_quantized.onnx, model.safetensors; set the option `graph`"), "{unsaid}");
    options.name = Some("tiny".into());
    for (graph, place) in [("onnx/model_quantized.onnx", "a"), ("model.safetensors", "b")] {
        options.graph = Some(graph.into());
        let model = Model::import(&source, to.join(place), &options).unwrap();
        assert_eq!(model.info().unwrap().files, built.info().unwrap().files, "{graph}");
        // Whether a graph that was read has the weights beside it is not known.
        assert_eq!(model.identity() == built.identity(), graph == "model.safetensors", "{graph}");
    }
}

#[test]
fn a_graph_of_tokens_does_not_say_how_they_are_pooled() {
    let root = crate::support::root("");
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::copy(root.join("tests/it/fixtures/encoder.onnx"), source.join("model.onnx")).unwrap();
    for file in ["tokenizer.json", "config.json", "tokenizer_config.json"] {
        fs::copy(root.join("models/static-en-256").join(file), source.join(file)).unwrap();
    }
    let mut options = ImportOptions::default();
    let unsaid = chain(&Model::import(&source, folder.path().join("there"), &options).unwrap_err());
    assert!(unsaid.contains("set the option `pooling` to mean, cls or last_token"), "{unsaid}");
    options.pooling = Some(Pooling::Mean);
    let model = Model::import(&source, folder.path().join("there"), &options).unwrap();
    assert_eq!(model.info().unwrap().dimension, 16);
}

#[test]
fn the_named_output_is_used() {
    let root = crate::support::root("");
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::copy(root.join("tests/it/fixtures/encoder_two.onnx"), source.join("model.onnx")).unwrap();
    fs::copy(root.join("models/static-en-256/tokenizer.json"), source.join("tokenizer.json")).unwrap();
    let mut options = ImportOptions::default();
    options.pooling = Some(Pooling::Mean);
    let unsaid = chain(&Model::import(&source, folder.path().join("there"), &options).unwrap_err());
    assert!(
        unsaid.contains("its outputs are [\"pooled\", \"tokens\"]") && unsaid.contains("set the option `output`"),
        "{unsaid}"
    );
    // One has a row a text, whatever is said of tokens; of the other the mean is taken, which is the same here.
    let rows = [("pooled", Pooling::None), ("tokens", Pooling::Mean)].map(|(output, pooling)| {
        options.output = Some(output.into());
        let model = Model::import(&source, folder.path().join(output), &options).unwrap();
        let info = model.info().unwrap();
        assert_eq!((info.output.as_deref(), info.pooling, info.dimension), (Some(output), pooling, 16));
        assert_eq!(model.verify().unwrap(), [""; 0]);
        OnnxEmbedder::new(model).unwrap().embed_query("the canal boat").unwrap()
    });
    let same: f32 = rows[0].iter().zip(&rows[1]).map(|(a, b)| a * b).sum();
    assert!(same > 0.999_999, "{same}");
}

#[test]
fn a_graph_of_eight_bits_is_recognised() {
    let folder = root("models/all-MiniLM-L6-v2-int8");
    if !folder.join("model.onnx").is_file() {
        return skipped("a_graph_of_eight_bits_is_recognised: run `make model-minilm`");
    }
    let to = tempfile::tempdir().unwrap();
    let mut options = ImportOptions::default();
    options.pooling = Some(Pooling::Mean);
    let model = Model::import(&folder, to.path().join("int8"), &options).unwrap();
    assert_eq!(model.info().unwrap().quantization, Quantization::Static);
}

#[test]
fn a_folder_that_cannot_be_imported_is_an_error_that_names_the_fault() {
    type Damage<'d> = &'d dyn Fn(&Path);
    let config = |source: &Path, key: &str, value: Value| {
        let mut config: Value = serde_json::from_slice(&fs::read(source.join("config.json")).unwrap()).unwrap();
        config[key] = value;
        write(source, "config.json", config);
    };
    let modules = |source: &Path, modules: &[(&str, &str)]| {
        let modules: Vec<Value> = modules.iter().map(|(path, kind)| json!({"path": path, "type": kind})).collect();
        write(source, "modules.json", modules.into());
    };
    let pooling = |source: &Path, way: &str| write(source, "1_Pooling/config.json", pooling_config(way));
    let rows: &[(Damage, &str)] = &[
        (&|s| pooling(s, "max_tokens"), "pooling by max_tokens is not supported; mean, cls and last token are"),
        (&|s| pooling(s, "cls_token+mean_tokens"), "pooling by cls_token and mean_tokens is not"),
        (&|s| pooling(s, "weightedmean_tokens"), "weightedmean_tokens"),
        (&|s| pooling(s, ""), "pooling by no mode"),
        (&|s| fs::remove_file(s.join("1_Pooling/config.json")).unwrap(), "1_Pooling: config.json is missing"),
        (&|s| fs::remove_file(s.join("modules.json")).unwrap(), "set the option `pooling` to mean, cls or last_token"),
        (&|s| fs::write(s.join("modules.json"), "[").unwrap(), "modules.json: EOF"),
        (&|s| modules(s, &[("", "m.Transformer"), ("1_Pooling", "m.Pooling"), ("2", "m.CNN")]), "CNN as module 2"),
        (&|s| modules(s, &[("", "m.StaticEmbedding")]), "StaticEmbedding as module 0 is not supported"),
        (&|s| modules(s, &[("../elsewhere", "m.Transformer")]), "is not a folder inside the model folder"),
        (&|s| config(s, "model_type", "gpt2".into()), "model_type is \"gpt2\""),
        (&|s| config(s, "auto_map", json!({"AutoModel": "own.py"})), "custom code of the model"),
        (&|s| config(s, "architectures", json!(["BertForSequenceClassification"])), "a classifier or a reranker"),
        (&|s| config(s, "is_decoder", true.into()), "decoder"),
        (&|s| config(s, "position_embedding_type", "alibi".into()), "position_embedding_type is \"alibi\""),
        (&|s| config(s, "hidden_act", "swish".into()), "hidden_act \"swish\""),
        (&|s| config(s, "hidden_size", 9.into()), "not a multiple of the 2 attention heads"),
        (&|s| config(s, "hidden_size", 10.into()), "has the shape"),
        (&|s| config(s, "hidden_size", 0.into()), "hidden_size is 0"),
        (&|s| config(s, "num_attention_heads", Value::Null), "no num_attention_heads"),
        (&|s| config(s, "num_hidden_layers", 1.into()), "tensors do not belong to the model"),
        (&|s| config(s, "num_hidden_layers", 3.into()), "tensor \"encoder.layer.2."),
        (
            &|s| fs::write(s.join("model.safetensors"), b"\xff\xff\xff\xff\xff\xff\xff\x7f{}").unwrap(),
            "not a safetensors file",
        ),
        (&|s| fs::remove_file(s.join("model.safetensors")).unwrap(), "optimum-cli export onnx"),
        (
            &|s| fs::rename(s.join("model.safetensors"), s.join("pytorch_model.bin")).unwrap(),
            "a pickle, which is not supported",
        ),
        (&|s| Tiny::new(Shape { dtype: Dtype::F64, ..SHAPE }).write(s, "mean_tokens"), "has the type F64"),
        (
            &|s| Tiny::new(Shape { kind: Kind::MpNet, tokens: 5000, ..SHAPE }).write(s, "mean_tokens"),
            "has rows for 5000 tokens; an MPNet may have at most 4096",
        ),
        (&|s| fs::remove_file(s.join("vocab.txt")).unwrap(), "save it with `AutoTokenizer"),
        (&|s| fs::write(s.join("vocab.txt"), "red\n").unwrap(), "token [CLS] is missing"),
        (&|s| fs::write(s.join("tokenizer.json"), "{}").unwrap(), "not a valid tokenizer"),
        (&|s| fs::write(s.join("model.onnx"), "no graph").unwrap(), "model.onnx is not an ONNX file"),
        (&|s| fs::write(s.join("model.onnx"), "").unwrap(), "it has no graph"),
        (
            &|s| {
                let vocabulary = fs::read_to_string(s.join("vocab.txt")).unwrap();
                fs::write(s.join("vocab.txt"), format!("{vocabulary}sheep\n")).unwrap();
            },
            "tokens up to number 17, but model.onnx has rows for 17",
        ),
        (
            &|s| {
                write(s, "config_sentence_transformers.json", json!({"prompts": {"query": "query :"}}));
                let mut config = pooling_config("mean_tokens");
                config["include_prompt"] = false.into();
                write(s, "1_Pooling/config.json", config);
            },
            "include_prompt = false",
        ),
        (&|s| add_dense(s, "torch.nn.modules.activation.ReLU"), "is not Identity or Tanh"),
        (&|s| add_dense(s, "torch.nn.modules.activation.Tanh"), "tanh after a mean is not supported"),
    ];
    for (damage, reason) in rows {
        let folders = Folders::new(&Tiny::new(SHAPE), "mean_tokens");
        damage(&folders.source());
        let error = folders.import(&ImportOptions::default()).unwrap_err();
        let text = chain(&error);
        assert!(matches!(error, Error::InvalidModel { .. }) && text.contains(reason), "{reason}: {text}");
        assert!(!text.contains(".import-"), "the temporary folder is named: {text}");
        let models = folders.folder.path().join("models");
        assert!(!models.exists() || models.read_dir().unwrap().count() == 0, "{reason}: something is left");
    }
}

#[test]
fn wrong_import_options_are_errors() {
    let folders = Folders::new(&Tiny::new(SHAPE), "mean_tokens");
    let fails = |change: &dyn Fn(&mut ImportOptions), reason: &str| {
        let mut options = ImportOptions::default();
        change(&mut options);
        let text = chain(&folders.import(&options).unwrap_err());
        assert!(text.contains(reason), "{reason}: {text}");
    };
    fails(&|options| options.max_tokens = Some(81), "max_tokens is 81, but the model takes at most 80");
    fails(&|options| options.max_tokens = Some(20), "leave 20 tokens");
    fails(&|options| options.dimension = Some(0), "dimension 0 is not within");
    fails(&|options| options.pooling = Some(Pooling::None), "set a pooling other than none");
    fails(&|options| options.graph = Some("other.onnx".into()), "other.onnx is missing");
    fails(&|options| options.output = Some("logits".into()), "has the output \"last_hidden_state\" alone");
    for name in ["", "..", "a/b", "a\\b"] {
        fails(&|options| options.name = Some(name.into()), "cannot be the name of a folder");
    }
    let nowhere = Model::import(folders.folder.path().join("no"), folders.folder.path().join("m"), &Default::default());
    assert!(chain(&nowhere.unwrap_err()).contains("no such folder"));
    let taken = Model::import(folders.source(), folders.source(), &Default::default());
    assert!(chain(&taken.unwrap_err()).contains("is not a model folder"));
}
