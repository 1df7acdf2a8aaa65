//! Text to token numbers.
//!
//! Reads `tokenizer.json` alone; what it says of truncation and padding is left out: texts that are too long are split into
//! windows instead.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use tokenizers::{Encoding, ModelWrapper, NormalizerWrapper, PostProcessor, Tokenizer};

use super::{folder, wordpiece::WordPiece};
use crate::error::{BoxError, Error, Result};

const TRIED: &str = "mnemon";

pub(super) struct TextTokenizer {
    /// Does not truncate, does not pad.
    tokenizer: Tokenizer,
    /// The same ids, many times faster, of BERT-like models.
    word_piece: Option<WordPiece>,
    pad_id: u32,
    largest_id: u32,
}

impl TextTokenizer {
    /// A model's, of the bytes of its `tokenizer.json`. A short text is tried.
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
            tokenizer.encode_fast(TRIED, true)?;
            let largest_id = tokenizer.get_vocab(true).into_values().max().ok_or("it knows no token")?;
            Ok(TextTokenizer { word_piece: WordPiece::of(&tokenizer), tokenizer, pad_id, largest_id })
        })
    }

    /// Whether a pair of texts can be encoded, which only rerankers do.
    ///
    /// # Errors
    /// [`Error::InvalidModel`].
    pub(super) fn try_pair(&self, folder: &Path) -> Result<()> {
        guarded(|| self.tokenizer.encode_fast((TRIED, TRIED), true)).map(drop).map_err(|error| unusable(folder, error))
    }

    /// The tokens of a text, special ones included.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>> {
        if let Some(word_piece) = &self.word_piece {
            // Rarely more than so many bytes a token.
            let mut ids = Vec::with_capacity(8 + text.len() / 4);
            if word_piece.encode(text, &mut ids) {
                return Ok(ids);
            }
        }
        self.tokenizer.encode_fast(text, true).map(|encoding| encoding.get_ids().to_vec()).map_err(failed)
    }

    pub(super) fn encode_pair(&self, first: &str, second: &str) -> Result<Encoding> {
        self.tokenizer.encode_fast((first, second), true).map_err(failed)
    }

    /// Of each token of the text, special ones left out, where its word begins, in bytes. Ascending.
    pub(super) fn starts(&self, text: &str) -> Result<Vec<usize>> {
        let encoding = self.tokenizer.encode(text, false).map_err(failed)?;
        let mut starts: Vec<usize> = Vec::with_capacity(encoding.len());
        let mut last_word = None;
        for (word, offsets) in encoding.get_word_ids().iter().zip(encoding.get_offsets()) {
            let begins = word.is_none_or(|word| Some(word) != last_word);
            last_word = *word;
            // A token inside a word takes the word's place: cuts fall between words. Never back: that would leave holes.
            let last = starts.last().copied();
            starts.push(match last {
                Some(last) if !begins => last,
                last => offsets.0.max(last.unwrap_or(0)),
            });
        }
        Ok(starts)
    }

    /// Special tokens around a text, or around and between a pair.
    pub(super) fn special(&self, pair: bool) -> usize {
        self.tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(pair))
    }

    /// Text of so many bytes has no more tokens than this, special ones included; `None`: it has to be tokenised to know.
    pub(super) fn most_tokens(&self, bytes: usize) -> Option<usize> {
        match (self.tokenizer.get_model(), self.tokenizer.get_normalizer()) {
            // Decomposition (NFD) makes up to two characters of a byte.
            (ModelWrapper::WordPiece(_), None | Some(NormalizerWrapper::BertNormalizer(_))) => {
                Some(2 * bytes + self.special(false))
            }
            _ => None,
        }
    }

    /// The largest number that a token may have.
    pub(super) fn largest_id(&self) -> u32 {
        self.largest_id
    }

    /// What fills a row that is shorter than others.
    pub(super) fn pad_id(&self) -> u32 {
        self.pad_id
    }
}

/// `tokenizers` panics where the parts of a file do not fit each other.
fn guarded<T>(call: impl FnOnce() -> Result<T, BoxError>) -> Result<T, BoxError> {
    let panicked = |_| Err("its parts do not fit each other: it panicked".into());
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(panicked)
}

fn unusable(folder: &Path, error: BoxError) -> Error {
    let remedy = "save it again with `AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)`";
    folder::invalid(folder, format!("tokenizer.json: not a tokenizer; {remedy}"), Some(error))
}

fn failed(source: BoxError) -> Error {
    Error::Embedding { reason: "the tokenizer failed".into(), source: Some(source) }
}
