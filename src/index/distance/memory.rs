//! Hints about memory: what is needed soon, and what is large. They change nothing else.
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

/// Asks the system to back what a table has room for with huge pages: rows are read from all over it, and each small page
/// costs a search of the page tables then. (A quarter more queries a second, at 100,000 rows.)
pub(in crate::index) fn prefer_huge_pages<T>(table: &Vec<T>) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        const PAGE: usize = 4096;
        let begin = (table.as_ptr() as usize).next_multiple_of(PAGE);
        let end = (table.as_ptr() as usize + table.capacity() * size_of::<T>()) / PAGE * PAGE;
        if begin < end {
            // SAFETY: the pages are within one allocation, which is ours; the advice changes none of their bytes, and a
            // refusal (a page size that is another, no huge pages) does no harm.
            unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = table;
}
