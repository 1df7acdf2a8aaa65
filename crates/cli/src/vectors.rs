//! Files of vectors, and the exact neighbors in them that the results of approximate search are compared with.
//!
//! The files are in the TEXMEX format, `fvecs` (f32) and `ivecs` (i32), which most ANN data sets use: a row is its
//! length as a little-endian i32, then that many values of 4 bytes. All rows of a file have one length.

use std::{
    fs::File,
    io::{BufReader, Read, Write},
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context, bail, ensure};
use mnemon::{Bitmap, ExactIndex, SearchOptions, VectorIndex};

use crate::{
    output_file::{self, Force, OutputFile},
    progress::Progress,
};

/// A matrix: rows of one length, stored one after the other.
#[derive(Debug, PartialEq)]
pub(crate) struct Rows<T> {
    pub(crate) width: usize,
    pub(crate) values: Vec<T>,
}

/// A value of a row: four bytes.
pub(crate) trait Value: Copy {
    fn from_bytes(bytes: [u8; 4]) -> Self;
    fn to_bytes(self) -> [u8; 4];
}

impl Value for f32 {
    fn from_bytes(bytes: [u8; 4]) -> Self {
        f32::from_le_bytes(bytes)
    }

    fn to_bytes(self) -> [u8; 4] {
        self.to_le_bytes()
    }
}

impl Value for u32 {
    fn from_bytes(bytes: [u8; 4]) -> Self {
        u32::from_le_bytes(bytes)
    }

    fn to_bytes(self) -> [u8; 4] {
        self.to_le_bytes()
    }
}

/// The widest vector that a database can store.
const MAX_WIDTH: usize = 65_535;

impl<T> Rows<T> {
    pub(crate) fn len(&self) -> usize {
        self.values.len() / self.width
    }

    pub(crate) fn row(&self, number: usize) -> &[T] {
        &self.values[number * self.width..][..self.width]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[T]> {
        self.values.chunks_exact(self.width)
    }
}

/// Reads the first rows of a file, at most `limit`. Checks the size of the whole file even so.
pub(crate) fn read<T: Value>(path: &Path, limit: usize) -> anyhow::Result<Rows<T>> {
    let name = path.display();
    let file = File::open(path).with_context(|| {
        format!(
            "{name}; a TEXMEX data set has base.fvecs, query.fvecs and groundtruth.ivecs, as `mnemon embed` writes them"
        )
    })?;
    let bytes = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut head = [0; 4];
    ensure!(bytes > 0, "{name}: the file is empty; generate it again");
    reader
        .read_exact(&mut head)
        .with_context(|| format!("{name}: the file is cut off in its first row; copy it again"))?;
    let width = i32::from_le_bytes(head);
    let width = match usize::try_from(width) {
        Ok(width @ 1..=MAX_WIDTH) => width,
        _ => bail!("{name}: the first row claims {width} values, not 1 to {MAX_WIDTH}; is it a TEXMEX file?"),
    };
    let row_bytes = 4 * (width as u64 + 1);
    let (rows, rest) = (bytes / row_bytes, bytes % row_bytes);
    ensure!(
        rest == 0,
        "{name}: {rest} bytes remain after {rows} rows of {width}: the file was cut off, or its rows differ in length; copy or \
         generate it again"
    );
    ensure!(rows <= u64::from(u32::MAX), "{name}: {rows} rows exceed the limit of 2^32; use fewer");
    let rows = (rows as usize).min(limit);
    let mut values = Vec::with_capacity(rows * width);
    let mut row = vec![0; 4 * width];
    for number in 0..rows {
        if number > 0 {
            reader.read_exact(&mut head).with_context(|| format!("{name}: row {number}"))?;
            let found = i32::from_le_bytes(head);
            ensure!(
                usize::try_from(found) == Ok(width),
                "{name}: row {number} has {found} values, the rows before it {width}; generate the file with rows of one length"
            );
        }
        reader.read_exact(&mut row).with_context(|| format!("{name}: row {number}"))?;
        values.extend(row.chunks_exact(4).map(|four| T::from_bytes([four[0], four[1], four[2], four[3]])));
    }
    Ok(Rows { width, values })
}

pub(crate) fn write<T: Value>(mut file: OutputFile, rows: &Rows<T>) -> anyhow::Result<()> {
    for row in rows.iter() {
        file.write_all(&(row.len() as u32).to_le_bytes()).with_context(|| file.writing())?;
        for &value in row {
            file.write_all(&value.to_bytes()).with_context(|| file.writing())?;
        }
    }
    file.finish()
}

/// Begins a file of rows, which [`write`] completes.
pub(crate) fn create(path: &Path, force: Force) -> anyhow::Result<OutputFile> {
    OutputFile::create(path, output_file::VECTORS, force, None)
}

/// Builds an exact index of all rows.
pub(crate) fn exact_index(base: &Rows<f32>) -> ExactIndex {
    let index = ExactIndex::new(base.width);
    let numbers: Vec<u32> = (0..base.len() as u32).collect();
    index.insert(&numbers, &base.values);
    index
}

/// Finds the `k` rows nearest to each query on all cores. `allowed` returns the rows to search for the query of a
/// number, at least `k`; `None` searches all.
pub(crate) fn nearest(
    index: &ExactIndex,
    queries: &Rows<f32>,
    k: usize,
    allowed: impl Fn(usize) -> Option<Bitmap> + Sync,
) -> Rows<u32> {
    let progress = Progress::new();
    progress.begin("exact search", "queries", queries.len() as u64);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= queries.len() {
                return found;
            }
            let allowed = allowed(number);
            let neighbors =
                index.search(queries.row(number), &SearchOptions::new(k).allowed(allowed.as_ref())).neighbors;
            found.push((number, neighbors));
            progress.inc(1);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("searches do not panic")).collect()
    });
    drop(progress);
    all.sort_unstable_by_key(|(number, _)| *number);
    let values = all.into_iter().flat_map(|(_, neighbors)| neighbors).map(|neighbor| neighbor.row).collect();
    Rows { width: k, values }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_rows_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.fvecs");
        let rows = Rows { width: 3, values: vec![1.0f32, -2.5, 0.0, 4.0, f32::MIN_POSITIVE, 6.0] };
        write(create(&path, Force { force: false }).unwrap(), &rows).unwrap();
        assert_eq!(read::<f32>(&path, usize::MAX).unwrap(), rows);
        assert_eq!(read::<f32>(&path, 1).unwrap().values, rows.values[..3]);
    }

    #[test]
    fn bad_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.ivecs");
        let row = |head: i32, values: &[u32]| -> Vec<u8> {
            let values = values.iter().flat_map(|value| value.to_le_bytes());
            head.to_le_bytes().into_iter().chain(values).collect()
        };
        for (bytes, part) in [
            (vec![], "empty"),
            (vec![1, 0], "cut off"),
            (row(-1, &[1]), "claims -1"),
            (row(i32::MAX, &[1]), "claims 2147483647"),
            (row(2, &[1]), "0 rows of 2"),
            ([row(2, &[1, 2]), row(2, &[1])].concat(), "after 1 rows of 2"),
            ([row(2, &[1, 2]), row(3, &[1, 2])].concat(), "row 1 has 3"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = format!("{:#}", read::<u32>(&path, usize::MAX).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }
}
