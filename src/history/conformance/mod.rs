//! The conformance test for history stores.

mod expect;
mod rules;
mod sample_messages;

use super::store::HistoryStore;
use rules::RULES;

/// Tests that an implementation keeps the contract of [`HistoryStore`], except for what only a crash could show.
///
/// `make` must return a new empty store on each call. Cost: about 300 writes.
///
/// # Panics
/// If the store breaks a rule. The panic message contains the rule and what the store did.
///
/// ```
/// use mnemon::{HistoryStore, InMemoryHistory, Message, Result, check_history_store};
///
/// /// Prints every write.
/// struct PrintingHistory(InMemoryHistory);
///
/// impl HistoryStore for PrintingHistory {
///     fn sessions(&self) -> Result<Vec<String>> {
///         self.0.sessions()
///     }
///     fn messages(&self, session: &str) -> Result<Vec<Message>> {
///         self.0.messages(session)
///     }
///     fn append(&self, session: &str, messages: &[Message]) -> Result<()> {
///         println!("append {} messages to {session}", messages.len());
///         self.0.append(session, messages)
///     }
///     fn set(&self, session: &str, messages: &[Message]) -> Result<()> {
///         println!("set {session} to {} messages", messages.len());
///         self.0.set(session, messages)
///     }
///     fn delete(&self, session: &str) -> Result<()> {
///         println!("delete {session}");
///         self.0.delete(session)
///     }
/// }
///
/// // In a test:
/// check_history_store(|| Box::new(PrintingHistory(InMemoryHistory::new())));
/// ```
pub fn check_history_store(make: impl Fn() -> Box<dyn HistoryStore>) {
    for (rule, test) in RULES {
        if let Err(fault) = test(&*make()) {
            panic!("the history store breaks the rule {rule:?}: {fault}");
        }
    }
}
