//! The data set of a measurement: vectors, queries and the ground truth.

use std::path::Path;

use anyhow::ensure;

use crate::{
    output,
    vectors::{self, Rows},
};

/// Number of neighbors of a query: recall@10 is the usual metric.
pub(super) const K: usize = 10;

/// Unit vectors. A zero vector is allowed: models return it for a text without known words.
pub(super) struct Vectors {
    pub(super) base: Rows<f32>,
    pub(super) queries: Rows<f32>,
    /// Number of rows that did not have unit length in the files.
    pub(super) normalized: usize,
}

impl Vectors {
    /// Reads the first `limit` rows of base.fvecs, and query.fvecs.
    pub(super) fn read(folder: &Path, limit: Option<usize>) -> anyhow::Result<Self> {
        let (base_path, query_path) = (folder.join("base.fvecs"), folder.join("query.fvecs"));
        let mut base = vectors::read(&base_path, limit.unwrap_or(usize::MAX))?;
        let mut queries = vectors::read(&query_path, usize::MAX)?;
        ensure!(
            base.width == queries.width,
            "{} has {} dimensions, {} has {}; both must come from the same model",
            base_path.display(),
            base.width,
            query_path.display(),
            queries.width
        );
        ensure!(base.len() >= K, "{} has {} rows; {K} are needed at least", base_path.display(), base.len());
        let normalized = normalize(&base_path, &mut base)? + normalize(&query_path, &mut queries)?;
        Ok(Vectors { base, queries, normalized })
    }

    /// Returns the nearest rows of each query. Reads groundtruth.ivecs if it applies to these vectors, and computes
    /// them otherwise.
    pub(super) fn truth(&self, folder: &Path, limited: bool) -> anyhow::Result<Rows<u32>> {
        let path = folder.join("groundtruth.ivecs");
        if self.normalized > 0 {
            output::note(format!(
                "{} vectors were not of length 1 and were normalised, since indexes search by cosine; the ground truth is computed again",
                self.normalized
            ));
        } else if !limited && path.exists() {
            let truth = vectors::read(&path, usize::MAX)?;
            self.check(&path, &truth)?;
            return Ok(truth);
        }
        Ok(vectors::nearest(&vectors::exact_index(&self.base), &self.queries, K, |_| None))
    }

    /// Checks that these rows can be the ground truth of the queries.
    pub(super) fn check(&self, path: &Path, truth: &Rows<u32>) -> anyhow::Result<()> {
        let (name, remedy) = (path.display(), "delete the file to have it computed");
        ensure!(
            truth.len() == self.queries.len(),
            "{name} has {} rows for {} queries; {remedy}",
            truth.len(),
            self.queries.len()
        );
        ensure!(truth.width >= K, "{name} has {} neighbors per query, and {K} are needed; {remedy}", truth.width);
        let rows = self.base.len();
        if let Some(at) = truth.values.iter().position(|&row| row as usize >= rows) {
            let (query, row) = (at / truth.width, truth.values[at] as i32);
            anyhow::bail!("{name}: query {query} has neighbor {row}, but base.fvecs has {rows} rows; {remedy}");
        }
        Ok(())
    }
}

/// Scales all rows to unit length and returns how many were changed.
fn normalize(path: &Path, rows: &mut Rows<f32>) -> anyhow::Result<usize> {
    let mut changed = 0;
    for (number, row) in rows.values.chunks_exact_mut(rows.width).enumerate() {
        ensure!(
            row.iter().all(|x| x.is_finite()),
            "{}: row {number} has a component that is not finite; remove the row",
            path.display()
        );
        // In f64: the sum of squares of f32 values cannot overflow it.
        let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        if norm > 0.0 && (norm - 1.0).abs() > 1e-3 {
            row.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
            changed += 1;
        }
    }
    Ok(changed)
}

/// Counts the found rows that are among the first [`K`] true neighbors.
pub(super) fn count_correct(found: impl Iterator<Item = u32>, truth: &[u32]) -> usize {
    found.take(K).filter(|row| truth[..K].contains(row)).count()
}
