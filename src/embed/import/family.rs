//! Kinds of encoders that are built of their weights: how each spells its parts, and where it departs from BERT.

use super::{source::Config, weights::Fault};

/// The padding's id in RoBERTa and its kin, if config.json does not say.
const ROBERTA_PADDING: usize = 1;

/// How a kind of encoder is spelled, and where it departs from BERT.
pub(super) struct Family {
    /// `model_type` in config.json.
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
    pub(super) types: Types,
    /// Places are numbered after the padding's id, and padding is not counted.
    pub(super) places_after_padding: bool,
    /// Scores of attention get a term for the distance.
    pub(super) distances: bool,
}

#[derive(PartialEq)]
pub(super) enum Types {
    /// An input of the graph.
    Input,
    /// All the first.
    First,
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
    types: Types::Input,
    places_after_padding: false,
    distances: false,
};

const FAMILIES: [Family; 4] = [
    BERT,
    Family {
        model_types: &["roberta", "xlm-roberta", "camembert"],
        types: Types::First,
        places_after_padding: true,
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
        types: Types::None,
        ..BERT
    },
    Family {
        model_types: &["mpnet"],
        query: "attention.attn.q",
        key: "attention.attn.k",
        value: "attention.attn.v",
        attention_output: "attention.attn.o",
        attention_norm: "attention.LayerNorm",
        types: Types::None,
        places_after_padding: true,
        distances: true,
        ..BERT
    },
];

/// The number of the token that fills up texts.
pub(super) fn padding(config: &Config) -> usize {
    config.number("pad_token_id").unwrap_or(ROBERTA_PADDING)
}

/// Tokens that a model of this configuration takes, if it says: of some kinds the first places are not for tokens.
pub(super) fn max_tokens(config: &Config) -> Option<usize> {
    let model_type = config.text("model_type").unwrap_or_default();
    let family = FAMILIES.iter().find(|family| family.model_types.contains(&model_type));
    let places = config.number("max_position_embeddings")?;
    match family.is_some_and(|family| family.places_after_padding) {
        true => places.checked_sub(padding(config).saturating_add(1)),
        false => Some(places),
    }
}

/// The family of a model, if its weights are enough to build it of.
pub(super) fn of(config: &Config) -> Result<&'static Family, Fault> {
    let unsupported = |what: String| {
        Err(format!(
            "config.json: {what}; encoders that are built from weights are BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT and \
             MPNet. Others are exported first: `optimum-cli export onnx --model FOLDER OUT`, then import OUT"
        ))
    };
    let model_type = config.text("model_type").unwrap_or_default();
    let Some(family) = FAMILIES.iter().find(|family| family.model_types.contains(&model_type)) else {
        return unsupported(format!("model_type is {model_type:?}"));
    };
    if config.is_set("auto_map") {
        return unsupported("auto_map asks for code of the model's own".into());
    }
    if config.is_set("is_decoder") || config.is_set("add_cross_attention") {
        return unsupported("it is a decoder".into());
    }
    match config.text("position_embedding_type") {
        None | Some("absolute") => Ok(family),
        Some(other) => unsupported(format!("position_embedding_type is {other:?}")),
    }
}
