//! Moving to another model: in a running engine, and without one; back again; killed on the way.

mod offline;

use crate::support::{Db, message, namespace};

/// So many messages in each of two namespaces.
fn filled(count: usize) -> Db {
    let db = Db::new();
    let engine = db.open();
    for space in ["a", "b"] {
        let messages = (0..count).map(|i| message(&format!("m{i}"), &format!("word{i} {space}"))).collect();
        engine.blocking().put(&namespace(space), messages).unwrap();
    }
    engine.blocking().flush().unwrap();
    db
}
