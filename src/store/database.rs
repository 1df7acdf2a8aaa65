//! The database: opening, transactions, verification and compaction.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};
use redb::ReadableDatabase;

use super::{
    codec, copy,
    handle::{Durable, Handle},
    open::{self, Opened},
    pages::{FileKind, Syncs},
    primary::{self, Names, Sharing},
    tables::{ChangeLog, ChangedKeys, FailedElsewhere, WriteTransaction, storage},
    transaction::{Snapshot, Transaction},
    upgrade,
    verify::{self, VerifyReport},
};
#[cfg(feature = "postgres")]
use super::{primary::Version, schema::COMMON};
use crate::{
    config::{Config, Durability},
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    new_file::{self, sync_folder},
};

pub(crate) use super::handle::Outcome;

/// How long a store that could not open its file again waits before it tries once more.
const RETRY: Duration = Duration::from_millis(200);

/// An open database.
///
/// A file that fails is opened again by the next call, because redb answers nothing after an error of the file. If a
/// page is damaged, the store goes on reading what is sound, and writes no more.
pub(crate) struct Store {
    pub(super) state: RwLock<State>,
    /// Where the keys are noted that change while the database is being copied. Held during each write.
    pub(super) changes: Mutex<Option<Arc<Mutex<ChangedKeys>>>>,
    /// The last failure after which the file was opened again.
    failure: Mutex<Option<String>>,
    /// Held during a purge.
    pub(super) purging: Mutex<()>,
    /// The file itself, not a link to it.
    pub(super) path: PathBuf,
    /// The name by which it was opened, which must lead to the file as long as anything is committed.
    pub(super) name: PathBuf,
    pub(super) config: Config,
    pub(super) kind: Kind,
}

pub(super) enum State {
    Open(Arc<Handle>),
    /// The file failed, and could not be opened again.
    Failed {
        last: Arc<Handle>,
        cause: String,
        at: Instant,
    },
    /// The file was removed.
    Removed,
}

/// Where a change is committed.
pub(crate) enum Target<'a> {
    /// To the file, durably.
    File,
    /// To a file that is a replica, because the primary has the change. The commit is on the disk with the next durable
    /// one: until then the file is an older replica.
    Replica,
    /// To the primary, and then to its replica as with [`Target::Replica`]. Before the commit, the function is given what
    /// the transaction changed of the primary and the versions that its result depends on. It returns false if other
    /// machines were first, which undoes the transaction. It is called for a change that fails, too: on an old replica
    /// the change may fail wrongly.
    Primary(&'a Names, &'a mut dyn FnMut(Sharing) -> Result<bool>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file that this store writes.
    File,
    /// A file that it reads.
    ReadOnly,
    /// A file whose changes stay in memory, or no file.
    InMemory,
}

impl Store {
    /// Opens a database, upgrading one of an older version. If `create`, creates the file if it does not exist.
    ///
    /// # Errors
    /// [`Error::DatabaseNotFound`], [`Error::DatabaseLocked`], [`Error::NotADatabase`], [`Error::NewerSchema`],
    /// [`Error::Storage`], [`Error::Corrupted`]; [`Error::InvalidConfig`] for an empty path and for `:memory:`.
    pub(crate) fn open(name: &Path, config: &Config, create: bool) -> Result<Self> {
        check_path(name)?;
        // A file that is to take the place of this one takes that of the file itself, not of a link to it.
        let path = &new_file::resolved(name).map_err(|error| open::failed(name, error))?;
        let handle = loop {
            let opened = match open::file_kind(path)? {
                FileKind::Empty if !create => return Err(Error::DatabaseNotFound { path: path.to_path_buf() }),
                FileKind::Empty => match create_file(path, config)? {
                    Some(created) => break Handle::writing(created, true),
                    // Another process created it at the same time.
                    None => continue,
                },
                FileKind::Redb => copy_plain(path, config),
                FileKind::Pages | FileKind::Other => open::for_writing(path, config),
            };
            match opened {
                // The process that had created it removed it, as nothing was stored.
                Err(Error::Storage(_)) if create && !path.exists() => {}
                opened => break Handle::writing(opened?, false),
            }
        };
        open::remove_leftovers(path);
        let mut store = Self::prepare(handle, path, config, Kind::File)?;
        // Absolute paths stay valid if the program changes its working directory.
        let absolute = |path| std::path::absolute(path).map_err(|error| open::failed(path, error));
        (store.path, store.name) = (absolute(path)?, absolute(name)?);
        Ok(store)
    }

