//! The machine that the figures were measured on, as far as the system reports it (Linux).

use serde::{Deserialize, Serialize};

/// The processor and the threads.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Machine {
    pub(super) processor: String,
    pub(super) cores: usize,
    /// Search threads.
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
