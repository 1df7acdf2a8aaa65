//! A custom embedding model: any code that returns unit vectors. This one counts letter pairs; a real one might call a service.
//!
//! `cargo run --example custom_embedder`. It needs no ONNX Runtime.

use std::sync::Arc;

use mnemon::{Embedder, Engine, Message, Namespace, Query, Result, models::ModelIdentity};

struct LetterPairs(ModelIdentity);

impl LetterPairs {
    fn new() -> Self {
        // Change the hash whenever the vectors change: a database rejects a model with another hash.
        LetterPairs(ModelIdentity { name: "letter-pairs".into(), dimension: 26 * 26, hash: "letter-pairs-1".into() })
    }
}

impl Embedder for LetterPairs {
    fn identity(&self) -> &ModelIdentity {
        &self.0
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        texts.iter().map(|text| self.embed_query(text)).collect()
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        let letters: Vec<usize> = text
            .bytes()
            .filter(u8::is_ascii_alphabetic)
            .map(|byte| usize::from(byte.to_ascii_lowercase() - b'a'))
            .collect();
        let mut row = vec![0.0f32; self.0.dimension];
        for pair in letters.windows(2) {
            row[pair[0] * 26 + pair[1]] += 1.0;
        }
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        row.iter_mut().for_each(|x| *x /= norm);
        Ok(row)
    }
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join("mnemon-example-embedder.redb");
    let engine = Engine::builder(&path).embedder(Arc::new(LetterPairs::new())).open()?;
    let namespace: Namespace = "example/spelling".parse()?;
    let words = ["restaurant", "accommodation", "rhythm", "necessary"];
    engine.blocking().put(&namespace, words.map(|word| Message::user(word).with_id(word)).to_vec())?;
    engine.blocking().flush()?;
    for misspelt in ["restarant", "acommodation", "neccessary"] {
        let hits = engine.blocking().recall(&namespace, Query::new(misspelt).k(1))?;
        println!("{misspelt} -> {}", hits[0].message.text());
    }
    Ok(())
}
