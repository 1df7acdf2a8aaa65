//! Hints to the processor and the system about memory that is needed soon or is large. They never change a result.
#![allow(unsafe_code)]

/// Asks the processor to load these values into its caches, a cache line at a time.
#[inline(always)]
pub(crate) fn prefetch<T>(values: &[T]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let begin = values.as_ptr().cast::<i8>();
        for offset in (0..size_of_val(values)).step_by(64) {
            // SAFETY: prefetching is valid for any address, and this one is inside the slice.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(begin.add(offset)) };
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = values;
}

/// Asks the system to back a table's allocation with huge pages. Searches read rows from all over the table, and with
/// small pages most of these reads cost a walk of the page tables. (A quarter more queries per second at 100,000 rows.)
pub(crate) fn prefer_huge_pages<T>(table: &Vec<T>) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        const PAGE: usize = 4096;
        let begin = (table.as_ptr() as usize).next_multiple_of(PAGE);
        let end = (table.as_ptr() as usize + table.capacity() * size_of::<T>()) / PAGE * PAGE;
        if begin < end {
            // SAFETY: the pages are inside one allocation that `table` owns; the advice changes none of their bytes,
            // and a refusal (another page size, no huge pages) does no harm.
            unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = table;
}
