//! A change of a namespace, as it leaves the file and as it comes back, and the versions that namespaces are at.

#[cfg(doc)]
use super::COMMON;
use super::{
    super::{
        codec,
        schema::*,
        tables::{ReadableTable, Tables, WriteTransaction},
    },
    table::Row,
};
use crate::error::{Error, Result};

/// What changed in one namespace between two of its versions. Each row is there once, as it is at the end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    /// The name, or [`COMMON`].
    pub(crate) namespace: String,
    /// The version that the change was made from; 0 if there was none.
    pub(crate) base: u64,
    /// The version that it leads to.
    pub(crate) version: u64,
    /// True if all rows of before are gone, because the namespace was removed.
    pub(crate) is_from_scratch: bool,
    pub(crate) head: Head,
    pub(crate) rows: Vec<Row>,
}

/// What a transaction on a replica asks of the primary.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sharing {
    /// What it changed, one for each namespace, by name.
    pub(crate) changes: Vec<Change>,
    /// The namespaces that it looked up and did not change, with their versions here.
    pub(crate) lookups: Vec<(String, u64)>,
}

impl Sharing {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.lookups.is_empty()
    }
}

/// The counters of a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Head {
    /// False if the namespace was removed. The numbers that a new one of the same name begins with stay.
    pub(crate) exists: bool,
    pub(crate) next_seq: u64,
    pub(crate) next_session: u32,
    pub(crate) messages: u64,
    pub(crate) language: Option<String>,
    pub(crate) documents: Option<DocumentHead>,
    /// The time to live of messages in microseconds.
    pub(crate) ttl: Option<i64>,
}

/// The counters of a namespace that has, or had, documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DocumentHead {
    pub(crate) documents: u64,
    pub(crate) expiring: u64,
    pub(crate) last_change: u64,
    pub(crate) next_text: u64,
    pub(crate) next_session: u32,
    pub(crate) texts: u64,
}

/// The key in [`META`] of the identity of the shared database.
const ORIGIN: &str = "origin";

/// The versions of the namespaces of a replica.
pub(crate) struct Versions<'t, T>(pub(in crate::store) &'t T);

impl<T: Tables> Versions<'_, T> {
    /// The identity of the shared database whose replica the file is, if it is one.
    pub(crate) fn origin(&self) -> Result<Option<String>> {
        let meta = self.0.table(META)?;
        let Some(origin) = meta.get(ORIGIN)? else { return Ok(None) };
        let origin = str::from_utf8(origin.value()).map_err(|_| Error::corrupted("the file's origin is not text"))?;
        Ok(Some(origin.to_owned()))
    }

    /// The version of a namespace; 0 if the file never had it.
    pub(crate) fn get(&self, namespace: &str) -> Result<u64> {
        Ok(self.record(namespace)?.map_or(0, |record| record.version))
    }

    pub(in crate::store) fn record(&self, namespace: &str) -> Result<Option<VersionRecord>> {
        let table = self.0.table(VERSIONS)?;
        let record = table.get(namespace)?;
        record.map(|record| codec::decode(record.value())).transpose()
    }
}

impl Versions<'_, WriteTransaction> {
    /// Makes the file a replica of a shared database.
    pub(crate) fn set_origin(&self, origin: &str) -> Result<()> {
        let mut meta = self.0.table(META)?;
        meta.insert(ORIGIN, origin.as_bytes())?;
        Ok(())
    }

    /// Notes the version at which the common rows of every shared database begin, with none of them.
    #[cfg(feature = "postgres")]
    pub(crate) fn begin_common(&self) -> Result<()> {
        self.set(COMMON, &VersionRecord { version: 1, ..VersionRecord::default() })
    }

    pub(in crate::store) fn set(&self, namespace: &str, record: &VersionRecord) -> Result<()> {
        self.0.table(VERSIONS)?.insert(namespace, codec::encode(record).as_slice())?;
        Ok(())
    }
}
