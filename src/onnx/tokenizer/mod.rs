//! The tokenizer of a model, from `tokenizer.json`.
//!
//! The truncation and padding that the file configures are turned off: a text that is too long is split into chunks
//! instead (`text_encoder`).

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use tokenizers::{Encoding, ModelWrapper, NormalizerWrapper, PostProcessor, Tokenizer};

use super::{
    graph::proto::{GraphProto, ModelProto, NodeProto},
    wordpiece::WordPiece,
};
use crate::{
    error::{BoxError, Error, Result},
    model_folders::folder,
};

#[cfg(test)]
mod tests;

/// The text that a new tokenizer is tried on.
const SAMPLE: &str = "mnemon";

/// The tokenizer of a model.
pub(super) struct TextTokenizer {
    /// The tokenizer, with truncation and padding disabled.
    tokenizer: Tokenizer,
    /// A much faster tokenizer with the same ids, for BERT-like models.
    word_piece: Option<WordPiece>,
    pad_id: u32,
    largest_id: u32,
}

impl TextTokenizer {
    /// Reads the bytes of a model's `tokenizer.json`, and tries the tokenizer on a short text.
    ///
    /// # Errors
    /// [`Error::InvalidModel`].
    pub(super) fn open(folder: &Path, json: &[u8]) -> Result<Self> {
        TextTokenizer::from_json(json).map_err(|error| unusable(folder, error))
    }

    fn from_json(json: &[u8]) -> Result<Self, BoxError> {
        guarded(|| {
            let mut tokenizer = Tokenizer::from_bytes(json)?;
            let pad_id = tokenizer.get_padding().map_or(0, |padding| padding.pad_id);
            tokenizer.with_padding(None);
            tokenizer.with_truncation(None)?;
            tokenizer.encode_fast(SAMPLE, true)?;
            let largest_id = tokenizer.get_vocab(true).into_values().max().ok_or("it has no tokens")?;
            Ok(TextTokenizer { word_piece: WordPiece::of(&tokenizer), tokenizer, pad_id, largest_id })
        })
    }

    /// Checks that the tokenizer encodes a pair of texts, which only rerankers need.
    ///
    /// # Errors
    /// [`Error::InvalidModel`].
    pub(super) fn try_pair(&self, folder: &Path) -> Result<()> {
        guarded(|| self.tokenizer.encode_fast((SAMPLE, SAMPLE), true))
            .map(drop)
            .map_err(|error| unusable(folder, error))
    }

    /// Returns the tokens of a text, special ones included.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>> {
        if let Some(word_piece) = &self.word_piece {
            // Tokens rarely have more than 4 bytes.
            let mut ids = Vec::with_capacity(8 + text.len() / 4);
            if word_piece.encode(text, &mut ids) {
                return Ok(ids);
            }
        }
        self.tokenizer.encode_fast(text, true).map(|encoding| encoding.get_ids().to_vec()).map_err(failed)
    }

    /// Returns the tokens of a text without special ones, and where their words begin.
    pub(super) fn words(&self, text: &str) -> Result<Words> {
        if let Some((ids, starts)) = self.word_piece.as_ref().and_then(|word_piece| word_piece.words(text)) {
            return Ok(Words { ids: Some(ids), starts });
        }
        let encoding = self.tokenizer.encode(text, false).map_err(failed)?;
        Ok(Words { ids: None, starts: word_starts(&encoding) })
    }

    /// Returns the special tokens before and after a text, if [`words`](Self::words) has token numbers for nearly every
    /// text.
    pub(super) fn special_tokens(&self) -> Option<(&[u32], &[u32])> {
        self.word_piece.as_ref().map(WordPiece::special)
    }

    pub(super) fn encode_pair(&self, first: &str, second: &str) -> Result<Encoding> {
        self.tokenizer.encode_fast((first, second), true).map_err(failed)
    }

    /// Returns the number of special tokens around a text, or around and between the texts of a pair.
    pub(super) fn special(&self, pair: bool) -> usize {
        self.tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(pair))
    }

    /// Returns an upper bound of the tokens, special ones included, of a text of this many bytes. `None`: the text has
    /// to be tokenized.
    pub(super) fn most_tokens(&self, bytes: usize) -> Option<usize> {
        match (self.tokenizer.get_model(), self.tokenizer.get_normalizer()) {
            // Canonical decomposition (NFD) yields at most two characters for each byte.
            (ModelWrapper::WordPiece(_), None | Some(NormalizerWrapper::BertNormalizer(_))) => {
                Some(2 * bytes + self.special(false))
            }
            _ => None,
        }
    }

    /// Returns the share of a text's letters that are in words of several letters and of one token each; 1 for a text
    /// without letters, and for a tokenizer that is not BERT's: pieces of others do not tell whether a word is known.
    /// English questions have 0.9 on average, German and Spanish ones 0.2 to 0.3, those in other scripts 0 to 0.1.
    pub(super) fn known_words(&self, text: &str) -> f32 {
        let Some(word_piece) = &self.word_piece else { return 1.0 };
        let (ids, starts) = match word_piece.words(text) {
            Some(words) => words,
            None => match self.tokenizer.encode(text, false) {
                Ok(encoding) => (encoding.get_ids().to_vec(), word_starts(&encoding)),
                Err(_) => return 1.0,
            },
        };
        let (mut known, mut all) = (0, 0);
        let mut token = 0;
        for word in starts.chunk_by(|a, b| a == b) {
            let end = starts.get(token + word.len()).copied().unwrap_or(text.len());
            let letters = text.get(word[0]..end).unwrap_or("").chars().filter(|c| c.is_alphabetic()).count();
            all += letters;
            if word.len() == 1 && letters > 1 && ids[token] != word_piece.unknown() {
                known += letters;
            }
            token += word.len();
        }
        if all == 0 { 1.0 } else { known as f32 / all as f32 }
    }

    pub(super) fn largest_id(&self) -> u32 {
        self.largest_id
    }

    /// Returns the id that pads shorter rows of a batch.
    pub(super) fn pad_id(&self) -> u32 {
        self.pad_id
    }
}