    /// Opens a database for reading. The store shows the database as of this moment. It needs no permission to write,
    /// and another process may have the database open, for writing too.
    ///
    /// # Errors
    /// Those of [`Store::open`]; [`Error::WriteAccessNeeded`] if the file must be repaired or upgraded first.
    pub(crate) fn open_read_only(path: &Path, config: &Config) -> Result<Self> {
        check_path(path)?;
        let upgrade_needed =
            |reason: &str| Error::WriteAccessNeeded { path: path.to_path_buf(), reason: reason.into() };
        match open::file_kind(path)? {
            FileKind::Empty => return Err(Error::DatabaseNotFound { path: path.to_path_buf() }),
            FileKind::Redb => {
                // An old file of ours, or that of another program?
                Self::open_unchanged(path, config)?;
                return Err(upgrade_needed("it was written by an older version of mnemon, and must be upgraded first"));
            }
            FileKind::Pages | FileKind::Other => {}
        }
        let handle = Handle::reading(open::for_reading(path, config)?)?;
        match upgrade::version(handle.read()?.ok_or(Error::Closed)?.tables())? {
            Some(codec::SCHEMA) => {}
            Some(old @ 1..codec::SCHEMA) => {
                let reason = format!("it has schema {old} of an older version of mnemon, and must be upgraded first");
                return Err(upgrade_needed(&reason));
            }
            Some(found) => {
                return Err(Error::NewerSchema { path: path.to_path_buf(), found, supported: codec::SCHEMA });
            }
            None => return Err(foreign(path)),
        }
        Ok(Self::new(handle, path, config, Kind::ReadOnly))
    }

