//! Tiny random encoders: a folder as sentence-transformers writes it, and a plain forward pass in f64 that shares
//! nothing with the crate's graphs.

use std::{collections::BTreeMap, fs, path::Path};

use half::{bf16, f16};
use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};

use super::random;

/// Numbers of the special tokens, and the words after them.
const SPECIAL: [&str; 5] = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"];
pub(crate) const WORDS: [&str; 12] =
    ["red", "blue", "green", "dog", "cat", "horse", "house", "tree", "river", "runs", "query", ":"];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Bert,
    Roberta,
    DistilBert,
    MpNet,
}

#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    pub(crate) heads: usize,
    /// Components of a head.
    pub(crate) size: usize,
    pub(crate) layers: usize,
    pub(crate) wide: usize,
    /// Tokens that it takes.
    pub(crate) tokens: usize,
    pub(crate) activation: &'static str,
    pub(crate) dtype: Dtype,
    /// Stands before all names.
    pub(crate) prefix: &'static str,
    pub(crate) seed: u64,
}

pub(crate) const SHAPE: Shape = Shape {
    kind: Kind::Bert,
    heads: 2,
    size: 4,
    layers: 2,
    wide: 12,
    tokens: 80,
    activation: "gelu",
    dtype: Dtype::F32,
    prefix: "",
    seed: 1,
};

pub(crate) struct Tiny {
    pub(crate) shape: Shape,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

/// The names of a layer's parts: query, key, value, output, norm, up, down, norm.
fn parts(kind: Kind) -> [&'static str; 8] {
    match kind {
        Kind::Bert | Kind::Roberta => [
            "attention.self.query",
            "attention.self.key",
            "attention.self.value",
            "attention.output.dense",
            "attention.output.LayerNorm",
            "intermediate.dense",
            "output.dense",
            "output.LayerNorm",
        ],
        Kind::DistilBert => [
            "attention.q_lin",
            "attention.k_lin",
            "attention.v_lin",
            "attention.out_lin",
            "sa_layer_norm",
            "ffn.lin1",
            "ffn.lin2",
            "output_layer_norm",
        ],
        Kind::MpNet => [
            "attention.attn.q",
            "attention.attn.k",
            "attention.attn.v",
            "attention.attn.o",
            "attention.LayerNorm",
            "intermediate.dense",
            "output.dense",
            "output.LayerNorm",
        ],
    }
}

impl Shape {
    fn hidden(&self) -> usize {
        self.heads * self.size
    }

    /// The number of the first token's place.
    fn first_place(&self) -> usize {
        if matches!(self.kind, Kind::Roberta | Kind::MpNet) { 2 } else { 0 }
    }

    fn layer(&self, layer: usize) -> String {
        let layers = if self.kind == Kind::DistilBert { "transformer" } else { "encoder" };
        format!("{layers}.layer.{layer}")
    }
}

impl Tiny {
    pub(crate) fn new(shape: Shape) -> Self {
        let mut tiny = Tiny { shape: shape.clone(), tensors: BTreeMap::new() };
        let hidden = shape.hidden();
        let mut state = shape.seed;
        let mut add = |name: &str, dimensions: &[usize], scale: f32, middle: f32| {
            let rounded = |value: f32| match shape.dtype {
                Dtype::F16 => f16::from_f32(value).to_f32(),
                Dtype::BF16 => bf16::from_f32(value).to_f32(),
                _ => value,
            };
            let count = dimensions.iter().product();
            let values = (0..count).map(|_| rounded(middle + scale * random(&mut state))).collect();
            tiny.tensors.insert(name.to_owned(), (dimensions.to_vec(), values));
        };
        add("embeddings.word_embeddings.weight", &[SPECIAL.len() + WORDS.len(), hidden], 1.0, 0.0);
        add("embeddings.position_embeddings.weight", &[shape.tokens + shape.first_place(), hidden], 1.0, 0.0);
        match shape.kind {
            Kind::Bert => add("embeddings.token_type_embeddings.weight", &[2, hidden], 1.0, 0.0),
            Kind::Roberta => add("embeddings.token_type_embeddings.weight", &[1, hidden], 1.0, 0.0),
            Kind::MpNet => add("encoder.relative_attention_bias.weight", &[32, shape.heads], 2.0, 0.0),
            Kind::DistilBert => {}
        }
        let mut norms = vec!["embeddings.LayerNorm".to_owned()];
        for layer in 0..shape.layers {
            let [q, k, v, o, norm, up, down, last] =
                parts(shape.kind).map(|part| format!("{}.{part}", shape.layer(layer)));
            for (name, to, from) in
                [(&q, hidden, hidden), (&k, hidden, hidden), (&v, hidden, hidden), (&o, hidden, hidden)]
                    .into_iter()
                    .chain([(&up, shape.wide, hidden), (&down, hidden, shape.wide)])
            {
                add(&format!("{name}.weight"), &[to, from], 0.7, 0.0);
                add(&format!("{name}.bias"), &[to], 0.3, 0.0);
            }
            norms.extend([norm, last]);
        }
        for norm in norms {
            add(&format!("{norm}.weight"), &[hidden], 0.3, 1.0);
            add(&format!("{norm}.bias"), &[hidden], 0.3, 0.0);
        }
        // What a pooler has is in the file, and is not asked for.
        add("pooler.dense.weight", &[hidden, hidden], 1.0, 0.0);
        tiny
    }

