//! Which database the file is a copy of, and the versions that its namespaces are at.

use redb::ReadableTable;

use super::super::{
    codec,
    schema::*,
    tables::{Tables, storage},
    write_tables::WriteTransaction,
};
use crate::error::{Error, Result};

/// The key in [`META`] of the identity of the shared database.
const ORIGIN: &str = "origin";

/// The versions of the namespaces of a file that is a copy of a shared database.
pub(crate) struct Versions<'t, T>(pub(in crate::store) &'t T);

impl<T: Tables> Versions<'_, T> {
    /// The identity of the shared database that the file is a copy of, if it is one.
    pub(crate) fn origin(&self) -> Result<Option<String>> {
        let meta = self.0.table(META)?;
        let Some(origin) = meta.get(ORIGIN).map_err(storage)? else { return Ok(None) };
        let origin = str::from_utf8(origin.value()).map_err(|_| Error::corrupted("the file's origin is not text"))?;
        Ok(Some(origin.to_owned()))
    }

    /// The version of a namespace; 0 if the file never had it.
    pub(crate) fn get(&self, namespace: &str) -> Result<u64> {
        Ok(self.record(namespace)?.map_or(0, |record| record.version))
    }

    pub(in crate::store) fn record(&self, namespace: &str) -> Result<Option<VersionRecord>> {
        let table = self.0.table(VERSIONS)?;
        let record = table.get(namespace).map_err(storage)?;
        record.map(|record| codec::decode(record.value())).transpose()
    }
}

impl Versions<'_, WriteTransaction> {
    /// Makes the file a copy of a shared database.
    pub(crate) fn set_origin(&self, origin: &str) -> Result<()> {
        let mut meta = self.0.table(META)?;
        meta.insert(ORIGIN, origin.as_bytes()).map_err(storage)?;
        Ok(())
    }

    /// Notes the version at which the common rows of every shared database begin, with none of them.
    #[cfg(feature = "postgres")]
    pub(crate) fn begin_common(&self) -> Result<()> {
        self.set(COMMON, &VersionRecord { version: 1, ..VersionRecord::default() })
    }

    pub(in crate::store) fn set(&self, namespace: &str, record: &VersionRecord) -> Result<()> {
        self.0.table(VERSIONS)?.insert(namespace, codec::encode(record).as_slice()).map_err(storage)?;
        Ok(())
    }
}
