//! [`Unit`]: a recall finds messages, turns or sessions.

use std::{fmt, str::FromStr};

use crate::error::{Error, Result};

/// The least number of messages that are chosen before they are joined to sessions.
const SESSION_MESSAGES: usize = 100;
/// The number of messages that are chosen for each session.
const MESSAGES_EACH: usize = 5;

/// The kind of thing that a recall finds and that k counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Single messages.
    #[default]
    Message,
    /// Turns: a user's message with everything up to the next one in its session, such as the answer and the results of
    /// tools. In a chat between people, all of them users, a message each.
    Turn,
    /// Whole sessions. A hybrid recall ranks them by the sum of the odds of their five best messages.
    Session,
}

impl FromStr for Unit {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "message" => Ok(Unit::Message),
            "turn" => Ok(Unit::Turn),
            "session" => Ok(Unit::Session),
            _ => Err(Error::query(format!("unit {name:?} is not one of message, turn, session"))),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Message => "message",
            Unit::Turn => "turn",
            Unit::Session => "session",
        })
    }
}

impl Unit {
    /// Returns the number of messages to choose for this many units.
    pub(super) fn messages(self, units: usize) -> usize {
        match self {
            Unit::Message => units,
            Unit::Turn => 2 * units,
            Unit::Session => (MESSAGES_EACH * units).max(SESSION_MESSAGES),
        }
    }
}
