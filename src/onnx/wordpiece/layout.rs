//! The special tokens around a text: `[CLS]` before, `[SEP]` after.

use std::collections::HashMap;

use serde::Deserialize;
use tokenizers::PostProcessorWrapper;

pub(super) struct Layout {
    pub(super) opening: Vec<u32>,
    pub(super) closing: Vec<u32>,
}

/// A post-processor, read from its JSON, because the pieces of a template are private, and running a template with an
/// unknown token panics.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum Processor {
    BertProcessing { cls: (String, u32), sep: (String, u32) },
    TemplateProcessing { single: Vec<Piece>, special_tokens: HashMap<String, Special> },
}

#[derive(Deserialize)]
enum Piece {
    SpecialToken { id: String },
    Sequence { id: String },
}

#[derive(Deserialize)]
struct Special {
    ids: Vec<u32>,
}

impl Layout {
    /// Reads the layout of a post-processor. `None`: the post-processor is of another kind, or the text does not occur
    /// exactly once in its template.
    pub(super) fn of(processor: &PostProcessorWrapper) -> Option<Layout> {
        match serde_json::from_value(serde_json::to_value(processor).ok()?).ok()? {
            Processor::BertProcessing { cls, sep } => Some(Layout { opening: vec![cls.1], closing: vec![sep.1] }),
            Processor::TemplateProcessing { single, special_tokens } => {
                let is_text = |piece: &Piece| matches!(piece, Piece::Sequence { id } if id == "A");
                let text = single.iter().position(is_text)?;
                let ids = |pieces: &[Piece]| -> Option<Vec<u32>> {
                    let ids = pieces.iter().map(|piece| match piece {
                        Piece::SpecialToken { id } => special_tokens.get(id).map(|special| special.ids.as_slice()),
                        Piece::Sequence { .. } => None,
                    });
                    Some(ids.collect::<Option<Vec<_>>>()?.concat())
                };
                Some(Layout { opening: ids(&single[..text])?, closing: ids(&single[text + 1..])? })
            }
        }
    }
}
