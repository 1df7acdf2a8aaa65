use crate::{
    config::{Config, Durability},
    ids::Namespace,
    message::Message,
    store::{
        Store,
        faulty::{self, Call},
    },
};

/// Returns the syncs of creating a database, of a commit, and of closing, which are all that a power failure respects.
fn syncs(durability: Durability) -> [u64; 3] {
    let folder = tempfile::tempdir().unwrap();
    let plan = faulty::plan(folder.path());
    let counted = || {
        let count = plan.count(Some(Call::Sync));
        plan.fail(None);
        count
    };
    let store = Store::open(&folder.path().join("a.redb"), &Config::default().durability(durability), true).unwrap();
    let created = counted();
    let namespace: Namespace = "a".parse().unwrap();
    store.write(|t| t.edit_messages().put(&[(namespace.clone(), Message::user("text"))])).unwrap();
    let committed = counted();
    drop(store);
    [created, committed, counted()]
}

#[test]
fn commits_are_synced_unless_only_kills_are_to_be_survived() {
    let ([created, committed, closed], process) = (syncs(Durability::Disk), syncs(Durability::Process));
    assert!(created > 0 && closed > 0, "{created} {closed}");
    assert_eq!(committed, 1);
    assert_eq!(process, [created, 0, closed]);
}
