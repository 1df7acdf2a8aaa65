//! Reads `tokenizer.json` of a source folder, or makes it from the `vocab.txt` of a BERT.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tokenizers::{
    AddedToken, Tokenizer, decoders, models::wordpiece::WordPiece, normalizers::BertNormalizer,
    pre_tokenizers::bert::BertPreTokenizer, processors::template::TemplateProcessing,
};

use super::description::{self, Config, Described};
use crate::{
    error::{BoxError, Result},
    models::folder::invalid,
};

/// BERT's special tokens, in the order in which `transformers` adds them.
const SPECIAL_TOKENS: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// Returns the contents of `tokenizer.json` for the model folder.
pub(super) fn read(described: &Described) -> Result<Vec<u8>> {
    let folder = &described.folder;
    let fault = |source: BoxError| invalid(folder, "tokenizer.json is not a valid tokenizer", Some(source));
    let bytes = match fs::read(folder.join("tokenizer.json")) {
        Ok(bytes) => bytes,
        Err(_) if folder.join("vocab.txt").is_file() => from_vocabulary(folder)?,
        Err(error) => {
            let remedy = "save it with `AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)`";
            return Err(invalid(folder, format!("tokenizer.json: {error}; {remedy}"), Some(error.into())));
        }
    };
    if !described.lower_case {
        return Ok(bytes);
    }
    // sentence-transformers converts the text to lower case before it is tokenized.
    let mut tokenizer: Value = serde_json::from_slice(&bytes).map_err(|error| fault(error.into()))?;
    let own = tokenizer["normalizer"].take();
    let normalizers: Vec<Value> =
        [json!({"type": "Lowercase"}), own].into_iter().filter(|own| !own.is_null()).collect();
    tokenizer["normalizer"] = json!({"type": "Sequence", "normalizers": normalizers});
    serde_json::to_vec(&tokenizer).map_err(|error| fault(error.into()))
}

/// Makes a WordPiece tokenizer with BERT's rules, equal to the one that `BertTokenizerFast` makes from the same files.
fn from_vocabulary(folder: &Path) -> Result<Vec<u8>> {
    let fault = |source: BoxError| invalid(folder, "vocab.txt is not a vocabulary of a BERT", Some(source));
    let config: Config = description::json(folder, "tokenizer_config.json")?.unwrap_or_default();
    let path = folder.join("vocab.txt");
    let words = WordPiece::from_file(&path.to_string_lossy()).unk_token("[UNK]".into()).build().map_err(fault)?;
    let mut tokenizer = Tokenizer::new(words);
    let id = |tokenizer: &Tokenizer, token: &str| {
        tokenizer.token_to_id(token).ok_or_else(|| fault(format!("token {token} is missing").into()))
    };
    let ends = [("[CLS]", id(&tokenizer, "[CLS]")?), ("[SEP]", id(&tokenizer, "[SEP]")?)];
    let or_true = |key: &str| config.flag(key).unwrap_or(true);
    let normalizer = BertNormalizer::new(
        true,
        or_true("tokenize_chinese_chars"),
        config.flag("strip_accents"),
        or_true("do_lower_case"),
    );
    let template = TemplateProcessing::builder()
        .try_single("[CLS] $A [SEP]")
        .map_err(|error| fault(error.into()))?
        .try_pair("[CLS] $A [SEP] $B:1 [SEP]:1")
        .map_err(|error| fault(error.into()))?
        .special_tokens(ends.to_vec())
        .build()
        .map_err(|error| fault(error.into()))?;
    tokenizer.with_normalizer(Some(normalizer)).map_err(fault)?;
    tokenizer.with_pre_tokenizer(Some(BertPreTokenizer)).with_post_processor(Some(template));
    tokenizer.with_decoder(Some(decoders::wordpiece::WordPiece::default()));
    let special = SPECIAL_TOKENS.iter().filter(|token| tokenizer.token_to_id(token).is_some());
    let special: Vec<AddedToken> = special.map(|&token| AddedToken::from(token, true)).collect();
    tokenizer.add_special_tokens(special).map_err(fault)?;
    tokenizer.to_string(false).map(String::into_bytes).map_err(fault)
}