    pub(crate) fn config(&self) -> Value {
        let shape = &self.shape;
        let places = shape.tokens + shape.first_place();
        let (hidden, heads, layers) = (shape.hidden(), shape.heads, shape.layers);
        match shape.kind {
            Kind::DistilBert => json!({
                "model_type": "distilbert", "dim": hidden, "n_heads": heads, "n_layers": layers,
                "hidden_dim": shape.wide, "activation": shape.activation, "max_position_embeddings": places,
            }),
            kind => json!({
                "model_type": match kind { Kind::Bert => "bert", Kind::Roberta => "xlm-roberta", _ => "mpnet" },
                "hidden_size": hidden, "num_attention_heads": heads, "num_hidden_layers": layers,
                "intermediate_size": shape.wide, "hidden_act": shape.activation, "layer_norm_eps": self.epsilon(),
                "max_position_embeddings": places, "pad_token_id": 1, "position_embedding_type": "absolute",
            }),
        }
    }

    fn epsilon(&self) -> f64 {
        if self.shape.kind == Kind::DistilBert { 1e-12 } else { 1e-3 }
    }

    /// Writes the folder as sentence-transformers does, with this pooling, and with `vocab.txt` in place of
    /// `tokenizer.json`.
    pub(crate) fn write(&self, folder: &Path, pooling: &str) {
        write(folder, "config.json", self.config());
        write(folder, "tokenizer_config.json", json!({"do_lower_case": true, "model_max_length": 1e30}));
        let vocabulary: String = SPECIAL.iter().chain(&WORDS).map(|word| format!("{word}\n")).collect();
        fs::write(folder.join("vocab.txt"), vocabulary).unwrap();
        let module =
            |path: &str, kind: &str| json!({"path": path, "type": format!("sentence_transformers.models.{kind}")});
        write(folder, "modules.json", json!([module("", "Transformer"), module("1_Pooling", "Pooling")]));
        write(folder, "1_Pooling/config.json", pooling_config(pooling));
        write_tensors(&folder.join("model.safetensors"), self.shape.prefix, &self.tensors, self.shape.dtype);
    }

    /// Rows of the last hidden state.
    pub(crate) fn states(&self, ids: &[usize]) -> Vec<Vec<f64>> {
        let shape = &self.shape;
        let words = self.rows("embeddings.word_embeddings.weight");
        let places = self.rows("embeddings.position_embeddings.weight");
        let mut x: Vec<Vec<f64>> = Vec::new();
        for (place, &id) in ids.iter().enumerate() {
            let mut row = sum(&words[id], &places[place + shape.first_place()]);
            if matches!(shape.kind, Kind::Bert | Kind::Roberta) {
                row = sum(&row, &self.rows("embeddings.token_type_embeddings.weight")[0]);
            }
            x.push(self.norm(&row, "embeddings.LayerNorm"));
        }
        for layer in 0..shape.layers {
            let [q, k, v, o, norm, up, down, last] =
                parts(shape.kind).map(|part| format!("{}.{part}", shape.layer(layer)));
            let [q, k, v] = [q, k, v].map(|name| x.iter().map(|row| self.linear(row, &name)).collect::<Vec<_>>());
            let mut next = Vec::new();
            for (i, row) in x.iter().enumerate() {
                let mut mixed = Vec::new();
                for head in 0..shape.heads {
                    let part = head * shape.size..(head + 1) * shape.size;
                    let scores: Vec<f64> = (0..x.len())
                        .map(|j| {
                            let product = dot(&q[i][part.clone()], &k[j][part.clone()]) / (shape.size as f64).sqrt();
                            product + self.distance(i, j, head)
                        })
                        .collect();
                    let most = scores.iter().copied().fold(f64::MIN, f64::max);
                    let shares: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
                    let total: f64 = shares.iter().sum();
                    mixed.extend(
                        part.map(|c| shares.iter().zip(&v).map(|(share, value)| share * value[c]).sum::<f64>() / total),
                    );
                }
                let attended = self.norm(&sum(&self.linear(&mixed, &o), row), &norm);
                let raised: Vec<f64> = self.linear(&attended, &up).into_iter().map(|x| self.activate(x)).collect();
                next.push(self.norm(&sum(&self.linear(&raised, &down), &attended), &last));
            }
            x = next;
        }
        x
    }

