//! The limits on what clients may ask for at a time.

use std::{num::NonZeroU32, time::Duration};

use crate::usage;

/// Bodies that are read at a time, however few requests run.
const MIN_BODIES: usize = 64;

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Limits {
    /// Connections at a time. For another, the one is closed that has waited for a request the longest.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = usage::within(1..=65_536))]
    pub(super) max_connections: usize,
    /// Requests at a time. Others are answered with 503, and are to be repeated. Slow requests, such as a forget, have a
    /// quarter as many places of their own.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = usage::within(1..=65_536))]
    pub(super) max_requests: usize,
    /// Bytes of the body of a request.
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 20, value_parser = usage::within(1024..=1 << 30))]
    pub(super) max_body: usize,
    /// Seconds that the body of a request may take, and then the request itself. A reindex, a backup and a forget may
    /// take longer.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    request_timeout: u64,
    /// Requests that a token may make each second, unless its line in the file of tokens says otherwise. More are answered
    /// with 429.
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(super) rate: NonZeroU32,
}

impl Limits {
    pub(super) fn request_timeout(&self) -> Duration {
        Duration::from_secs(self.request_timeout)
    }

    /// Slow requests at a time.
    pub(super) fn max_slow(&self) -> usize {
        self.max_requests.div_ceil(4)
    }

    /// Bodies that are read at a time. Other connections have room beside them.
    pub(super) fn max_bodies(&self) -> usize {
        self.max_requests.max(MIN_BODIES).min(self.max_connections.div_ceil(2))
    }
}
