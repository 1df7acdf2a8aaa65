use crate::{
    config::{Config, Precision},
    ids::{GenerationId, ModelIdentity, Namespace},
    message::Message,
    store::{HISTORY_START, PendingCursor, Store, schema::*, tables::Tables, verify::verify},
};

/// Messages are put, replaced and deleted during seeding, before and behind its position.
#[test]
fn a_generation_contains_changes_made_during_its_seeding() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("a.redb"), &Config::default(), true).unwrap();
    let identity = |name: &str| ModelIdentity { name: name.into(), dimension: 2, hash: name.into() };
    store.write(|t| t.generations().create_serving(&identity("old"), Precision::F32)).unwrap();
    let namespace: Namespace = "a".parse().unwrap();
    let put = |session: &str, id: &str, text: &str| {
        let message = Message::user(text).with_id(id).in_session(session);
        store.write(|t| t.edit_messages().put(&[(namespace.clone(), message)])).unwrap();
    };
    let pending = |generation: GenerationId| {
        let pending = store.read().unwrap().pending().next(generation, &mut PendingCursor::default(), 100).unwrap();
        let mut texts: Vec<(String, String)> =
            pending.into_iter().map(|found| (found.id, found.text.to_string())).collect();
        texts.sort();
        texts
    };
    for session in ["s", "t"] {
        (0..4).for_each(|i| put(session, &format!("{session}{i}"), "text"));
    }
    let begin = || store.write(|t| t.generations().begin_building(&identity("new"), Precision::F32)).unwrap();
    let (new, state) = begin();
    assert_eq!(state, GenerationState::Begun);
    let next = store.write(|t| t.generations().seed(new, HISTORY_START, 5)).unwrap().unwrap();
    assert_eq!(pending(new).len(), 5);
    put("s", "s1", "changed");
    put("t", "t3", "changed");
    put("s", "s9", "new");
    put("t", "t9", "new");
    store.write(|t| t.edit_messages().delete(&namespace, &["s2".into(), "t2".into()])).unwrap();
    assert_eq!(verify(store.read().unwrap().tables()).unwrap().problems, [""; 0]);
    // A process that was killed here begins again.
    assert_eq!(begin(), (new, GenerationState::Begun));
    store.write(|t| t.generations().seed(new, HISTORY_START, 2)).unwrap().unwrap();
    assert_eq!(store.write(|t| t.generations().seed(new, next, 100)).unwrap(), None);
    assert_eq!(begin(), (new, GenerationState::Building));
    assert_eq!(pending(new), pending(GenerationId(1)));
    assert_eq!(pending(new).len(), 8);
    assert_eq!(verify(store.read().unwrap().tables()).unwrap().problems, [""; 0]);
    // In a generation that is building, every message needs a pending entry.
    put("s", "s9", "changed");
    store.write(|t| t.tables().table(PENDING)?.remove((new.0, 0, 0)).map(drop)).unwrap();
    assert_eq!(verify(store.read().unwrap().tables()).unwrap().problems.len(), 1);
    // Another model retires it.
    let (third, _) = store.write(|t| t.generations().begin_building(&identity("third"), Precision::F32)).unwrap();
    assert_ne!(third, new);
    while store.write(|t| t.sweep(4)).unwrap() {}
    assert_eq!(pending(new), []);
}
