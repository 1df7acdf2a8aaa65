use std::sync::Mutex;

use crate::{
    config::Config,
    ids::{Namespace, NamespaceId},
    message::Message,
    store::{
        Names, Outcome, Sharing, Store, Target, Transaction, dump,
        schema::TESTED,
        tables::{ReadableTable, Tables},
    },
};

fn put(t: &Transaction, name: &str, value: u64) -> crate::error::Result<NamespaceId> {
    let name: Namespace = name.parse().unwrap();
    t.edit_messages().put(&[(name.clone(), Message::user("a"))])?;
    let id = t.namespaces().id(&name)?.unwrap();
    t.tables().table(TESTED)?.insert((id.0, 7), value)?;
    Ok(id)
}

/// The values of the table that was added for this test, in the order of their keys.
fn values(store: &Store) -> Vec<u64> {
    let snapshot = store.read().unwrap();
    let table = snapshot.tables().table(TESTED).unwrap();
    table.iter().unwrap().map(|entry| entry.unwrap().1.value()).collect()
}

/// A new table is one entry of the registry. All that walks tables meets it.
#[test]
fn a_table_that_is_added_is_created_copied_captured_deleted_and_dumped() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::default();
    let open = |name: &str| Store::open(&folder.path().join(name), &config, true).unwrap();
    let store = open("a.redb");
    assert_eq!(values(&store), [0; 0], "it is created");
    let (a, _) = store.write(|t| Ok((put(t, "a", 1)?, put(t, "b", 2)?))).unwrap();
    let dumped = dump(&store.read().unwrap());
    assert_eq!(dumped.iter().find(|(table, _)| table == "tested").unwrap().1.len(), 2 * (8 + 8), "it is dumped");

    store.backup(&folder.path().join("copy.redb"), &config).unwrap();
    assert_eq!(values(&open("copy.redb")), [1, 2], "it is copied");
    store.purge().unwrap();
    assert_eq!(values(&store), [1, 2], "a purge keeps it");

    let [primary, replica] = [(); 2].map(|()| Store::in_memory(&config).unwrap());
    let (names, pushed) = (Names::default(), Mutex::new(Vec::new()));
    let commit = |change: &dyn Fn(&Transaction) -> crate::error::Result<()>| {
        let mut push = |sharing: Sharing| {
            pushed.lock().unwrap().extend(sharing.changes);
            Ok(true)
        };
        let committed = primary.commit(Target::Primary(&names, &mut push), change).unwrap();
        assert_eq!(committed, Outcome::Committed(()));
        for change in pushed.lock().unwrap().drain(..) {
            assert!(replica.write(|t| t.apply_changes().apply(&change)).unwrap());
        }
    };
    commit(&|t| put(t, "a", 3).map(drop));
    assert_eq!(values(&replica), [3], "it is captured and applied");
    commit(&|t| {
        let id = t.namespaces().id(&"a".parse().unwrap())?.unwrap();
        t.tables().table(TESTED)?.remove((id.0, 7)).map(drop)
    });
    assert_eq!(values(&replica), [0; 0], "so is the removal of an entry");

    store.write(|t| t.namespaces().delete(&[("a".parse().unwrap(), a)])).unwrap();
    assert_eq!(values(&store), [2], "it is deleted with its namespace, and no other");
    let mut store = store;
    assert_eq!(store.verify().unwrap().problems, [""; 0]);
    store.write(|t| t.tables().table(TESTED)?.insert((a.0, 7), 1).map(drop)).unwrap();
    assert_eq!(
        store.verify().unwrap().problems,
        ["table tested: entries of a namespace that does not exist"],
        "what deletion would leave is found"
    );
}
