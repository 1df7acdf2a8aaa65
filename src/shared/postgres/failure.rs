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
            Some(&SqlState::DIVISION_BY_ZERO | &SqlState::UNIQUE_VIOLATION) => Failure::Lost,
            Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => Failure::Again(error),
            // The session ended. The error does not tell whether a commit that was under way took place.
            Some(code) if ["57P01", "57P02", "57P03", "08006", "08003", "25P03"].contains(&code.code()) => {
                Failure::NoAnswer(cause(&error))
            }
            _ => Failure::Refused(error),
        }
    }
}

impl From<deadpool_postgres::PoolError> for Failure {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            // Classes 28 and 3D: the role or the database does not exist, or the password is wrong.
            deadpool_postgres::PoolError::Backend(error)
                if error.code().is_some_and(|code| ["28", "3D"].contains(&&code.code()[..2])) =>
            {
                Failure::Unusable(cause(&error))
            }
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

/// Returns true if a value could not be sent or read: the connection is not at fault.
fn conversion(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    text.starts_with("error serializing parameter") || text.starts_with("error deserializing column")
}

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
