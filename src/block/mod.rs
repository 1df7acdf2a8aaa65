//! Memory blocks: named parts of a prompt beside its recent messages.
//!
//! This module owns the trait of blocks, the blocks of this crate, and their prompts for language models. It does not
//! store, schedule or render. A block is a function of its state. The state is JSON, which the memory stores together
//! with the number of the last batch that the block has processed.

mod block_query;
mod content;
mod fact_block;
mod instruction_block;
mod memory_block;
mod model_answer;
mod static_block;
mod summary_block;
mod token_excess;
mod vector_block;

pub use block_query::{BlockQuery, Retriever};
pub use content::BlockContent;
pub use fact_block::FactBlock;
pub use instruction_block::{InstructionBlock, InstructionVersion};
pub(crate) use memory_block::check_names;
pub use memory_block::{AfterForget, BlockScope, FlushedBatch, MemoryBlock};
pub(crate) use model_answer::{json_in, unusable};
pub use static_block::StaticBlock;
pub use summary_block::SummaryBlock;
pub use token_excess::TokenExcess;
pub use vector_block::{HitProcessor, RetrievalUnit, VectorBlock};