    /// Opens a database for reading while no other process writes to it. Repairs and upgrades stay in memory, so the
    /// file does not change and needs no permission to write. No writer can open it meanwhile.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub(crate) fn open_unchanged(path: &Path, config: &Config) -> Result<Self> {
        check_path(path)?;
        if let FileKind::Empty = open::file_kind(path)? {
            return Err(Error::DatabaseNotFound { path: path.to_path_buf() });
        }
        Self::prepare(Handle::writing(open::unchanged(path, config)?, false), path, config, Kind::InMemory)
    }

    /// Creates a database in memory.
    pub(crate) fn in_memory(config: &Config) -> Result<Self> {
        let path = Path::new("a database in memory");
        let opened = open::in_memory(config)?;
        create_tables(&opened)?;
        Self::prepare(Handle::writing(opened, false), path, config, Kind::InMemory)
    }

    fn new(handle: Handle, path: &Path, config: &Config, kind: Kind) -> Self {
        let state = RwLock::new(State::Open(Arc::new(handle)));
        let (changes, failure, purging) = (Mutex::default(), Mutex::default(), Mutex::default());
        let [path, name] = [path.to_path_buf(), path.to_path_buf()];
        Store { state, changes, failure, purging, path, name, config: config.clone(), kind }
    }

    /// Upgrades the tables of a database that was just opened.
    pub(super) fn prepare(handle: Handle, path: &Path, config: &Config, kind: Kind) -> Result<Self> {
        let store = Self::new(handle, path, config, kind);
        match upgrade::version(store.read()?.tables())? {
            Some(codec::SCHEMA) => {}
            Some(old @ 1..codec::SCHEMA) => store.write(|transaction| upgrade::upgrade(transaction.tables(), old))?,
            Some(found) => {
                return Err(Error::NewerSchema { path: store.path, found, supported: codec::SCHEMA });
            }
            None => return Err(foreign(path)),
        }
        Ok(store)
    }

    /// Commits a change to the file, durably.
    ///
    /// # Errors
    /// Those of [`Store::commit`].
    pub(crate) fn write<T>(&self, change: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        match self.commit(Target::File, change)? {
            Outcome::Committed(value) => Ok(value),
            Outcome::RolledBack => unreachable!("only a primary refuses a change"),
        }
    }

    /// Runs `change` in a write transaction and commits it if `change` succeeds.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the database is open for reading; [`Error::DatabaseMoved`];
    /// [`Error::OutcomeUnknown`] if the commit failed and may be in the file all the same; the file has been opened
    /// again then, and says whether it is.
    pub(crate) fn commit<T>(
        &self,
        target: Target<'_>,
        change: impl FnOnce(&Transaction) -> Result<T>,
    ) -> Result<Outcome<T>> {
        if self.kind == Kind::ReadOnly {
            return Err(Error::ReadOnly { path: self.path.clone() });
        }
        // While this is held, no purge replaces the file.
        let copying = self.changes.lock();
        let versions = self.config.keep_versions;
        match target {
            Target::File => {
                self.check_name()?;
                let two_phase = self.config.two_phase_commit;
                let syncs = match self.config.durability {
                    Durability::Disk if two_phase => Syncs::All,
                    Durability::Disk => Syncs::LastOfCommit,
                    Durability::Process => Syncs::None,
                };
                let durable = Durable::Now { two_phase, syncs };
                let committed = self.run(|handle| {
                    handle.write(durable, all_keys(&copying), versions, |t| change(t).map(Outcome::Committed))
                })?;
                // What is acknowledged is in the file that has the name now.
                let moved = |error: Error| Error::OutcomeUnknown { cause: error.to_string() };
                self.check_name().map_err(moved)?;
                Ok(committed)
            }
            Target::Replica => self.run(|handle| {
                handle.write(Durable::Later, all_keys(&copying), versions, |t| change(t).map(Outcome::Committed))
            }),
            Target::Primary(names, publish) => {
                let noted = Arc::new(Mutex::new(ChangedKeys::new()));
                let only = copying.is_none().then(primary::captured_tables);
                let log = ChangeLog { keys: Arc::clone(&noted), only };
                let published = |transaction: &Transaction| {
                    let value = change(transaction);
                    let changed = std::mem::take(&mut *noted.lock());
                    let sharing = primary::capture(transaction.tables(), &changed, names, value.is_ok())?;
                    if copying.is_some() {
                        merge(&mut noted.lock(), changed);
                    }
                    if !sharing.is_empty() && !publish(sharing)? {
                        return Ok(Outcome::RolledBack);
                    }
                    value.map(Outcome::Committed)
                };
                let outcome = self.run(|handle| handle.write(Durable::Later, Some(log), versions, published))?;
                if let (Outcome::Committed(_), Some(copying)) = (&outcome, &*copying) {
                    merge(&mut copying.lock(), std::mem::take(&mut *noted.lock()));
                }
                Ok(outcome)
            }
        }
    }

    /// Passes everything of a namespace to `share`, as a change that makes it, and notes that it is shared. Does nothing
    /// if it was noted already.
    #[cfg(feature = "postgres")]
    pub(crate) fn share_namespace(
        &self,
        names: &Names,
        name: &Namespace,
        share: impl FnOnce(Sharing) -> Result<()>,
    ) -> Result<()> {
        if self.read()?.versions().get(name.as_str())? != Version::NONE {
            return Ok(());
        }
        self.write(|transaction| {
            let all = primary::all_keys(transaction.tables(), Some(name))?;
            share(primary::capture(transaction.tables(), &all, names, true)?)
        })
    }

    /// Same as [`Store::share_namespace`], for what belongs to no namespace, if there is anything.
    #[cfg(feature = "postgres")]
    pub(crate) fn share_common(&self, share: impl FnOnce(Sharing) -> Result<()>) -> Result<()> {
        let all = primary::all_keys(self.read()?.tables(), None)?;
        if self.read()?.versions().get(COMMON)? != Version::NONE || all.values().all(|keys| keys.is_empty()) {
            return Ok(());
        }
        self.write(|transaction| {
            transaction.versions().begin_common()?;
            share(primary::capture(transaction.tables(), &all, &Names::default(), true)?)
        })
    }

    /// Runs a write. Opens the file again if it failed.
    fn run<T>(&self, write: impl FnOnce(&Handle) -> Result<T>) -> Result<T> {
        let handle = self.handle()?;
        let written = write(&handle);
        if handle.has_failed() {
            drop(handle);
            // At once, so that no later answer contradicts the file. The next call reports an error of it.
            let _ = self.handle();
        }
        written.map_err(|error| self.explain(error))
    }

    /// Returns a consistent view of the last commit.
    pub(crate) fn read(&self) -> Result<Snapshot> {
        loop {
            if let Some(snapshot) = self.handle()?.read()? {
                return Ok(snapshot);
            }
        }
    }

    /// Reads a consistent view of the last commit.
    pub(crate) fn view<T>(&self, read: impl FnOnce(&Snapshot) -> Result<T>) -> Result<T> {
        self.read().and_then(|snapshot| read(&snapshot)).map_err(|error| self.explain(error))
    }

    /// Reads a namespace; one that the file does not have is empty. Damage is reported with its name.
    pub(crate) fn in_namespace<T: Default>(
        &self,
        namespace: &Namespace,
        read: impl FnOnce(&Snapshot, NamespaceId) -> Result<T>,
    ) -> Result<T> {
        self.view(|snapshot| match snapshot.namespaces().id(namespace)? {
            Some(id) => read(snapshot, id).map_err(|error| error.within(|| format!("namespace {namespace}"))),
            None => Ok(T::default()),
        })
    }

    /// Reads a session; one that the file does not have is empty. Damage is reported with its namespace and its name.
    pub(crate) fn in_session<T: Default>(
        &self,
        namespace: &Namespace,
        session: &str,
        read: impl FnOnce(&Snapshot, NamespaceId, u32) -> Result<T>,
    ) -> Result<T> {
        self.in_namespace(namespace, |snapshot, id| match snapshot.sessions().number(id, session)? {
            Some(number) => read(snapshot, id, number).map_err(|error| error.within(|| format!("session {session:?}"))),
            None => Ok(T::default()),
        })
    }

    /// Names the error of the file in an error of a call that was under way when another call met it.
    pub(crate) fn explain(&self, error: Error) -> Error {
        if !matches!(&error, Error::Storage(source) if source.is::<FailedElsewhere>()) {
            return error;
        }
        let failure = match &*self.state.read() {
            State::Open(handle) => handle.pages().first_failure(),
            State::Failed { cause, .. } => Some(cause.clone()),
            State::Removed => None,
        };
        match failure.or_else(|| self.failure.lock().clone()) {
            Some(failure) => Error::Storage(failure.into()),
            None => error,
        }
    }

    /// Returns true if the database is open for reading only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.kind == Kind::ReadOnly
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the database has the commit that the caller expects, if it expects one.
    ///
    /// # Errors
    /// [`Error::OlderDatabase`].
    pub(crate) fn check_anchor(&self) -> Result<()> {
        let Some(expected) = self.config.anchor else { return Ok(()) };
        let snapshot = self.read()?;
        match snapshot.has_commit(expected)? {
            true => Ok(()),
            false => Err(Error::OlderDatabase {
                path: self.name.clone(),
                expected: expected.to_string(),
                found: snapshot.anchor()?.to_string(),
            }),
        }
    }

    /// Checks that the name by which the database was opened leads to its file. A database in memory and one that is open
    /// for reading have no file of their own.
    ///
    /// # Errors
    /// [`Error::DatabaseMoved`].
    pub(crate) fn check_name(&self) -> Result<()> {
        // A purge that replaces the file meanwhile holds the state.
        match &*self.state.read() {
            State::Open(handle) | State::Failed { last: handle, .. }
                if self.kind == Kind::File && !handle.has_name(&self.name) =>
            {
                Err(self.moved())
            }
            State::Open(_) | State::Failed { .. } => Ok(()),
            State::Removed => Err(self.removed()),
        }
    }

    /// The open database. Opens the file again if it has failed.
    fn handle(&self) -> Result<Arc<Handle>> {
        match &*self.state.read() {
            State::Open(handle) if !handle.has_failed() => return Ok(Arc::clone(handle)),
            State::Failed { cause, at, .. } if at.elapsed() < RETRY => {
                return Err(Error::Storage(cause.clone().into()));
            }
            State::Removed => return Err(self.removed()),
            _ => {}
        }
        let mut state = self.state.write();
        let last = match &*state {
            State::Open(handle) if !handle.has_failed() => return Ok(Arc::clone(handle)),
            State::Open(handle) if self.kind != Kind::File => return Err(handle.pages().cause()),
            State::Open(handle) | State::Failed { last: handle, .. } => Arc::clone(handle),
            State::Removed => return Err(self.removed()),
        };
        // Another file is another database.
        if !last.has_name(&self.path) {
            return Err(self.moved());
        }
        if let State::Open(_) = &*state {
            *self.failure.lock() = last.pages().first_failure();
            if last.damage().is_some() {
                let beside = Arc::new(Handle::beside(&last, &self.path, &self.config)?);
                *state = State::Open(Arc::clone(&beside));
                return Ok(beside);
            }
            tracing::error!(error = %last.pages().cause(), "the database's file failed; it is opened again");
            last.close();
        }
        match open::for_writing(&self.path, &self.config) {
            Ok(opened) => {
                let handle = Arc::new(Handle::writing(opened, false));
                *state = State::Open(Arc::clone(&handle));
                Ok(handle)
            }
            Err(error) => {
                *state = State::Failed { last, cause: error.cause(), at: Instant::now() };
                Err(error)
            }
        }
    }

    /// Removes the file if this store created it, has had it locked ever since, and nothing was stored in it. Returns
    /// whether it did; the store then answers no more.
    pub(crate) fn remove_if_unused(&self) -> Result<bool> {
        // No write is under way.
        let _changes = self.changes.lock();
        let handle = self.handle()?;
        if self.kind != Kind::File
            || !handle.is_new()
            || !handle.read()?.ok_or(Error::Closed)?.is_unused()?
            || !handle.has_name(&self.name)
        {
            return Ok(false);
        }
        let mut state = self.state.write();
        // Before the lock is released: whoever opens the file meanwhile finds it locked, or without its name.
        fs::remove_file(&self.path)
            .and_then(|()| sync_folder(&self.path))
            .map_err(|error| open::failed(&self.path, error))?;
        *state = State::Removed;
        handle.close();
        Ok(true)
    }

    pub(super) fn moved(&self) -> Error {
        Error::DatabaseMoved { path: self.name.clone() }
    }

    fn removed(&self) -> Error {
        Error::DatabaseNotFound { path: self.path.clone() }
    }

    /// Checks the file's pages, which is slow, and then every record against the records that it refers to. The pages
    /// of a store that is open for reading are not checked: another process may be writing to the file.
    pub(crate) fn verify(&mut self) -> Result<VerifyReport> {
        let handle = self.handle()?;
        // redb checks pages only while there is no snapshot.
        let intact = handle.exclusively(|database| database.check_integrity().map_err(storage));
        let pages_checked = !matches!(intact, Ok(None));
        let checked = intact.and_then(|intact| {
            let mut report = verify::verify(handle.read()?.ok_or(Error::Closed)?.tables())?;
            if intact == Some(false) {
                report.problems.insert(0, "redb found damaged pages in the file".into());
            }
            Ok(report)
        });
        let mut report = match checked {
            Err(Error::Corrupted { what }) => VerifyReport { problems: self.damage(what), ..VerifyReport::default() },
            checked => checked?,
        };
        report.pages_checked = pages_checked;
        Ok(report)
    }

    /// Names all damaged pages of the file, or else the damage that was met.
    fn damage(&self, met: String) -> Vec<String> {
        match open::damaged_pages(&self.path, &self.config) {
            Ok(pages) if !pages.is_empty() => pages,
            _ => vec![met],
        }
    }

    /// Moves pages to the front of the file and returns the free space at its end to the file system.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the database is open for reading.
    pub(crate) fn compact(&mut self) -> Result<()> {
        let compacted = self.handle()?.exclusively(|database| database.compact().map_err(storage))?;
        compacted.map(drop).ok_or_else(|| Error::ReadOnly { path: self.path.clone() })
    }
}

