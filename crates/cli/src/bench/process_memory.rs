//! Resident memory of this process, where the system reports it (Linux).

/// Returns the peak of the resident memory in bytes.
pub(super) fn peak_bytes() -> Option<u64> {
    status_bytes("VmHWM:")
}

/// Returns the resident memory in bytes.
pub(super) fn resident_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

/// Returns the growth of the resident memory, in whole MiB, since it was `before` bytes.
pub(super) fn growth_mib(before: Option<u64>) -> Option<f64> {
    let growth = resident_bytes()?.saturating_sub(before?);
    Some((growth as f64 / f64::from(1 << 20)).round())
}

fn status_bytes(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(value.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}
