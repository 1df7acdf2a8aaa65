//! The scores of all rows for one query.

/// The scores of one query. The buffers are reused from query to query; they take 4 bytes for each row of the
/// namespace.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    rows: Vec<f32>,
    /// The rows with a score above 0.
    touched: Vec<u32>,
    ideal: f32,
    /// The rows that contain the current term, with its saturation in each.
    pub(super) postings: Vec<(u32, f32)>,
}

impl Scores {
    /// Returns the score of a row; 0 if the row contains no term of the query.
    pub(crate) fn get(&self, row: u32) -> f32 {
        self.rows.get(row as usize).copied().unwrap_or(0.0)
    }

    /// Returns the rows that contain a term of the query, in no particular order.
    pub(crate) fn touched(&self) -> &[u32] {
        &self.touched
    }

    /// Returns an upper bound of any row's score: the limit for a document that contains every term of the query
    /// endlessly often. Terms that no row contains count as well. 0 if the query has no terms.
    pub(crate) fn ideal(&self) -> f32 {
        self.ideal
    }

    /// Resets all scores to 0, in time proportional to the touched rows.
    pub(crate) fn clear(&mut self) {
        self.touched.drain(..).for_each(|row| self.rows[row as usize] = 0.0);
        self.ideal = 0.0;
    }

    /// Makes room for the scores of `rows` rows.
    pub(super) fn make_room(&mut self, rows: usize) {
        self.rows.resize(self.rows.len().max(rows), 0.0);
    }

    /// Adds the current term, with the saturations in `postings`, to the scores of its rows.
    pub(super) fn add_term(&mut self, weight: f32, max_saturation: f32) {
        self.ideal += weight * max_saturation;
        for &(row, saturation) in &self.postings {
            let score = &mut self.rows[row as usize];
            // A score of 0 means that no term was added yet, because weight and saturation are above 0.
            if *score == 0.0 {
                self.touched.push(row);
            }
            *score += weight * saturation;
        }
    }
}
