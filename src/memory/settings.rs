//! Settings of a memory.

use std::{sync::Arc, time::Duration};

use crate::{block::MemoryBlock, buffer::BufferLimits, compose::Composer};

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) limits: BufferLimits,
    pub(super) composer: Composer,
    pub(super) blocks: Vec<Arc<dyn MemoryBlock>>,
    pub(super) block_deadline: Duration,
    pub(super) checkpoint_each_put: bool,
    pub(super) flush_on_drop: bool,
}
