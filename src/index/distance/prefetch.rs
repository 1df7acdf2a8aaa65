//! Asking for memory before it is needed.
#![allow(unsafe_code)]

/// Asks the processor to bring these bytes near, a cache line at a time. Only a hint: it changes nothing else.
#[inline(always)]
pub(in crate::index) fn prefetch<T>(values: &[T]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let begin = values.as_ptr().cast::<i8>();
        for offset in (0..size_of_val(values)).step_by(64) {
            // SAFETY: prefetching is valid for any address, and this one is inside of the slice.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(begin.add(offset)) };
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = values;
}