/// Notes the keys of all tables, while the database is being copied.
fn all_keys(changes: &Option<Arc<Mutex<ChangedKeys>>>) -> Option<ChangeLog> {
    changes.as_ref().map(|keys| ChangeLog { keys: Arc::clone(keys), only: None })
}

fn merge(all: &mut ChangedKeys, more: ChangedKeys) {
    for (table, keys) in more {
        all.entry(table).or_default().extend(keys);
    }
}

/// Refuses an empty path, and the name by which SQLite opens a database in memory.
fn check_path(path: &Path) -> Result<()> {
    let reason = if path == Path::new(":memory:") {
        "\":memory:\" is not the path of a file; a database in memory is opened without a path; write \"./:memory:\" for \
         a file of this name"
    } else if path.as_os_str().is_empty() {
        "the path of the database is empty; give the path of a file, such as \"memory.redb\""
    } else {
        return Ok(());
    };
    Err(Error::InvalidConfig { reason: reason.into() })
}

fn foreign(path: &Path) -> Error {
    Error::NotADatabase { path: path.to_path_buf(), reason: "it is a database of another program".into() }
}

/// Creates an empty database under a temporary name, then gives it its own name: a process that is killed meanwhile
/// leaves no file that cannot be opened. It is locked before it has the name. Returns `None` if another process created
/// a file of this name first.
fn create_file(path: &Path, config: &Config) -> Result<Option<Opened<redb::Database>>> {
    let (new, opened) = open::create(path, config)?;
    create_tables(&opened)?;
    match new.name() {
        Ok(()) => Ok(Some(opened)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(open::failed(path, error)),
    }
}

/// Creates the tables of a new database.
pub(super) fn create_tables(opened: &Opened<redb::Database>) -> Result<()> {
    let tables = WriteTransaction::new(opened.database.begin_write().map_err(storage)?, None, false);
    upgrade::create(&tables)?;
    tables.commit()
}

/// Copies a file without pages of ours into one that has them, which takes its place.
fn copy_plain(path: &Path, config: &Config) -> Result<Opened<redb::Database>> {
    let Opened { database, pages, file } = open::plain(path, config)?;
    let copied = database.begin_read().map_err(storage).and_then(|snapshot| {
        match upgrade::version(&snapshot)? {
            Some(1..=codec::SCHEMA) => {}
            Some(found) => {
                return Err(Error::NewerSchema { path: path.to_path_buf(), found, supported: codec::SCHEMA });
            }
            None => return Err(foreign(path)),
        }
        let old = open::access(path)?;
        let (mut new, opened) = open::create(path, config)?;
        copy::copy(&snapshot, &opened.database).map_err(|error| opened.pages.explain(error))?;
        if file != Some(open::identity(path)?) {
            return Err(Error::Storage(format!("{}: the file was moved while it was upgraded", path.display()).into()));
        }
        new.replace(&old).and_then(|()| sync_folder(path)).map_err(|error| open::failed(path, error))?;
        Ok(opened)
    });
    copied.map_err(|error| pages.explain(error))
}
