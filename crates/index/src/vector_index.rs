//! The interface of all indexes: what an index can do, the options and the result of a search, and the sets of rows that
//! a search is restricted to.

use std::{cmp::Ordering, time::Instant};

use super::distance::dot;

/// An index over unit vectors of `f32` components, all of one dimension.
///
/// All methods take `&self`, and searches run beside inserts.
pub trait VectorIndex: Send + Sync {
    /// Inserts vectors at the given rows. `vectors` holds `rows.len()` times the dimension components, one vector after
    /// the other. Each row is either the next row number or a row that was removed.
    ///
    /// # Panics
    /// If `vectors` has another length or a component that is not finite, or if a row is neither the next one nor
    /// removed.
    fn insert(&self, rows: &[u32], vectors: &[f32]);

    /// Removes rows. Unknown rows are ignored.
    fn remove(&self, rows: &[u32]);

    /// Returns the rows nearest to `query`, which has the dimension of the index.
    ///
    /// # Panics
    /// If `query` has another dimension.
    fn search(&self, query: &[f32], search: &SearchOptions) -> SearchResult;

    /// Calls `visit` with the position in `rows` and the vector of each of these rows, in order, and skips the rows
    /// that were removed. An index that keeps only codes decodes them: a vector is within about 1 % of its length
    /// of the inserted one.
    fn vectors(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32]));

    /// Calls `visit` with the position in `rows` and the inner product with `query` of each of these rows, in order, and
    /// skips the rows that were removed. `query` has the dimension of the index. An index that keeps only codes computes
    /// them from the codes: for unit vectors they are within about .002. The default computes them from
    /// [`vectors`](Self::vectors).
    fn products(&self, query: &[f32], rows: &[u32], visit: &mut dyn FnMut(usize, f32)) {
        self.vectors(rows, &mut |position, row| visit(position, dot(query, row)));
    }

    /// Returns the next row number: the number of rows that were inserted, including those removed since.
    fn rows(&self) -> usize;

    /// Returns true if a search computes the score of each allowed row with its vector, so that it costs no less than
    /// reading all vectors. The default returns false.
    fn is_exact(&self) -> bool {
        false
    }

    /// Returns the bytes of memory that the index takes, approximately. The default returns 0.
    fn memory_bytes(&self) -> usize {
        0
    }

    /// Does one step of the work that makes later searches faster, such as linking new rows. Returns true if there is
    /// more to do. The default does nothing.
    fn improve(&self) -> bool {
        false
    }
}

/// A row that a search found, with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// Row number, from 0.
    pub row: u32,
    /// Inner product of the row's vector with the query. For unit vectors this is the cosine similarity, from -1 to 1.
    /// Higher is nearer. In an index that keeps only codes it is that of the code, within about .002.
    pub score: f32,
}

impl Neighbor {
    /// Orders neighbors from the highest score to the lowest, and equal scores by ascending row. A total order, because
    /// scores are finite.
    pub fn order(&self, other: &Neighbor) -> Ordering {
        other.score.total_cmp(&self.score).then(self.row.cmp(&other.row))
    }
}

/// The options of one search: the number of results, the effort, the allowed rows and the deadline.
///
/// ```
/// use mnemon_index::{Bitmap, ExactIndex, SearchOptions, VectorIndex};
///
/// let index = ExactIndex::new(2);
/// index.insert(&[0, 1, 2], &[1.0, 0.0, 0.0, 1.0, 0.6, 0.8]);
/// let even = Bitmap::from_fn(3, |row| row % 2 == 0);
/// let result = index.search(&[0.0, 1.0], &SearchOptions::new(1).allowed(Some(&even)));
/// assert_eq!((result.neighbors[0].row, result.neighbors[0].score), (2, 0.8));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SearchOptions<'a> {
    pub(crate) k: usize,
    pub(crate) ef: usize,
    pub(crate) allowed: Option<&'a Bitmap>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) by_codes: bool,
}

impl<'a> SearchOptions<'a> {
    /// Searches for the `k` nearest rows with `ef` 128, among all rows, without a deadline. With `k` 0 the result is
    /// empty; with more than the number of rows it has all rows.
    pub fn new(k: usize) -> Self {
        SearchOptions { k, ef: 128, allowed: None, deadline: None, by_codes: false }
    }

