//! The default model's files, compiled into the program.

macro_rules! bundle {
    ($file:literal) => {
        include_bytes!(concat!("../../models/static-en-256/", $file))
    };
}

pub(super) const MANIFEST: &str = include_str!("../../models/static-en-256/manifest.toml");

/// Returns the bytes of a file that the manifest names.
pub(super) fn file(name: &str) -> &'static [u8] {
    match name {
        "model.onnx" => bundle!("model.onnx"),
        "tokenizer.json" => bundle!("tokenizer.json"),
        "config.json" => bundle!("config.json"),
        "special_tokens_map.json" => bundle!("special_tokens_map.json"),
        "tokenizer_config.json" => bundle!("tokenizer_config.json"),
        _ => unreachable!("only files that the bundled manifest names are read"),
    }
}
