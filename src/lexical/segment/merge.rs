//! Segments to one, and when: the logarithmic method.

use super::{MAX_ROWS, Segment, read_hash, write::Writer};

impl Segment {
    /// One segment of several of one analyser, at least one, oldest first. A row that is in several is taken from the
    /// newest alone.
    ///
    /// # Panics
    /// If they have more than [`MAX_ROWS`] rows together.
    pub(crate) fn merge(older_to_newer: &[&Segment]) -> Segment {
        merge_where(older_to_newer, |_| true)
    }

    /// With these rows alone; nothing if there are none.
    pub(crate) fn retain(&self, keep: impl Fn(u32) -> bool) -> Option<Segment> {
        let kept = merge_where(&[self], keep);
        (!kept.rows.is_empty()).then_some(kept)
    }
}

fn merge_where(older_to_newer: &[&Segment], keep: impl Fn(u32) -> bool) -> Segment {
    let newest = older_to_newer.last().expect("at least one segment is merged");
    let is_alike = |segment: &&Segment| (segment.language, segment.version) == (newest.language, newest.version);
    assert!(older_to_newer.iter().all(is_alike), "segments of one analyser are merged");
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

/// Writes the rows, and says for each segment where its own went; nowhere if they are taken from a newer one.
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
    // Stable: of those of a row the newest is first.
    rows.sort_by_key(|&(row, ..)| row);
    rows.dedup_by_key(|&mut (row, ..)| row);
    rows.retain(|&(row, ..)| keep(row));
    for (new, &(row, from, local, length)) in (0..).zip(&rows) {
        writer.row(row, length, older_to_newer[from].passage(local));
        locals[from][local as usize] = Some(new);
    }
    locals
}

/// With how many of the last segments a new one of `new` rows is to be merged. `sizes` are the rows of those that are
/// stored, oldest first; together with `new` the merged ones are at most [`MAX_ROWS`].
///
/// The logarithmic method (Bentley and Saxe, "Decomposable searching problems", J. Algorithms 1980; what log-structured
/// merge trees do): a segment is merged with what is new when that is more than half of it. So what a row is in grows by
/// half whenever it is written again, which is at most 24 times up to [`MAX_ROWS`]; and of two neighbours the older has
/// twice the rows of the newer, or they do not fit together, so that segments are few.
pub(crate) fn merge_plan(sizes: &[usize], new: usize) -> usize {
    let mut merged = new;
    let is_merged = |&&size: &&usize| {
        let is_due = size < 2 * merged && size + merged <= MAX_ROWS;
        merged += if is_due { size } else { 0 };
        is_due
    };
    sizes.iter().rev().take_while(is_merged).count()
}
