//! Exports from strangers, imported into an engine in memory.

use std::{
    io::Cursor,
    sync::{Arc, OnceLock},
};

use mnemon::{Embedder, Engine, ModelIdentity, Namespace, Result};

/// A model that gives all texts one vector.
pub(crate) struct Model(ModelIdentity);

impl Model {
    pub(crate) fn new() -> Self {
        Model(ModelIdentity { name: "one".into(), dimension: 2, hash: "0".into() })
    }
}

impl Embedder for Model {
    fn identity(&self) -> &ModelIdentity {
        &self.0
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        Ok(vec![vec![1.0, 0.0]; texts.len()])
    }

    fn embed_query(&self, _: &str) -> Result<Vec<f32>> {
        Ok(vec![1.0, 0.0])
    }
}

/// What was imported can be exported and imported again.
pub(crate) fn exports(data: &[u8]) {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| {
        Engine::builder_in_memory().embedder(Arc::new(Model::new())).open().expect("an engine in memory opens")
    });
    let engine = engine.blocking();
    let namespace = Namespace::new("fuzz").expect("the name is a constant");
    let import = |export: &[u8]| engine.import_as(&namespace, Cursor::new(export.to_vec()));
    let Ok(report) = import(data) else { return };
    let mut export = Vec::new();
    let exported = engine.export(&namespace, &mut export).expect("what was imported can be exported");
    engine.delete_namespace(&namespace).expect("a namespace can be deleted");
    assert_eq!(exported, report);
    let again = import(&export).expect("what was exported can be imported");
    engine.delete_namespace(&namespace).expect("a namespace can be deleted");
    assert_eq!(again, report);
}
