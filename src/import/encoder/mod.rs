//! Builds the ONNX graph of a BERT-like encoder from weights that come without a graph, equivalent to a PyTorch export,
//! with standard operators only.
//!
//! The reference implementations are the models of Hugging Face's `transformers`: BERT (J. Devlin et al., arXiv
//! 1810.04805), RoBERTa (arXiv 1907.11692) with its multilingual and French variants, DistilBERT (arXiv 1910.01108),
//! MPNet (arXiv 2004.09297). `family` describes their differences; `tensors` reads weights and writes the graph.

pub(super) mod family;
mod tensors;

use self::{
    family::{Family, TokenTypes},
    tensors::{Fault, GraphWriter, Weights},
};
use super::description::{ConfigJson, DenseLayer};
use crate::onnx::graph::proto::{AttributeProto, FLOAT, INT64, ModelProto};

/// The maximum bytes of the weights: the 2 GB limit of a protocol buffer, less the room for the rest of the graph.
const MAX_BYTES: usize = i32::MAX as usize - (1 << 20);

/// The number of MPNet's buckets of distances between tokens. Each has a term that is added to the attention scores.
const DISTANCE_BUCKETS: usize = 32;
/// The maximum number of tokens of a model with distance terms. MPNet has 512. The graph contains a table with the bucket
/// of each pair of positions, which takes 134 MB for this many tokens.
const MAX_TOKENS_WITH_DISTANCES: usize = 4096;
/// All larger distances share one bucket.
const MAX_DISTANCE: f32 = 128.0;

const WORDS: &str = "embeddings.word_embeddings.weight";
const POSITIONS: &str = "embeddings.position_embeddings.weight";
const TYPES: &str = "embeddings.token_type_embeddings.weight";
const DISTANCES: &str = "encoder.relative_attention_bias.weight";

/// An encoder as a graph.
pub(super) struct Encoder {
    pub(super) model: ModelProto,
    /// The maximum number of tokens of a text, special tokens included.
    pub(super) max_tokens: usize,
    /// The number of components of a token's state.
    pub(super) width: usize,
}

/// Builds the encoder of these weights, with the layers `dense` applied to the state of each token.
///
/// These layers belong after the pooling. Applied before it they give the same result if the pooling picks one token, or
/// if it is a mean and the layer is linear. The caller checks that.
pub(super) fn build(config: &ConfigJson, weights: &[u8], dense: &[DenseLayer]) -> Result<Encoder, Fault> {
    let family = family::of(config)?;
    let weights = Weights::new(weights, WORDS).map_err(|fault| format!("model.safetensors: {fault}"))?;
    let bytes = weights.count().saturating_mul(size_of::<f32>());
    if bytes > MAX_BYTES {
        return Err(format!(
            "model.safetensors: the weights take {bytes} bytes in f32, more than an ONNX file holds ({MAX_BYTES}); export the model with \
             `optimum-cli export onnx`, which writes them to a separate file"
        ));
    }
    let hidden = config.size(&["hidden_size", "dim"])?;
    let heads = config.size(&["num_attention_heads", "n_heads"])?;
    if hidden % heads != 0 {
        return Err(format!("config.json: hidden_size {hidden} is not a multiple of the {heads} attention heads"));
    }
    let builder = EncoderBuilder {
        family,
        weights: &weights,
        graph: GraphWriter::default(),
        hidden,
        heads,
        padding: family::padding(config),
        epsilon: config.float("layer_norm_eps").unwrap_or(1e-12),
        activation: Activation::named(config.text("hidden_act").or_else(|| config.text("activation")))?,
    };
    let layers = config.size(&["num_hidden_layers", "n_layers"])?;
    builder.build(layers, dense).map_err(|fault| format!("model.safetensors: {fault}"))
}

/// The activation function between the two matrices of a feed-forward network.
#[derive(Clone, Copy)]
enum Activation {
    Gelu,
    GeluTanh,
    Relu,
}

