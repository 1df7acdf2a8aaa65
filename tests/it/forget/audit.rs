//! Receipts, and their chain.

use mnemon::{AuditEvent, Forget, ForgetTarget, Receipt};

use super::*;
use crate::support::{Db, message};

#[test]
fn each_call_has_a_receipt_without_content_in_a_chain() {
    let db = Db::new();
    let engine = db.open();
    let put = |ids: &[&str]| {
        let messages = ids.iter().map(|id| message(id, &format!("text of {id}"))).collect();
        engine.blocking().put(&space(), messages).unwrap();
        engine.blocking().flush().unwrap();
    };
    put(&["secret-1", "secret-2", "secret-3"]);
    let first = receipt(&engine, Forget::messages(&space(), ["secret-1", "unknown"]));
    let held = engine.blocking().hold(&space(), "a reason").unwrap();
    let released = engine.blocking().release(&space()).unwrap().unwrap();
    let last = receipt(&engine, Forget::namespace(&space()));
    let (forgotten, requested) = match &first.event {
        AuditEvent::Forget { forgotten, requested, complete: true, nothing_found: false, .. } => (forgotten, requested),
        other => panic!("{other:?}"),
    };
    assert_eq!(*requested, ForgetTarget::Messages { ids: 2 });
    assert_eq!((forgotten.messages, forgotten.vectors, forgotten.namespaces), (1, 1, 0));
    assert!(forgotten.segments == 1 && forgotten.cached > 0, "{forgotten:?}");
    assert_eq!((last.forgotten().messages, last.forgotten().namespaces), (2, 1));
    match (&held.event, &released.event) {
        (AuditEvent::Hold { hold }, AuditEvent::Release { hold: same }) => assert_eq!(hold, same),
        other => panic!("{other:?}"),
    }
    let audit = engine.blocking().audit().unwrap();
    assert_eq!(audit.entries, [first.clone(), held, released, last.clone()]);
    assert!(audit.is_sound() && audit.find(&last.hash) == Some(&last) && audit.find("").is_none());
    assert!(audit.entries.windows(2).all(|pair| pair[0].hash == pair[1].previous));
    assert_eq!(first.previous, "0".repeat(64));
    let text = serde_json::to_string(&audit.entries).unwrap();
    for secret in ["secret", "unknown", "user-42", "acme", "reason"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(serde_json::from_str::<Vec<Receipt>>(&text).unwrap(), audit.entries);
    // Beside the engine, and after it.
    assert_eq!(mnemon::audit(&db.path).unwrap(), audit);
    drop(engine);
    assert_eq!(db.open().blocking().audit().unwrap(), audit);
}

#[test]
fn a_request_that_finds_nothing_says_so_in_its_receipt() {
    let db = Db::new();
    let engine = db.open();
    engine.blocking().put(&space(), vec![message("m1", "a boat")]).unwrap();
    let nothing_found = |what: Forget| match receipt(&engine, what).event {
        AuditEvent::Forget { nothing_found, complete: true, .. } => nothing_found,
        other => panic!("{other:?}"),
    };
    let unknown = crate::support::namespace("acme/user-24");
    for what in [Forget::namespace(&unknown), Forget::prefix(&unknown), Forget::messages(&unknown, ["m1"])] {
        assert!(nothing_found(what.clone()), "{what:?}");
    }
    assert!(nothing_found(Forget::messages(&space(), ["m2"])));
    assert!(nothing_found(Forget::session(&space(), "monday")));
    assert!(!nothing_found(Forget::namespace(&space())));
    // A repeated request is no error.
    assert!(nothing_found(Forget::namespace(&space())));
    let audit = engine.blocking().audit().unwrap();
    assert!(audit.is_sound(), "{:?}", audit.problems);
}

#[test]
fn many_messages_are_forgotten_in_several_commits() {
    let db = Db::new();
    let engine = db.open();
    let count = 9000;
    let messages = (0..count).map(|at| message(&format!("m{at}"), &format!("text {at}"))).collect();
    engine.blocking().put(&space(), messages).unwrap();
    engine.blocking().put(&space(), vec![message("kept", "text of another kind")]).unwrap();
    engine.blocking().flush().unwrap();
    let filter = mnemon::MetadataFilter::ne("$id", "kept").unwrap();
    let receipt = receipt(&engine, Forget::matching(&space(), filter));
    let counts = receipt.forgotten();
    assert_eq!((counts.messages, counts.vectors, counts.sessions), (count, count, 0));
    let entries = engine.blocking().audit().unwrap().entries;
    let complete: Vec<_> = entries
        .iter()
        .map(|entry| match entry.event {
            AuditEvent::Forget { complete, forgotten, .. } => (complete, forgotten.messages),
            _ => panic!("{entry:?}"),
        })
        .collect();
    assert_eq!(complete, [(false, 4096), (false, 8192), (true, 9000)]);
    assert_eq!(engine.blocking().count_namespaces(None).unwrap().messages, 1);
    drop(engine);
    assert_eq!(db.assert_sound().vectors, 1);
}
