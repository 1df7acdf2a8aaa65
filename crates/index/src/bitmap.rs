//! A set of rows.

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