impl Activation {
    fn named(name: Option<&str>) -> Result<Self, Fault> {
        match name {
            None | Some("gelu") => Ok(Activation::Gelu),
            Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast") => Ok(Activation::GeluTanh),
            Some("relu") => Ok(Activation::Relu),
            Some(other) => Err(format!("config.json: hidden_act {other:?} is not gelu, gelu_new or relu")),
        }
    }
}

struct EncoderBuilder<'w> {
    family: &'static Family,
    weights: &'w Weights<'w>,
    graph: GraphWriter,
    hidden: usize,
    heads: usize,
    padding: usize,
    epsilon: f32,
    activation: Activation,
}

impl EncoderBuilder<'_> {
    fn build(mut self, layers: usize, dense: &[DenseLayer]) -> Result<Encoder, Fault> {
        let positions = rows(&self.weights.shape(POSITIONS)?)?;
        let first_position = if self.family.positions_after_padding { self.padding.saturating_add(1) } else { 0 };
        let max_tokens = positions.checked_sub(first_position).filter(|&tokens| tokens > 0);
        let max_tokens = max_tokens.ok_or_else(|| format!("{POSITIONS:?} has {positions} rows, too few for a text"))?;

        let mut states = self.embeddings(positions)?;
        let mut added = vec![self.mask()];
        if self.family.distances {
            added.push(self.distances(max_tokens)?);
        }
        for layer in 0..layers {
            states = self.layer(&format!("{}.{layer}", self.family.layers), &states, &added)?;
        }
        let unused = self.weights.unused(&["embeddings.", "encoder.", "transformer."]);
        if let Some(first) = unused.first() {
            return Err(format!(
                "{first:?} and {} more tensors do not belong to the model that config.json describes",
                unused.len() - 1
            ));
        }
        let mut width = self.hidden;
        for (index, dense) in dense.iter().enumerate() {
            states = self.dense(index, &states, width, dense)?;
            width = dense.width;
        }
        let inputs = ["input_ids", "attention_mask", "token_type_ids"];
        let inputs = &inputs[..if self.family.types == TokenTypes::Input { 3 } else { 2 }];
        let model = self.graph.into_model(inputs, "last_hidden_state", width);
        Ok(Encoder { model, max_tokens, width })
    }

    /// Builds the normalized sum of the word, position and type embeddings.
    fn embeddings(&mut self, positions: usize) -> Result<String, Fault> {
        let words = self.table(WORDS, rows(&self.weights.shape(WORDS)?)?)?;
        let words = self.graph.node("Gather", &[&words, "input_ids"]);
        let numbers = if self.family.positions_after_padding {
            self.positions_without_padding()
        } else {
            self.positions_in_order(positions)
        };
        let table = self.table(POSITIONS, positions)?;
        let positions = self.graph.node("Gather", &[&table, &numbers]);
        let mut sum = words;
        if self.family.types != TokenTypes::None {
            let types = self.table(TYPES, rows(&self.weights.shape(TYPES)?)?)?;
            let which = match self.family.types {
                TokenTypes::Input => "token_type_ids".to_owned(),
                _ => self.graph.ints("first_type", &[1, 1], &[0]),
            };
            let types = self.graph.node("Gather", &[&types, &which]);
            sum = self.graph.node("Add", &[&sum, &types]);
        }
        let sum = self.graph.node("Add", &[&sum, &positions]);
        self.norm(&sum, "embeddings.LayerNorm")
    }

    /// Builds the positions 0, 1, 2 and so on of the tokens: `[1, sequence]`.
    fn positions_in_order(&mut self, positions: usize) -> String {
        let numbers: Vec<i64> = (0..positions as i64).collect();
        let numbers = self.graph.ints("position_ids", &[1, positions], &numbers);
        let length = self.length();
        let (zero, one) = (self.axis(0), self.axis(1));
        self.graph.node("Slice", &[&numbers, &zero, &length, &one])
    }

    /// Builds the number of tokens: `[1]`.
    fn length(&mut self) -> String {
        let shape = self.graph.node("Shape", &["input_ids"]);
        let one = self.graph.ints("one", &[], &[1]);
        let length = self.graph.node_with("Gather", &[&shape, &one], vec![AttributeProto::int("axis", 0)]);
        let zero = self.axis(0);
        self.graph.node("Unsqueeze", &[&length, &zero])
    }

    /// Builds positions that begin after the padding's id and do not count padding: `[batch, sequence]`.
    fn positions_without_padding(&mut self) -> String {
        let padding = self.graph.ints("padding", &[], &[self.padding as i64]);
        let is_padding = self.graph.node("Equal", &["input_ids", &padding]);
        let is_token = self.graph.node("Not", &[&is_padding]);
        let is_token = self.graph.node_with("Cast", &[&is_token], vec![AttributeProto::int("to", INT64.into())]);
        let one = self.graph.ints("one", &[], &[1]);
        let count = self.graph.node("CumSum", &[&is_token, &one]);
        let count = self.graph.node("Mul", &[&count, &is_token]);
        self.graph.node("Add", &[&count, &padding])
    }

    /// Builds the attention mask `[batch, 1, 1, sequence]`: 0 for tokens, and -10000 for padding, whose exponential is
    /// exactly 0 in f32.
    fn mask(&mut self) -> String {
        let (one, two) = (self.axis(1), self.axis(2));
        let mask = self.graph.node("Unsqueeze", &["attention_mask", &one]);
        let mask = self.graph.node("Unsqueeze", &[&mask, &two]);
        let mask = self.graph.node_with("Cast", &[&mask], vec![AttributeProto::int("to", FLOAT.into())]);
        let one = self.graph.floats("f_one", &[], &[1.0]);
        let mask = self.graph.node("Sub", &[&one, &mask]);
        let far = self.graph.floats("f_mask", &[], &[-10_000.0]);
        self.graph.node("Mul", &[&mask, &far])
    }

    /// Builds MPNet's terms for the distance between two tokens: `[1, heads, sequence, sequence]`.
    fn distances(&mut self, max_tokens: usize) -> Result<String, Fault> {
        if max_tokens > MAX_TOKENS_WITH_DISTANCES {
            return Err(format!(
                "{POSITIONS:?} has rows for {max_tokens} tokens; an MPNet may have at most {MAX_TOKENS_WITH_DISTANCES}"
            ));
        }
        let shape = [DISTANCE_BUCKETS, self.heads];
        let values = self.weights.get(DISTANCES, &shape)?;
        let table = self.graph.floats(DISTANCES, &shape, &values);
        let tokens = max_tokens as i64;
        let numbers: Vec<i64> =
            (0..tokens).flat_map(|from| (0..tokens).map(move |to| distance_bucket(to - from))).collect();
        let numbers = self.graph.ints("distance_buckets", &[max_tokens, max_tokens], &numbers);
        let length = self.length();
        let (zero, one) = (self.axis(0), self.axis(1));
        let numbers = self.graph.node("Slice", &[&numbers, &zero, &length, &zero]);
        let numbers = self.graph.node("Slice", &[&numbers, &zero, &length, &one]);
        let terms = self.graph.node("Gather", &[&table, &numbers]);
        let terms = self.graph.node_with("Transpose", &[&terms], vec![AttributeProto::ints("perm", &[2, 0, 1])]);
        Ok(self.graph.node("Unsqueeze", &[&terms, &zero]))
    }

    /// Builds one layer: attention, then the feed-forward network. The tensors `added` are added to the attention scores.
    fn layer(&mut self, layer: &str, states: &str, added: &[String]) -> Result<String, Fault> {
        let (family, hidden) = (self.family, self.hidden);
        let size = hidden / self.heads;
        let split = self.graph.ints("split_heads", &[4], &[0, 0, self.heads as i64, size as i64]);
        let join = self.graph.ints("join_heads", &[3], &[0, 0, hidden as i64]);
        let mut heads = |name: &str, order: &[i64]| -> Result<String, Fault> {
            let part = self.linear(states, &format!("{layer}.{name}"), hidden, hidden)?;
            let part = self.graph.node("Reshape", &[&part, &split]);
            Ok(self.graph.node_with("Transpose", &[&part], vec![AttributeProto::ints("perm", order)]))
        };
        let query = heads(family.query, &[0, 2, 1, 3])?;
        let key = heads(family.key, &[0, 2, 3, 1])?;
        let value = heads(family.value, &[0, 2, 1, 3])?;
        let scores = self.graph.node("MatMul", &[&query, &key]);
        let root = self.graph.floats("root", &[], &[(size as f64).sqrt() as f32]);
        let mut scores = self.graph.node("Div", &[&scores, &root]);
        for term in added.iter().rev() {
            scores = self.graph.node("Add", &[&scores, term]);
        }
        let shares = self.graph.node_with("Softmax", &[&scores], vec![AttributeProto::int("axis", 3)]);
        let mixed = self.graph.node("MatMul", &[&shares, &value]);
        let mixed = self.graph.node_with("Transpose", &[&mixed], vec![AttributeProto::ints("perm", &[0, 2, 1, 3])]);
        let mixed = self.graph.node("Reshape", &[&mixed, &join]);
        let mixed = self.linear(&mixed, &format!("{layer}.{}", family.attention_output), hidden, hidden)?;
        let sum = self.graph.node("Add", &[&mixed, states]);
        let states = self.norm(&sum, &format!("{layer}.{}", family.attention_norm))?;

        let up = format!("{layer}.{}", family.up);
        let wide = rows(&self.weights.shape(&format!("{up}.weight"))?)?;
        let raised = self.linear(&states, &up, hidden, wide)?;
        let raised = self.activate(&raised);
        let lowered = self.linear(&raised, &format!("{layer}.{}", family.down), wide, hidden)?;
        let sum = self.graph.node("Add", &[&lowered, &states]);
        self.norm(&sum, &format!("{layer}.{}", family.norm))
    }

    fn activate(&mut self, x: &str) -> String {
        let graph = &mut self.graph;
        let (one, half) = (graph.floats("f_one", &[], &[1.0]), graph.floats("half", &[], &[0.5]));
        match self.activation {
            Activation::Relu => graph.node("Relu", &[x]),
            // x (1 + erf(x / sqrt 2)) / 2, in the order that ONNX Runtime fuses.
            Activation::Gelu => {
                let root = graph.floats("root_2", &[], &[std::f32::consts::SQRT_2]);
                let scaled = graph.node("Div", &[x, &root]);
                let erf = graph.node("Erf", &[&scaled]);
                let plus = graph.node("Add", &[&erf, &one]);
                let product = graph.node("Mul", &[x, &plus]);
                graph.node("Mul", &[&product, &half])
            }
            // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
            Activation::GeluTanh => {
                let three = graph.floats("three", &[], &[3.0]);
                let small = graph.floats("gelu_cube", &[], &[0.044_715]);
                let root = graph.floats("gelu_root", &[], &[(2.0 / std::f64::consts::PI).sqrt() as f32]);
                let cube = graph.node("Pow", &[x, &three]);
                let cube = graph.node("Mul", &[&small, &cube]);
                let sum = graph.node("Add", &[x, &cube]);
                let scaled = graph.node("Mul", &[&root, &sum]);
                let tanh = graph.node("Tanh", &[&scaled]);
                let plus = graph.node("Add", &[&one, &tanh]);
                let halved = graph.node("Mul", &[&half, x]);
                graph.node("Mul", &[&halved, &plus])
            }
        }
    }

    fn table(&mut self, name: &str, rows: usize) -> Result<String, Fault> {
        let shape = [rows, self.hidden];
        let values = self.weights.get(name, &shape)?;
        Ok(self.graph.floats(name, &shape, &values))
    }

    fn linear(&mut self, x: &str, name: &str, from: usize, to: usize) -> Result<String, Fault> {
        let weight = self.weights.get(&format!("{name}.weight"), &[to, from])?;
        let bias = self.weights.get(&format!("{name}.bias"), &[to])?;
        Ok(self.affine(x, name, from, to, &weight, Some(&bias)))
    }

    /// Builds the product with a weight in PyTorch's layout `[to, from]`, plus the bias. This function transposes the
    /// weight, because a node that transposes it would hide the constant from ONNX Runtime's fusions.
    fn affine(&mut self, x: &str, name: &str, from: usize, to: usize, weight: &[f32], bias: Option<&[f32]>) -> String {
        let transposed: Vec<f32> =
            (0..from).flat_map(|column| (0..to).map(move |row| weight[row * from + column])).collect();
        let weight = self.graph.floats(&format!("{name}.weight_t"), &[from, to], &transposed);
        let product = self.graph.node("MatMul", &[x, &weight]);
        match bias {
            Some(bias) => {
                let bias = self.graph.floats(&format!("{name}.bias"), &[to], bias);
                self.graph.node("Add", &[&product, &bias])
            }
            None => product,
        }
    }

    fn norm(&mut self, x: &str, name: &str) -> Result<String, Fault> {
        let [weight, bias] = ["weight", "bias"].map(|part| format!("{name}.{part}"));
        let values = self.weights.get(&weight, &[self.hidden])?;
        let weight = self.graph.floats(&weight, &[self.hidden], &values);
        let values = self.weights.get(&bias, &[self.hidden])?;
        let bias = self.graph.floats(&bias, &[self.hidden], &values);
        let attributes = vec![AttributeProto::int("axis", -1), AttributeProto::float("epsilon", self.epsilon)];
        Ok(self.graph.node_with("LayerNormalization", &[x, &weight, &bias], attributes))
    }

    fn dense(&mut self, index: usize, x: &str, from: usize, dense: &DenseLayer) -> Result<String, Fault> {
        let name = format!("dense.{index}");
        let bytes = std::fs::read(dense.folder.join("model.safetensors"))
            .map_err(|error| format!("{}: {error}", dense.folder.join("model.safetensors").display()))?;
        let weights = Weights::new(&bytes, "linear.weight")?;
        let weight = weights.get("linear.weight", &[dense.width, from])?;
        let bias = dense.bias.then(|| weights.get("linear.bias", &[dense.width])).transpose()?;
        let y = self.affine(x, &name, from, dense.width, &weight, bias.as_deref());
        Ok(if dense.tanh { self.graph.node("Tanh", &[&y]) } else { y })
    }

    fn axis(&mut self, axis: i64) -> String {
        self.graph.ints(&format!("axis_{axis}"), &[1], &[axis])
    }
}

fn rows(shape: &[usize]) -> Result<usize, Fault> {
    match *shape {
        [rows, _] if rows > 0 => Ok(rows),
        _ => Err(format!("an embedding table has the shape {shape:?}, not [rows, columns]")),
    }
}

/// Returns the bucket of a distance (MPNet's `relative_position_bucket`, which computes in f32 too). Each short
/// distance has its own bucket, and longer distances share buckets on a logarithmic scale. The second half of the
/// buckets is for tokens that follow.
fn distance_bucket(distance: i64) -> i64 {
    let half = DISTANCE_BUCKETS as i64 / 2;
    let after = if distance > 0 { half } else { 0 };
    let distance = distance.abs();
    let exact = half / 2;
    if distance < exact {
        return after + distance;
    }
    let far = (distance as f32 / exact as f32).ln() / (MAX_DISTANCE / exact as f32).ln();
    after + (exact + (far * (half - exact) as f32) as i64).min(half - 1)
}
