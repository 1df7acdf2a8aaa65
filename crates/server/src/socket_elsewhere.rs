//! Systems without Unix sockets: nothing is bound, and `mnemon mcp` says so.

use std::path::Path;

pub(super) enum Socket {}

pub(super) fn bind(_: &Path) -> anyhow::Result<Option<Socket>> {
    Ok(None)
}
