//! Knowledge that a language model keeps up to date from conversations: profiles and collections, on documents.
//!
//! This module owns the prompts, the reading of the model's answers and the checks of what they change. Storing,
//! searching and commits are those of [`Documents`](crate::Documents), and a memory hands the batches to the blocks.
//!
//! Invariants: an answer that is not as it was asked for changes nothing; all changes of one answer are one commit; a
//! value that changed since the model was shown it is not overwritten.

mod blocking_model;
mod collection;
mod collection_answer;
mod collection_block;
mod collection_commit;
mod collection_prompt;
mod form;
mod merge_patch;
mod profile;
mod profile_block;

pub use collection::{BlockingCollection, Collection};
pub use collection_block::CollectionBlock;
pub use collection_commit::CollectionReport;
pub use profile::{BlockingProfile, Profile};
pub use profile_block::ProfileBlock;
