//! [`Hold`]: a legal hold.

use serde::Serialize;

use crate::{ids::Namespace, message::Timestamp};

/// A legal hold: nothing of a namespace, and of those under it, is deleted or forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Hold {
    /// The namespace, which stands for those under it too.
    pub namespace: Namespace,
    /// The reason.
    pub reason: String,
    /// The time at which the hold was set.
    pub since: Timestamp,
    /// A random number, by which entries of the audit refer to the hold without its name.
    pub id: String,
}
