//! Inner products of vectors and of packed codes, and sums of scaled bytes, one file for each instruction set, chosen at
//! run time.
//!
//! All `unsafe` code of the crate is in this folder. The instruction sets give the same integers for codes, the same bits
//! for sums, and the same inner products of vectors within rounding, because they add the products in different orders.
//!
//! [`Kernels`] is a table of functions; `codes` has the format of packed codes and the portable functions for them,
//! `neighbor_codes` that of codes relative to another row, and `rotation` what vectors are coded after; `available` lists the tables that this processor can run.

/// Compiles the portable functions of a table for the processors that have `features`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! compile_portable {
    ($features:literal) => {
        compile_portable! { $features:
            encode(vector: &[f32], coarse: &mut [Line], fine: &mut [Line]) -> f32 = super::codes::encode,
            unpack(coarse: &[Line], fine: &[Line], query: &mut [Line<i8>]) -> i32 = super::codes::unpack,
            add_scaled(sum: &mut [f32], codes: &[u8], scale: f32) -> () = super::scalar::add_scaled,
            rotate(rotation: &Rotation, vector: &[f32], rotated: &mut Vec<f32>) -> () = Rotation::rotate,
            tabulate(query: &[f32], table: &mut SignTable) -> () = neighbor_codes::tabulate,
            put_neighbor(row: CodedRow, neighbor: CodedRow, slot: usize, block: &mut [Line]) -> () =
                neighbor_codes::put_neighbor,
        }
    };
    ($features:literal: $($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $portable:path,)*) => {
        $(fn $name($($argument: $type),*) -> $result {
            #[target_feature(enable = $features)]
            fn compiled($($argument: $type),*) -> $result {
                $portable($($argument),*)
            }
            // SAFETY: only `detect` returns this function, after it has found the features.
            unsafe { compiled($($argument),*) }
        })*
    };
}

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
