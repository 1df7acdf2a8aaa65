//! Pages with checksums, or encrypted ones, under redb.
//!
//! A [`PageFile`] is a redb `StorageBackend` over another one. redb reads its pages without checking them; a page file
//! proves every page that it returns, so that a damaged page is an error which names it, and never bytes.
//!
//! ```text
//! 0        description: magic, version, seal, file id, key check, CRC-32 (padded to 512 bytes)
//! 4,096    the same description again
//! 8,192    slot 0 of redb's header: 512 bytes, sequence number, trailer
//! 12,288   slot 1
//! 16,384   page 1 of 4,096 bytes, trailer; page 2, trailer; ...
//! ```
//!
//! The trailer of a [`Seal::Checksum`] is a CRC-32 over the file's id, the page's number and its bytes, then the number
//! (8 bytes): it tells a changed page from one that was written to the wrong place. That of a `Seal::Key` is the nonce
//! and the tag of XChaCha20-Poly1305 (40 bytes), with the file's id and the page's number as associated data.
//!
//! Invariants:
//! - Of the two slots of redb's header, one is always as it was at the last sync: writes go to the other. A torn write
//!   of the header loses nothing but what was not committed. After a sync the header is copied to the other slot, so
//!   that damage to one slot loses nothing either.
//! - A page that was never written does not verify. redb's contract wants zeros there, but redb reads only pages that a
//!   commit has written, and a page of zeros is what a file system leaves of a lost write.
//!
//! An older version of a page that is put back into its own place verifies. redb's own checksums, which each page holds
//! of its children, find it in `verify`.

mod description;
mod page_file;
mod seal;
mod slots;
mod state;

#[cfg(test)]
mod tests;

pub(in crate::store) use description::{FileKind, KIND_BYTES, OpenPagesError, kind};
pub(in crate::store) use page_file::{PageFile, PlainFile};
pub(in crate::store) use seal::Seal;
pub(in crate::store) use state::{DamagedPage, PageState, Syncs};
