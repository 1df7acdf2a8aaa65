//! What must hold whatever happens to files and processes. The faults of the storage itself are in `src/campaign`.

mod canaries;
mod damage;
mod everything;
mod files;
mod originals;
mod soak;
