//! SQLite databases, in which some programs keep their conversations. They are opened to read alone, also beside the program
//! that writes them, and each query sees what was committed before it.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, Params, Row, types::ValueRef};
use tempfile::TempDir;

use crate::error::{Error, Result};

/// How a database begins.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The place in the file of the mark of databases with a log, and the mark.
const LOG_MARK: (usize, u8) = (18, 2);
/// The ends of the names of the files that SQLite keeps beside a database, of which the first is its log.
pub(super) const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];
/// How long a query waits for a writer.
const PATIENCE: Duration = Duration::from_secs(5);

/// An open database.
pub(super) struct Database {
    name: String,
    connection: Connection,
    /// The folder of the copy that is open in the place of the file.
    _copy: Option<TempDir>,
}

impl Database {
    /// Opens the file at a path, or a temporary copy of its bytes if it has none: it is in an archive, compressed, or a stream.
    /// Returns `None` if it does not begin as a database.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub(super) fn open<R: Read>(
        name: &str,
        head: &[u8],
        path: Option<&Path>,
        bytes: impl FnOnce() -> R,
    ) -> Result<Option<Self>> {
        if !head.starts_with(MAGIC) {
            return Ok(None);
        }
        let has_log = head.get(LOG_MARK.0) == Some(&LOG_MARK.1);
        let opened = match path {
            Some(path) => connect(path, has_log).map(|connection| (connection, None)).or_else(|error| {
                // A database with a log needs files beside it, which a folder that is read-only does not take.
                let is_refused = matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly));
                if is_refused { copied(path, has_log) } else { Err(error.into()) }
            }),
            None => spooled(bytes(), has_log),
        };
        let (connection, copy) = opened.map_err(|error| failed(name, error))?;
        Ok(Some(Database { name: name.to_owned(), connection, _copy: copy }))
    }

    /// Returns whether the database has tables of these names.
    pub(super) fn has_tables(&self, names: &[&str]) -> Result<bool> {
        // A view, or a table of a module, could have no end.
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'";
        let tables = self.rows(sql, [], |row| text(row, "name"))?;
        Ok(names.iter().all(|name| tables.iter().any(|table| table == name)))
    }

    /// Returns what `read` makes of each row that a query finds.
    pub(super) fn rows<T>(&self, sql: &str, params: impl Params, read: impl Fn(&Row<'_>) -> T) -> Result<Vec<T>> {
        let rows = self.connection.prepare(sql).and_then(|mut query| {
            let rows = query.query_map(params, |row| Ok(read(row)))?;
            rows.collect()
        });
        rows.map_err(|error| failed(&self.name, error))
    }
}

/// Returns a text of a row, which is empty if the column is missing or has none.
pub(super) fn text(row: &Row<'_>, column: &str) -> String {
    String::from_utf8_lossy(bytes(row, column)).into_owned()
}

/// Returns the bytes of a text or a blob of a row.
pub(super) fn bytes<'r>(row: &'r Row<'_>, column: &str) -> &'r [u8] {
    match row.get_ref(column) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes,
        _ => &[],
    }
}

fn failed(name: &str, error: impl Into<OpenError>) -> Error {
    let reason = match error.into() {
        OpenError::Sqlite(error) => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => format!(
                "the SQLite database is damaged ({error}); copy it again with its -wal file, or recover it with `sqlite3 {name} .recover`"
            ),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                format!("another program has locked the SQLite database ({error}); end the program, or read a copy")
            }
            _ => format!("the SQLite database cannot be read: {error}"),
        },
        OpenError::File(error) => error.to_string(),
    };
    Error::file(name, 0, reason)
}

enum OpenError {
    Sqlite(rusqlite::Error),
    File(io::Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        OpenError::Sqlite(error)
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        OpenError::File(error)
    }
}

type Opened = std::result::Result<(Connection, Option<TempDir>), OpenError>;

fn connect(path: &Path, has_log: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // Without its log, no program has the database open, and a reader would leave files beside it.
    let alone = path.to_str().filter(|_| has_log && !beside(path, BESIDE[0]).exists());
    let connection = match alone {
        Some(path) => Connection::open_with_flags(immutable(path), flags | OpenFlags::SQLITE_OPEN_URI),
        None => Connection::open_with_flags(path, flags),
    }?;
    connection.busy_timeout(PATIENCE)?;
    // The schema is of a stranger.
    connection
        .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; SELECT 1 FROM sqlite_schema;")?;
    Ok(connection)
}

/// Returns the address of a database that nobody changes.
fn immutable(path: &str) -> String {
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let path = if cfg!(windows) { format!("/{}", path.replace('\\', "/")) } else { path };
    format!("file:{path}?immutable=1")
}

/// Returns the path of a file that SQLite keeps beside a database.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

/// Returns whether a path is that of a file beside a database, which has no messages of its own.
pub(super) fn is_beside(path: &Path) -> bool {
    let name = path.to_str().unwrap_or_default();
    BESIDE.iter().any(|end| {
        let mut first = [0; MAGIC.len()];
        let database = name.strip_suffix(end).and_then(|database| File::open(database).ok());
        database.is_some_and(|mut file| file.read_exact(&mut first).is_ok()) && first == MAGIC
    })
}

/// Opens a copy of a database and its log.
fn copied(path: &Path, has_log: bool) -> Opened {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("database");
    fs::copy(path, &copy)?;
    if let Err(error) = fs::copy(beside(path, BESIDE[0]), beside(&copy, BESIDE[0]))
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error.into());
    }
    Ok((connect(&copy, has_log)?, Some(folder)))
}

/// Opens a copy of the bytes of a file.
fn spooled(mut bytes: impl Read, has_log: bool) -> Opened {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("database");
    io::copy(&mut bytes, &mut File::create(&copy)?)?;
    Ok((connect(&copy, has_log)?, Some(folder)))
}
