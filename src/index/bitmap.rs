//! A set of row numbers.

/// A set of rows, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    count: usize,
}

impl Bitmap {
    /// The rows below `rows` for which `allowed` holds.
    pub fn from_fn(rows: usize, mut allowed: impl FnMut(u32) -> bool) -> Self {
        let mut bitmap = Bitmap::default();
        for row in 0..rows as u32 {
            if allowed(row) {
                bitmap.insert(row);
            }
        }
        bitmap
    }

    /// Adds a row; returns whether it is new.
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

    /// Takes a row out; returns whether it was in.
    pub fn remove(&mut self, row: u32) -> bool {
        let was_in = self.contains(row);
        if was_in {
            self.words[row as usize / 64] &= !(1 << (row % 64));
            self.count -= 1;
        }
        was_in
    }

    /// Whether the row is in.
    pub fn contains(&self, row: u32) -> bool {
        self.words.get(row as usize / 64).is_some_and(|word| word & (1 << (row % 64)) != 0)
    }

    /// How many rows are in.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The rows, ascending.
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
