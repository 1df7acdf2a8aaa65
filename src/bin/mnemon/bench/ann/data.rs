//! A data set to measure with: vectors, questions, and the right answers.

use std::path::Path;

use anyhow::ensure;

use crate::{
    texmex::{self, Rows},
    truth,
};

/// How many neighbours are asked for: recall@10 is what everybody reports.
pub(super) const K: usize = 10;

/// Unit vectors (or zeros, which a model gives for a text it knows nothing in).
pub(super) struct Vectors {
    pub(super) base: Rows<f32>,
    pub(super) queries: Rows<f32>,
    /// Rows that were not of unit length in the files.
    pub(super) normalized: usize,
}

impl Vectors {
    /// From base.fvecs, the first `limit` rows of it, and query.fvecs.
    pub(super) fn read(folder: &Path, limit: Option<usize>) -> anyhow::Result<Self> {
        let (base_path, query_path) = (folder.join("base.fvecs"), folder.join("query.fvecs"));
        let mut base = texmex::read(&base_path, limit.unwrap_or(usize::MAX))?;
        let mut queries = texmex::read(&query_path, usize::MAX)?;
        ensure!(
            base.width == queries.width,
            "{} has {} dimensions, {} has {}; both must come from one model",
            base_path.display(),
            base.width,
            query_path.display(),
            queries.width
        );
        ensure!(base.len() >= K, "{} has {} rows; {K} are needed at least", base_path.display(), base.len());
        let normalized = normalize(&base_path, &mut base)? + normalize(&query_path, &mut queries)?;
        Ok(Vectors { base, queries, normalized })
    }

    /// The nearest rows of each query: from groundtruth.ivecs where it holds for these vectors, else searched for.
    pub(super) fn truth(&self, folder: &Path, limited: bool) -> anyhow::Result<Rows<u32>> {
        let path = folder.join("groundtruth.ivecs");
        if self.normalized > 0 {
            eprintln!(
                "mnemon: {} vectors were not of length 1 and were normalised, as indexes search by cosine; the true \
                 neighbours are searched for again",
                self.normalized
            );
        } else if !limited && path.exists() {
            let truth = texmex::read(&path, usize::MAX)?;
            self.check(&path, &truth)?;
            return Ok(truth);
        }
        Ok(truth::nearest(&truth::exact(&self.base), &self.queries, K, |_| None))
    }

    /// Whether these can be answers.
    pub(super) fn check(&self, path: &Path, truth: &Rows<u32>) -> anyhow::Result<()> {
        let (name, remedy) = (path.display(), "delete the file, and it is computed");
        ensure!(
            truth.len() == self.queries.len(),
            "{name} has {} rows for {} queries; {remedy}",
            truth.len(),
            self.queries.len()
        );
        ensure!(truth.width >= K, "{name} has {} neighbours a query, {K} are needed; {remedy}", truth.width);
        let rows = self.base.len();
        if let Some(at) = truth.values.iter().position(|&row| row as usize >= rows) {
            let (query, row) = (at / truth.width, truth.values[at] as i32);
            anyhow::bail!("{name}: query {query} has neighbour {row}, but base.fvecs has {rows} rows; {remedy}");
        }
        Ok(())
    }
}

/// Makes all rows unit vectors; returns how many were not.
fn normalize(path: &Path, rows: &mut Rows<f32>) -> anyhow::Result<usize> {
    let mut changed = 0;
    for (number, row) in rows.values.chunks_exact_mut(rows.width).enumerate() {
        ensure!(
            row.iter().all(|x| x.is_finite()),
            "{}: row {number} has a component that is not finite; leave the row out",
            path.display()
        );
        // In f64, which no sum of squares of f32 overflows.
        let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        if norm > 0.0 && (norm - 1.0).abs() > 1e-3 {
            row.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
            changed += 1;
        }
    }
    Ok(changed)
}

/// How many of the first [`K`] true neighbours were found.
pub(super) fn right(found: impl Iterator<Item = u32>, truth: &[u32]) -> usize {
    found.take(K).filter(|row| truth[..K].contains(row)).count()
}
