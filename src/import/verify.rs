//! Checks that an installed model is intact and runs.

use crate::{
    error::{Error, Result},
    models::Model,
    onnx::{
        OnnxEmbedder,
        graph::{external, files::GraphFiles},
        vocabulary_check,
    },
};

impl Model {
    /// Checks the model and returns its problems, one line each: files that differ from the manifest, weights outside
    /// the folder, a tokenizer that does not fit the graph, a graph that does not load or run, or outputs that
    /// contradict the manifest. No problem: the list is empty.
    ///
    /// Cost: reads every file, and loads and runs the model.
    ///
    /// # Errors
    /// [`Error::RuntimeNotFound`]: without ONNX Runtime it is not known whether the model runs.
    pub fn verify(&self) -> Result<Vec<String>> {
        let mut problems: Vec<Error> = Vec::new();
        for file in self.manifest.files.keys() {
            problems.extend(self.read(file).err());
        }
        if problems.is_empty() {
            problems.extend(self.check_vocabulary().err());
        }
        // A file that was changed is not parsed.
        if problems.is_empty() {
            match OnnxEmbedder::new(self.clone()) {
                Ok(_) => {}
                Err(error @ Error::RuntimeNotFound { .. }) => return Err(error),
                Err(error) => problems.push(error),
            }
        }
        Ok(problems.iter().map(|problem| chain(problem)).collect())
    }

    fn check_vocabulary(&self) -> Result<()> {
        let graph = GraphFiles::read(self)?;
        let model = external::parse(&self.path(), "model.onnx", &graph.bytes)?;
        vocabulary_check::check(&self.path(), &model, &self.read("tokenizer.json")?)
    }
}

/// Formats an error and its sources in one line.
fn chain(error: &dyn std::error::Error) -> String {
    crate::error::chain(error).split_whitespace().collect::<Vec<_>>().join(" ")
}
