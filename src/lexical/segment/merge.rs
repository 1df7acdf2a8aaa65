//! Merges segments, and decides which ones: the logarithmic method.

use super::{
    Segment,
    layout::{MAX_ROWS, read_hash},
    write::Writer,
};
use crate::lexical::Voice;

impl Segment {
    /// Merges segments, at least one, of the same language and analyzer version. A row in several segments is taken
    /// from the newest.
    ///
    /// # Panics
    /// If the result has more than [`MAX_ROWS`] rows.
    pub(crate) fn merge(older_to_newer: &[&Segment]) -> Segment {
        merge_where(older_to_newer, |_| true)
    }

    /// Returns a segment with only the rows for which `keep` returns true; `None` if there are none.
    pub(crate) fn retain(&self, keep: impl Fn(u32) -> bool) -> Option<Segment> {
        let kept = merge_where(&[self], keep);
        (!kept.rows.is_empty()).then_some(kept)
    }
}

fn merge_where(older_to_newer: &[&Segment], keep: impl Fn(u32) -> bool) -> Segment {
    let newest = older_to_newer.last().expect("at least one segment is merged");
    let is_alike = |segment: &&Segment| (segment.language, segment.version) == (newest.language, newest.version);
    assert!(older_to_newer.iter().all(is_alike), "merged segments have one language and one analyzer version");
    let mut writer = Writer::new(newest.language, newest.version);
    let locals = merge_rows(older_to_newer, keep, &mut writer);

    let mut heads = vec![0; older_to_newer.len()];
    let mut postings = Vec::new();
    loop {
        let terms = older_to_newer.iter().zip(&heads).map(|(segment, &at)| segment.hashes().get(at).map(read_hash));
        let Some(term) = terms.flatten().min() else { break };
        postings.clear();
        for ((segment, at), locals) in older_to_newer.iter().zip(&mut heads).zip(&locals) {
            if segment.hashes().get(*at).map(read_hash) == Some(term) {
                let kept = segment.postings_at(*at);
                postings.extend(kept.filter_map(|(local, frequency)| Some((locals[local as usize]?, frequency))));
                *at += 1;
            }
        }
        if !postings.is_empty() {
            postings.sort_unstable();
            writer.term(term, &postings);
        }
    }
    writer.finish()
}

/// Writes the rows. Returns, for each segment and old local number, the new local number; `None` for a row that was
/// dropped or taken from a newer segment.
fn merge_rows(older_to_newer: &[&Segment], keep: impl Fn(u32) -> bool, writer: &mut Writer) -> Vec<Vec<Option<u32>>> {
    let mut locals: Vec<Vec<Option<u32>>> =
        older_to_newer.iter().map(|segment| vec![None; segment.rows.len()]).collect();
    let mut rows = Vec::new();
    for (from, segment) in older_to_newer.iter().enumerate().rev() {
        rows.extend(
            segment
                .rows
                .iter()
                .zip(segment.lengths())
                .zip(0..)
                .map(|((&row, length), local)| (row, from, local, length)),
        );
    }
    // The sort is stable, so the newest document of each row comes first.
    rows.sort_by_key(|&(row, ..)| row);
    rows.dedup_by_key(|&mut (row, ..)| row);
    rows.retain(|&(row, ..)| keep(row));
    for (new, &(row, from, local, length)) in (0..).zip(&rows) {
        let segment = older_to_newer[from];
        let voice = Voice { speaker: segment.speaker(local).to_vec(), is_question: segment.is_question(local) };
        writer.row(row, length, segment.passage(local), &voice);
        locals[from][local as usize] = Some(new);
    }
    locals
}

/// Returns the number of stored segments, counted from the newest, that a new segment of `new` rows is merged with.
/// `sizes` are the numbers of rows of the stored segments, oldest first. The merged segment has at most [`MAX_ROWS`]
/// rows.
///
/// This is the logarithmic method (Bentley and Saxe, "Decomposable searching problems I", J. Algorithms 1980), which
/// log-structured merge trees use: a segment is merged when the new rows are more than half of it. So the segment of a
/// row grows by at least half whenever the row is written again, which happens at most 24 times up to [`MAX_ROWS`]. And
/// of two neighboring segments, the older has at least twice the rows of the newer, or both together exceed
/// [`MAX_ROWS`], so there are few segments.
pub(crate) fn merge_plan(sizes: &[usize], new: usize) -> usize {
    let mut merged = new;
    let is_merged = |&&size: &&usize| {
        let is_due = size < 2 * merged && size + merged <= MAX_ROWS;
        merged += if is_due { size } else { 0 };
        is_due
    };
    sizes.iter().rev().take_while(is_merged).count()
}
