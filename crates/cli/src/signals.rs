//! Signals that end a command: what it was writing is removed first.
//!
//! The database needs no more: it loses nothing that was acknowledged, as after a kill.

#[cfg(unix)]
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
    low_level::emulate_default_handler,
};

/// Removes the temporary files of this command when a signal ends it.
#[cfg(unix)]
pub(crate) fn remove_temporary_files() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    if !ignores_hang_up() {
        signals.add_signal(SIGHUP)?;
    }
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            mnemon::remove_temporary_files();
            let _ = emulate_default_handler(signal);
        }
    };
    std::thread::Builder::new().name("mnemon-signals".to_owned()).spawn(wait).map(drop)
}

/// Returns true if `nohup` or a program like it started this one, as far as the system tells: Linux does.
#[cfg(unix)]
pub(crate) fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The signal of the number n is the bit n - 1, and SIGHUP has the number 1.
    ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_none_or(|bits| bits & 1 == 1)
}

/// Where the system has none, the next command that writes the same file removes them.
#[cfg(not(unix))]
pub(crate) fn remove_temporary_files() -> std::io::Result<()> {
    Ok(())
}

#[cfg(all(feature = "serve", not(unix)))]
pub(crate) fn ignores_hang_up() -> bool {
    true
}