    /// MPNet's: by the sign of the distance, one term for each up to 7, then for stretches whose borders these are.
    fn distance(&self, from: usize, to: usize, head: usize) -> f64 {
        if self.shape.kind != Kind::MpNet {
            return 0.0;
        }
        const BORDERS: [usize; 8] = [8, 12, 16, 23, 32, 46, 64, 91];
        let distance = from.abs_diff(to);
        let stretch = distance.min(7) + BORDERS.iter().filter(|&&border| distance >= border).count();
        let after = if to > from { 16 } else { 0 };
        self.rows("encoder.relative_attention_bias.weight")[after + stretch][head]
    }

    fn activate(&self, x: f64) -> f64 {
        match self.shape.activation {
            "relu" => x.max(0.0),
            "gelu_new" => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
            _ => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
        }
    }

    fn rows(&self, name: &str) -> Vec<Vec<f64>> {
        let (shape, values) = &self.tensors[name];
        values.chunks(*shape.last().unwrap()).map(|row| row.iter().copied().map(f64::from).collect()).collect()
    }

    fn linear(&self, x: &[f64], name: &str) -> Vec<f64> {
        let bias = &self.rows(&format!("{name}.bias"))[0];
        self.rows(&format!("{name}.weight")).iter().zip(bias).map(|(row, bias)| dot(row, x) + bias).collect()
    }

    fn norm(&self, x: &[f64], name: &str) -> Vec<f64> {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        let (weight, bias) = (&self.rows(&format!("{name}.weight"))[0], &self.rows(&format!("{name}.bias"))[0]);
        let scaled = |x: &f64| (x - mean) / (variance + self.epsilon()).sqrt();
        x.iter().zip(weight.iter().zip(bias)).map(|(x, (weight, bias))| scaled(x) * weight + bias).collect()
    }
}

/// The ids of a text of [`WORDS`], special tokens around them.
pub(crate) fn ids(text: &str) -> Vec<usize> {
    let id = |word: &str| SPECIAL.iter().chain(&WORDS).position(|known| *known == word).unwrap();
    let words = text.split_whitespace().map(id);
    std::iter::once(id("[CLS]")).chain(words).chain([id("[SEP]")]).collect()
}

/// A seeded text of so many words.
pub(crate) fn text(words: usize, seed: u64) -> String {
    let mut state = seed;
    let word = |_| WORDS[((random(&mut state) + 1.0) * 5.0) as usize % 10];
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}

pub(crate) fn mean(rows: &[Vec<f64>]) -> Vec<f64> {
    (0..rows[0].len()).map(|c| rows.iter().map(|row| row[c]).sum::<f64>() / rows.len() as f64).collect()
}

/// The cosine of a vector of the crate, which is of unit length, and another.
pub(crate) fn cosine(vector: &[f32], expected: &[f64]) -> f64 {
    let vector: Vec<f64> = vector.iter().copied().map(f64::from).collect();
    dot(&vector, expected) / dot(expected, expected).sqrt()
}

pub(crate) fn pooling_config(way: &str) -> Value {
    let ways = ["cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"];
    let mut config = json!({"word_embedding_dimension": 8});
    for known in ways {
        config[format!("pooling_mode_{known}")] = (way.split('+').any(|way| way == known)).into();
    }
    config
}

pub(crate) fn write(folder: &Path, file: &str, value: Value) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, value.to_string()).unwrap();
}

pub(crate) fn write_tensors(
    path: &Path,
    prefix: &str,
    tensors: &BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    dtype: Dtype,
) {
    let bytes = |values: &[f32]| -> Vec<u8> {
        match dtype {
            Dtype::F16 => values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect(),
            Dtype::BF16 => values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect(),
            Dtype::F64 => values.iter().flat_map(|value| f64::from(*value).to_le_bytes()).collect(),
            _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    };
    let data: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, (shape, values))| (format!("{prefix}{name}"), shape.clone(), bytes(values)))
        .collect();
    let views = data.iter().map(|(name, shape, bytes)| (name, TensorView::new(dtype, shape.clone(), bytes).unwrap()));
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The error function, by its power series: enough for the small values here.
fn erf(x: f64) -> f64 {
    let (mut term, mut total) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        total += term / f64::from(2 * n + 1);
    }
    (2.0 / std::f64::consts::PI.sqrt() * total).clamp(-1.0, 1.0)
}
