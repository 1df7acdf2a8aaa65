//! The positions of the parts of a page file. See the module above for a picture.

/// Bytes of a page as redb sees it.
pub(super) const PAGE: usize = 4096;
/// Bytes of redb's header that are kept. redb 4 uses 320; the rest of its page 0 is zero.
pub(super) const HEADER: usize = 512;

/// Positions of the two descriptions. redb locks bytes of the first, which no process may then read on Windows; nothing
/// locks the second.
pub(super) const DESCRIPTIONS: [u64; 2] = [0, 4096];
/// Positions of the two slots of redb's header.
pub(super) const SLOTS: [u64; 2] = [8192, 12288];
/// Position of page 1.
const PAGES: u64 = 16384;

/// Returns the length for redb of a file with this length. A page that is not there as a whole does not count.
pub(super) fn logical_len(physical: u64, trailer: usize) -> u64 {
    match physical.checked_sub(PAGES) {
        Some(pages) => (1 + pages / (PAGE + trailer) as u64) * PAGE as u64,
        None => 0,
    }
}

/// Returns the length of the file that has this length for redb, a multiple of [`PAGE`].
pub(super) fn physical_len(logical: u64, trailer: usize) -> u64 {
    match logical / PAGE as u64 {
        0 => SLOTS[0],
        pages => position(pages, trailer),
    }
}

/// Returns the position of a page, from 1.
pub(super) fn position(page: u64, trailer: usize) -> u64 {
    PAGES + (page - 1) * (PAGE + trailer) as u64
}
