//! The families of encoders that can be built from weights, each with its tensor names and its differences from BERT.

use super::{super::description::ConfigJson, tensors::Fault};

/// The id of the padding token of RoBERTa and its variants if config.json does not state it.
const ROBERTA_PADDING: usize = 1;

/// The tensor names of a family of encoders, and its differences from BERT.
pub(super) struct Family {
    /// The values of `model_type` in config.json.
    pub(super) model_types: &'static [&'static str],
    pub(super) layers: &'static str,
    pub(super) query: &'static str,
    pub(super) key: &'static str,
    pub(super) value: &'static str,
    pub(super) attention_output: &'static str,
    pub(super) attention_norm: &'static str,
    pub(super) up: &'static str,
    pub(super) down: &'static str,
    pub(super) norm: &'static str,
    pub(super) types: TokenTypes,
    /// Whether positions are numbered from the padding's id plus one, and padding is not counted.
    pub(super) positions_after_padding: bool,
    /// Whether a term for the distance between tokens is added to the attention scores.
    pub(super) distances: bool,
}

/// The token types that are input to the embeddings.
#[derive(PartialEq)]
pub(super) enum TokenTypes {
    /// The graph has an input for them.
    Input,
    /// All tokens have the first type.
    First,
    /// The family has no token types.
    None,
}

const BERT: Family = Family {
    model_types: &["bert"],
    layers: "encoder.layer",
    query: "attention.self.query",
    key: "attention.self.key",
    value: "attention.self.value",
    attention_output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    up: "intermediate.dense",
    down: "output.dense",
    norm: "output.LayerNorm",
    types: TokenTypes::Input,
    positions_after_padding: false,
    distances: false,
};

const FAMILIES: [Family; 4] = [
    BERT,
    Family {
        model_types: &["roberta", "xlm-roberta", "camembert"],
        types: TokenTypes::First,
        positions_after_padding: true,
        ..BERT
    },
    Family {
        model_types: &["distilbert"],
        layers: "transformer.layer",
        query: "attention.q_lin",
        key: "attention.k_lin",
        value: "attention.v_lin",
        attention_output: "attention.out_lin",
        attention_norm: "sa_layer_norm",
        up: "ffn.lin1",
        down: "ffn.lin2",
        norm: "output_layer_norm",
        types: TokenTypes::None,
        ..BERT
    },
    Family {
        model_types: &["mpnet"],
        query: "attention.attn.q",
        key: "attention.attn.k",
        value: "attention.attn.v",
        attention_output: "attention.attn.o",
        attention_norm: "attention.LayerNorm",
        types: TokenTypes::None,
        positions_after_padding: true,
        distances: true,
        ..BERT
    },
];

pub(super) fn padding(config: &ConfigJson) -> usize {
    config.number("pad_token_id").unwrap_or(ROBERTA_PADDING)
}

/// Returns the maximum number of tokens of a text if the configuration states it. In some families the first positions are
/// unused.
pub(in crate::import) fn max_tokens(config: &ConfigJson) -> Option<usize> {
    let model_type = config.text("model_type").unwrap_or_default();
    let family = FAMILIES.iter().find(|family| family.model_types.contains(&model_type));
    let positions = config.number("max_position_embeddings")?;
    match family.is_some_and(|family| family.positions_after_padding) {
        true => positions.checked_sub(padding(config).saturating_add(1)),
        false => Some(positions),
    }
}

/// Returns the family of a model.
///
/// # Errors
/// The model cannot be built from its weights.
pub(super) fn of(config: &ConfigJson) -> Result<&'static Family, Fault> {
    let unsupported = |problem: String| {
        Err(format!(
            "config.json: {problem}; only BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT and MPNet can be built from weights. \
             Export other models first (`optimum-cli export onnx --model FOLDER OUT`), then import OUT"
        ))
    };
    let model_type = config.text("model_type").unwrap_or_default();
    let Some(family) = FAMILIES.iter().find(|family| family.model_types.contains(&model_type)) else {
        return unsupported(format!("model_type is {model_type:?}"));
    };
    if config.is_set("auto_map") {
        return unsupported("auto_map names custom code of the model".into());
    }
    if config.is_set("is_decoder") || config.is_set("add_cross_attention") {
        return unsupported("the model is a decoder".into());
    }
    match config.text("position_embedding_type") {
        None | Some("absolute") => Ok(family),
        Some(other) => unsupported(format!("position_embedding_type is {other:?}")),
    }
}
