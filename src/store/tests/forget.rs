//! The chain of receipts as it is stored, and names in databases of schema 6.

use crate::{
    config::{Config, Precision},
    ids::{ModelIdentity, Namespace},
    message::Message,
    store::{
        Store, namespace_counts,
        schema::*,
        tables::{ReadableTable, Tables},
    },
};

fn namespace(name: &str) -> Namespace {
    name.parse().unwrap()
}

#[test]
fn a_chain_that_was_tampered_with_is_found() {
    let mut store = Store::in_memory(&Config::default()).unwrap();
    for _ in 0..4 {
        store.write(|t| t.audit().record_purge(0)).unwrap();
    }
    assert!(store.read().unwrap().audit().read(0..u64::MAX).unwrap().is_sound());
    assert_eq!(store.verify().unwrap().problems, [""; 0]);
    store.write(|t| t.tables().table(AUDIT)?.remove(1).map(drop)).unwrap();
    let audit = store.read().unwrap().audit().read(0..u64::MAX).unwrap();
    assert!(audit.problems.iter().any(|problem| problem.contains("entry 1 is missing")), "{audit:?}");
    assert_eq!(audit.entries.len(), 3);
    assert!(!store.verify().unwrap().problems.is_empty());
    // An entry that does not decode, and one more at the end.
    store.write(|t| t.tables().table(AUDIT)?.insert(1, b"xxxx".as_slice()).map(drop)).unwrap();
    assert!(
        store
            .read()
            .unwrap()
            .audit()
            .read(0..u64::MAX)
            .unwrap()
            .problems
            .iter()
            .any(|problem| problem.contains("read"))
    );
}

#[test]
fn unused_names_go_with_the_upgrade_and_no_number_is_used_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.redb");
    let open = || Store::open(&path, &Config::default(), true).unwrap();
    let store = open();
    let identity = ModelIdentity { name: "none".into(), dimension: 2, hash: "00".into() };
    let generation = store.write(|t| t.generations().create_serving(&identity, Precision::F32)).unwrap().id;
    let put = |store: &Store, name: &str| {
        let messages = vec![(namespace(name), Message::user("a text").with_id("m"))];
        store.write(|t| t.edit_messages().put(&messages)).unwrap();
        store.read().unwrap().namespaces().id(&namespace(name)).unwrap().unwrap()
    };
    let numbers = ["a", "emptied", "b"].map(|name| put(&store, name));
    let back_to_schema_6 = |name: &str, number: u32| {
        store.write(|t| {
            t.edit_messages().delete(&namespace(name), &["m".to_owned()])?;
            t.tables().table(SESSIONS)?.remove_range((number, "")..(number + 1, ""))?;
            let mut meta = t.tables().table(META)?;
            meta.remove("next_namespace")?;
            meta.insert("schema", 6u32.to_le_bytes().as_slice())?;
            Ok(())
        })
    };
    back_to_schema_6("emptied", numbers[1].0).unwrap();
    drop(store);
    let store = open();
    let counts = namespace_counts(&store.read().unwrap(), Some(generation)).unwrap();
    assert_eq!(counts.iter().map(|counts| counts.namespace.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    for name in ["c", "emptied"] {
        let number = put(&store, name);
        assert!(!numbers.contains(&number), "{name}: {number:?}");
    }
    let names = store.read().unwrap().tables().table(NAMESPACES).unwrap().iter().unwrap().count();
    assert_eq!(names, 4);
}
