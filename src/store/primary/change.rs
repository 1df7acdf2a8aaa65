//! A change of a namespace, as it leaves the file and as it comes back, and the versions that namespaces are at.

use super::{
    super::{
        codec,
        schema::*,
        tables::{ReadableTable, Tables, WriteTransaction},
    },
    COMMON,
    table::Row,
};
use crate::{
    error::{Error, Result},
    ids::random_bytes,
};

/// What changed in one namespace between two of its versions. Each row is there once, as it is at the end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    /// The name, or [`COMMON`].
    pub(crate) namespace: String,
    /// The version that the change was made from.
    pub(crate) base: Version,
    /// The version that it leads to. [`Version::NONE`] if the primary lost the namespace.
    pub(crate) version: Version,
    /// True if all rows of before are gone, because the namespace was removed, or because the replica has another history
    /// than the primary.
    pub(crate) is_from_scratch: bool,
    /// Set if the replica has a version that the primary never had, or has lost.
    pub(crate) parted: Option<Parted>,
    pub(crate) head: Head,
    pub(crate) rows: Vec<Row>,
}

/// A version of a namespace. Versions are numbered without a gap. A database that lost some, in a fail-over or by the
/// restore of a backup, gives their numbers again: the stamp tells such versions apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    pub(crate) number: u64,
    /// A random number.
    pub(crate) stamp: i64,
}

impl Version {
    /// The version of a namespace that there never was.
    pub(crate) const NONE: Version = Version { number: 0, stamp: 0 };

    /// Returns a new version after this one, which no other machine makes.
    pub(super) fn next(self) -> Version {
        let bytes = *random_bytes().first_chunk().expect("32 bytes are more than 8");
        Version { number: self.number + 1, stamp: i64::from_le_bytes(bytes) }
    }
}

/// The version that a replica has of a namespace, and some of those that it had before, the newest first. The older they
/// are, the fewer there are of them: a replica that has another history than its primary finds a version that both have,
/// not many versions before they parted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct History(pub(crate) Vec<Version>);

impl History {
    /// The newest version.
    pub(crate) fn version(&self) -> Version {
        self.0.first().copied().unwrap_or(Version::NONE)
    }

    /// Number of versions before the newest that are all kept.
    const ALL: u64 = 32;

    /// Adds the newest version. Of those before the last [`History::ALL`], keeps two whose distance from it has the same
    /// number of bits.
    fn push(&mut self, version: Version) {
        let bits = |of: &Version| (version.number - of.number).checked_ilog2();
        let mut old = std::mem::take(&mut self.0);
        old.retain(|old| old.number < version.number);
        for (at, of) in old.iter().enumerate() {
            let [newer, older] = [at.checked_sub(1), Some(at + 1)].map(|at| at.and_then(|at| old.get(at)).map(bits));
            let is_near = version.number - of.number < Self::ALL;
            if is_near || newer != Some(bits(of)) || older != Some(bits(of)) {
                self.0.push(*of);
            }
        }
        self.0.insert(0, version);
    }
}

/// The last version that a replica and its primary both have, of those that they know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parted {
    pub(crate) version: Version,
    /// The next sequence number and the last change of a document then, if they are known.
    pub(crate) counters: Option<(u64, u64)>,
}

/// What a transaction on a replica asks of the primary.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sharing {
    /// What it changed, one for each namespace, by name.
    pub(crate) changes: Vec<Change>,
    /// The namespaces that it looked up and did not change, with their versions here.
    pub(crate) lookups: Vec<(String, Version)>,
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

    /// The version of a namespace.
    pub(crate) fn get(&self, namespace: &str) -> Result<Version> {
        Ok(self.history(namespace)?.version())
    }

    /// The versions of a namespace that the file knows; none if it never had the namespace.
    pub(crate) fn history(&self, namespace: &str) -> Result<History> {
        Ok(self.record(namespace)?.unwrap_or_default().history())
    }

    /// The names of namespaces that the file has a version of, under a prefix or all.
    pub(crate) fn names(&self, prefix: Option<&str>) -> Result<Vec<String>> {
        let table = self.0.table(VERSIONS)?;
        let is_under = |name: &str| {
            let rest = prefix.map_or(Some(""), |prefix| name.strip_prefix(prefix));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut names = Vec::new();
        for entry in table.iter()? {
            let (name, _) = entry?;
            if name.value() != COMMON && is_under(name.value()) {
                names.push(name.value().to_owned());
            }
        }
        Ok(names)
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
        self.set(COMMON, VersionRecord::default(), History::default(), Version { number: 1, stamp: 0 })
    }

    /// Notes the version of a namespace, after those in `history`.
    pub(in crate::store) fn set(
        &self,
        namespace: &str,
        record: VersionRecord,
        mut history: History,
        version: Version,
    ) -> Result<()> {
        let mut table = self.0.table(VERSIONS)?;
        if version == Version::NONE {
            table.remove(namespace)?;
            return Ok(());
        }
        history.push(version);
        let history = history.0.into_iter().map(|version| (version.number, version.stamp)).collect();
        table.insert(namespace, codec::encode(&VersionRecord { history, ..record }).as_slice())?;
        Ok(())
    }
}

impl VersionRecord {
    pub(super) fn history(&self) -> History {
        History(self.history.iter().map(|&(number, stamp)| Version { number, stamp }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_short_and_reaches_back() {
        let mut history = History::default();
        for number in 1..=5000 {
            history.push(Version { number, stamp: 0 });
            assert!(history.0.len() <= 50, "{history:?}");
            // Of the last versions at any distance, one that is not much older is known.
            for distance in 0..number {
                let known =
                    history.0.iter().any(|known| (distance..=2 * distance + 2).contains(&(number - known.number)));
                assert!(known || 2 * distance + 2 > number, "{distance} before {number}: {history:?}");
            }
        }
        assert_eq!(history.version().number, 5000);
    }
}
