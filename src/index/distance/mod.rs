//! Inner products of vectors and of packed codes, and sums of scaled bytes, one file for each instruction set, chosen at
//! run time.
//!
//! All `unsafe` code of the crate is in this folder. The instruction sets give the same integers for codes, the same bits
//! for sums, and the same inner products of vectors within rounding, because they add the products in different orders.
//!
//! [`Kernels`] is a table of functions; `codes` has the format of packed codes and the portable functions for them,
//! `neighbor_codes` that of codes relative to another row, and `rotation` what vectors are coded after; `available` lists the tables that this processor can run.

mod available;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod codes;
mod kernels;
mod memory_hints;
mod neighbor_codes;
#[cfg(target_arch = "aarch64")]
mod neon;
mod rotation;
mod scalar;

pub(super) use codes::{Line, PER_LINE, rounded, scale};
pub(super) use kernels::Kernels;
pub(super) use memory_hints::{prefer_huge_pages, prefetch};
pub(super) use neighbor_codes::{BLOCK_ROWS, CodedRow, SignTable, block_lines, clear_block};
pub(super) use rotation::Rotation;
