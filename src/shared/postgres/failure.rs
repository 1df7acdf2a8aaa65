//! Errors of Postgres, by what they mean for a change.

use futures_util::future::join_all;
use tokio_postgres::error::SqlState;

use crate::error::{Error, Result};

/// The reason why a statement or a transaction failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another transaction was first: fewer rows than expected were changed, or a row existed already.
    Lost,
    /// The database asks to try again.
    Again(tokio_postgres::Error),
    /// The database answered with another error, and nothing was stored.
    Refused(tokio_postgres::Error),
    /// The database did not answer: the change may be stored.
    NoAnswer(String),
    /// No connection could be made: nothing was sent.
    NoConnection(String),
    /// The database cannot be used by this role or this release: nothing was sent.
    Unusable(String),
}

/// The remedy for a pooler that loses prepared statements, as the error says it.
const LOST_STATEMENT: &str = "a connection pooler in transaction mode lost a prepared statement; set \
     max_prepared_statements of PgBouncer (1.21 or newer) to 100 or more, or pool_mode to session, or give the address of the \
     server itself";

/// Errors that pass, after which nothing is stored: a serialization failure, a deadlock, a timeout of a statement, which
/// may also be cancelled, and one of a lock.
const AGAIN: [&str; 4] = ["40001", "40P01", "57014", "55P03"];
/// Errors with which a session ends: by an administrator, a crash, a shutdown, a lost connection, or a timeout of an idle
/// session, of one that is idle in a transaction, or of a transaction. They do not tell whether a commit that was under
/// way took place.
const ENDED: [&str; 8] = ["57P01", "57P02", "57P03", "57P05", "08006", "08003", "25P03", "25P04"];
/// Errors of a server that is no primary, any more or yet, or that has no connection left: another one may be found.
const ELSEWHERE: [&str; 2] = ["25006", "53300"];

impl Failure {
    /// Returns the failure of the statements that prepare a connection.
    pub(super) fn before(error: Error) -> Self {
        match error {
            Error::SharedDatabase { reason, transient: true } => Failure::NoConnection(reason),
            Error::SharedDatabase { reason, transient: false } => Failure::Unusable(reason),
            other => Failure::Unusable(other.to_string()),
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            None if error.is_closed() || error.as_db_error().is_none() => match conversion(&error) {
                true => Failure::Refused(error),
                false => Failure::NoAnswer(cause(&error)),
            },
            Some(&SqlState::UNIQUE_VIOLATION) => Failure::Lost,
            Some(&SqlState::INVALID_SQL_STATEMENT_NAME | &SqlState::DUPLICATE_PSTATEMENT) => {
                Failure::Unusable(LOST_STATEMENT.into())
            }
            Some(code) if AGAIN.contains(&code.code()) => Failure::Again(error),
            Some(code) if ENDED.contains(&code.code()) => Failure::NoAnswer(cause(&error)),
            Some(code) if ELSEWHERE.contains(&code.code()) => Failure::NoConnection(cause(&error)),
            _ => Failure::Refused(error),
        }
    }
}

impl From<deadpool_postgres::PoolError> for Failure {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) if is_refused(&error) => Failure::Unusable(cause(&error)),
            deadpool_postgres::PoolError::Backend(error) => Failure::NoConnection(cause(&error)),
            other => Failure::NoConnection(other.to_string()),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let (reason, transient) = match failure {
            Failure::Lost => ("another machine changed the same at the same time".to_owned(), true),
            Failure::Again(error) => (cause(&error), true),
            Failure::Refused(error) => (cause(&error), false),
            Failure::Unusable(reason) => (reason, false),
            Failure::NoAnswer(reason) | Failure::NoConnection(reason) => (reason, true),
        };
        Error::SharedDatabase { reason, transient }
    }
}

/// Returns true if the server, or this machine, refuses a connection and will again: the role or the database does not
/// exist (classes 28 and 3D), the password is wrong or missing, a certificate is not trusted, or TLS is missing.
fn is_refused(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    let is_invalid = |source: &(dyn std::error::Error + 'static)| {
        source.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::InvalidData)
    };
    error.code().is_some_and(|code| ["28", "3D"].contains(&&code.code()[..2]))
        || ["authentication error", "invalid configuration"].iter().any(|kind| text.starts_with(kind))
        || (text.starts_with("error performing TLS handshake")
            && (std::error::Error::source(error).is_some_and(is_invalid)
                || cause(error).contains("server does not support TLS")))
}

/// Returns true if a value could not be sent or read: the connection is not at fault.
fn conversion(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    text.starts_with("error serializing parameter") || text.starts_with("error deserializing column")
}

/// The end of the client's error about a server that stores nothing.
const READ_ONLY: &str = "database does not allow writes";

/// The message of an error with its causes. It has neither the address nor a password, nor a stored text: the details
/// of a database's error quote rows.
pub(super) fn cause(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(error);
            while let Some(error) = source {
                text = format!("{text}: {error}");
                source = error.source();
            }
            if text.ends_with(READ_ONLY) {
                text.push_str("; it is a standby or is read-only: name the primary, or all hosts of the cluster");
            }
            text
        }
    }
}

pub(super) fn ours<T>(result: std::result::Result<T, Failure>) -> Result<T> {
    result.map_err(Error::from)
}

/// Waits for all statements of a transaction. Returns the error of the first that failed: those after it are only told
/// that the transaction was aborted.
pub(super) async fn all<T>(
    statements: impl Iterator<Item = impl Future<Output = std::result::Result<T, tokio_postgres::Error>>>,
) -> std::result::Result<Vec<T>, tokio_postgres::Error> {
    join_all(statements).await.into_iter().collect()
}
