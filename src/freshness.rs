//! How far a read may be behind the shared database.

use std::time::Duration;

/// How far a read may be behind what other machines wrote, in an engine with
/// [`EngineBuilder::shared`](crate::EngineBuilder::shared). What this engine wrote itself is always seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Freshness {
    /// Sees everything that was acknowledged anywhere before the read began. Cost: one round trip to the shared
    /// database, and a pull if the namespace changed.
    Latest,
    /// Sees everything that was acknowledged so long ago. In a namespace that is in use the cost is nothing: changes
    /// are fetched in the background as they are announced. If the shared database says nothing for a second, the read
    /// goes on with what is in the file of this machine, and later ones do at once until something is heard again;
    /// [`Hits::age`](crate::Hits::age) says how old that is.
    Within(Duration),
    /// Asks nobody: sees what is in the file of this machine, and goes on without the shared database.
    Local,
}

/// Within a second.
impl Default for Freshness {
    fn default() -> Self {
        Freshness::Within(Duration::from_secs(1))
    }
}