/// The tokens of a text without special ones.
pub(super) struct Words {
    /// The token numbers, if those of adjacent words are also the tokens of their part of the text by itself.
    pub(super) ids: Option<Vec<u32>>,
    /// For each token, the byte at which its word begins. Ascending.
    pub(super) starts: Vec<usize>,
}

/// Returns the byte at which the word of each token begins. Ascending.
pub(super) fn word_starts(encoding: &Encoding) -> Vec<usize> {
    let mut starts: Vec<usize> = Vec::with_capacity(encoding.len());
    let mut last_word = None;
    for (word, offsets) in encoding.get_word_ids().iter().zip(encoding.get_offsets()) {
        let begins = word.is_none_or(|word| Some(word) != last_word);
        last_word = *word;
        // A token inside a word has the start of the word, so that cuts fall between words. Starts never decrease: that
        // would leave gaps between chunks.
        let last = starts.last().copied();
        starts.push(match last {
            Some(last) if !begins => last,
            last => offsets.0.max(last.unwrap_or(0)),
        });
    }
    starts
}

/// Turns panics into errors: `tokenizers` panics if the parts of a file do not fit together.
fn guarded<T>(call: impl FnOnce() -> Result<T, BoxError>) -> Result<T, BoxError> {
    let panicked = |_| Err("the parts of the file do not fit together: the tokenizer panicked".into());
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(panicked)
}

fn unusable(folder: &Path, error: BoxError) -> Error {
    let remedy = "save it again with `AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)`";
    folder::invalid(folder, format!("tokenizer.json is not a valid tokenizer; {remedy}"), Some(error))
}

fn failed(source: BoxError) -> Error {
    Error::Embedding { reason: "the tokenizer failed".into(), source: Some(source) }
}

/// Operators that pass their input on, or convert its type.
const TRANSPARENT: [&str; 7] = ["Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "DequantizeLinear"];

/// The longest chain of such operators that is followed, because a damaged graph may have a cycle.
const MOST_STEPS: usize = 8;

/// Checks that the embedding table of a graph has a row for each token of a tokenizer. A graph whose table is not found
/// passes.
///
/// # Errors
/// [`Error::InvalidModel`](crate::Error::InvalidModel).
pub(crate) fn check_vocabulary(folder: &Path, model: &ModelProto, tokenizer: &[u8]) -> Result<()> {
    let most = TextTokenizer::open(folder, tokenizer)?.largest_id();
    match model.graph.as_ref().and_then(rows) {
        Some(rows) if i64::from(most) >= rows => {
            let fault =
                format!("tokenizer.json has tokens up to number {most}, but model.onnx has rows for {rows} tokens");
            let remedy = "they belong to different models: take both files from one model, and import it again";
            Err(folder::invalid(folder, format!("{fault}; {remedy}"), None))
        }
        _ => Ok(()),
    }
}

/// Returns the number of rows of the table that token ids are looked up in.
fn rows(graph: &GraphProto) -> Option<i64> {
    let makers: HashMap<&str, &NodeProto> =
        graph.node.iter().flat_map(|node| node.output.iter().map(move |output| (output.as_str(), node))).collect();
    graph.node.iter().find_map(|node| {
        let (table, ids) = match node.op_type.as_str() {
            "Gather" | "GatherBlockQuantized" => (0, 1),
            // ONNX Runtime's own operator, in graphs that its optimizer wrote.
            "EmbedLayerNormalization" => (2, 0),
            _ => return None,
        };
        let table = (origin(&makers, node.input.get(ids)?) == "input_ids").then(|| node.input.get(table))??;
        let table = origin(&makers, table);
        graph.initializer.iter().find(|tensor| tensor.name == table)?.dims.first().copied()
    })
}

/// Follows a value back through [`TRANSPARENT`] operators.
fn origin<'g>(makers: &HashMap<&'g str, &'g NodeProto>, mut value: &'g str) -> &'g str {
    for _ in 0..MOST_STEPS {
        let maker = makers.get(value).filter(|node| TRANSPARENT.contains(&node.op_type.as_str()));
        match maker.and_then(|node| node.input.first()) {
            Some(input) => value = input,
            None => break,
        }
    }
    value
}