    /// Number of candidates that an approximate index keeps during the search (`ef_search`). A higher number finds more
    /// of the true neighbors and costs proportionally more time. A number below `k` counts as `k`. An exact index
    /// ignores it. Default: 128.
    pub fn ef(mut self, ef: usize) -> Self {
        self.ef = ef;
        self
    }

    /// Restricts the result to these rows; `None` allows all rows, which is the default.
    pub fn allowed(mut self, allowed: Option<&'a Bitmap>) -> Self {
        self.allowed = allowed;
        self
    }

    /// Ends the search at this time with the best rows found until then. The clock is read once in 256 scanned rows, or
    /// in 16 visited nodes of a graph: every few tens of microseconds at most. `HnswRsIndex` checks it only while it
    /// scans. Default: none.
    pub fn deadline(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Whether an index that keeps only codes reads no vectors from its source: rows near the end of the result may then be
    /// in it in the place of rows whose scores are higher by .003 or less. An index with vectors in memory ignores it.
    /// Default: false.
    pub fn by_codes(mut self, by_codes: bool) -> Self {
        self.by_codes = by_codes;
        self
    }

    /// Returns true if the deadline has passed.
    pub(crate) fn is_late(&self) -> bool {
        is_past(self.deadline)
    }
}

/// Returns true if there is a deadline and it has passed.
#[inline]
pub fn is_past(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchResult {
    /// The rows that were found, at most `k`, from the highest score to the lowest; equal scores by ascending row.
    pub neighbors: Vec<Neighbor>,
    /// Whether the deadline ended the search before it was complete, so that nearer rows may be missing.
    pub cut_short: bool,
}

/// A set of row numbers, stored as one bit for each row up to the highest. Used to restrict a search to some rows:
/// [`SearchOptions::allowed`](crate::SearchOptions::allowed).
///
/// Memory: an eighth of a byte for each row number up to the highest one in the set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    count: usize,
}

impl Bitmap {
    /// Creates the set of the rows from 0 to `rows - 1` for which `allowed` returns true.
    pub fn from_fn(rows: usize, mut allowed: impl FnMut(u32) -> bool) -> Self {
        let mut bitmap = Bitmap::default();
        for row in 0..rows as u32 {
            if allowed(row) {
                bitmap.insert(row);
            }
        }
        bitmap
    }

    /// Creates a set from words of 64 rows each, the lowest row in the lowest bit.
    pub fn from_words(words: Vec<u64>) -> Self {
        let count = words.iter().map(|word| word.count_ones() as usize).sum();
        Bitmap { words, count }
    }

    /// Removes the rows that the other set does not contain.
    pub fn intersect(&mut self, other: &Bitmap) {
        self.words.truncate(other.words.len());
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
        self.count = self.words.iter().map(|word| word.count_ones() as usize).sum();
    }

    /// Returns the bytes of memory that the set takes.
    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Adds a row. Returns true if the set did not contain the row before.
    pub fn insert(&mut self, row: u32) -> bool {
        let word = row as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (row % 64);
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += usize::from(new);
        new
    }

    /// Removes a row. Returns true if the set contained the row.
    pub fn remove(&mut self, row: u32) -> bool {
        let was_in = self.contains(row);
        if was_in {
            self.words[row as usize / 64] &= !(1 << (row % 64));
            self.count -= 1;
        }
        was_in
    }

    /// Returns true if the set contains the row.
    pub fn contains(&self, row: u32) -> bool {
        self.words.get(row as usize / 64).is_some_and(|word| word & (1 << (row % 64)) != 0)
    }

    /// Returns the number of rows in the set, in constant time.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Iterates over the rows in ascending order. Time: linear in the highest row divided by 64, plus the number of
    /// rows.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.words.iter().enumerate().filter(|(_, bits)| **bits != 0);
        words.flat_map(|(word, &bits)| {
            std::iter::successors(Some(bits), |bits| {
                let rest = bits & (bits - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |bits| word as u32 * 64 + bits.trailing_zeros())
        })
    }
}

impl FromIterator<u32> for Bitmap {
    fn from_iter<T: IntoIterator<Item = u32>>(rows: T) -> Self {
        let mut bitmap = Bitmap::default();
        for row in rows {
            bitmap.insert(row);
        }
        bitmap
    }
}
