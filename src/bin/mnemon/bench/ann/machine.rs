//! What the figures were measured on, where the system tells (Linux).

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Machine {
    pub(super) processor: String,
    pub(super) cores: usize,
    /// Threads that searched.
    pub(super) threads: usize,
}

impl Machine {
    pub(super) fn here(threads: usize) -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Machine {
            processor: name.map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            threads,
        }
    }

    pub(super) fn describe(&self) -> String {
        let s = if self.threads == 1 { "" } else { "s" };
        format!("{}, {} search thread{s}", self.processor, self.threads)
    }
}

/// MiB that this process has resident.
pub(super) fn resident_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
}

/// What memory has grown by since it was `before`.
pub(super) fn grown_mb(before: Option<f64>) -> Option<f64> {
    Some((resident_mb()? - before?).max(0.0).round())
}
