use crate::{
    config::{Config, Precision},
    ids::{GenerationId, ModelIdentity, Namespace, NamespaceId},
    message::Message,
    store::{
        Embedded, HISTORY_START, PendingCursor, Store, codec,
        generations::records,
        schema::*,
        tables::{ReadableTable, Tables},
        verify::verify,
    },
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
    let begin = || {
        let begun = store.write(|t| t.generations().begin_building(&identity("new"), Precision::F32)).unwrap();
        (begun.id, begun.state)
    };
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
    let third = store.write(|t| t.generations().begin_building(&identity("third"), Precision::F32)).unwrap();
    assert_ne!(third.id, new);
    while store.write(|t| t.sweep(4)).unwrap() {}
    assert_eq!(pending(new), []);
}

/// A generation of an earlier release keeps its large blocks, and its rows are found by them.
#[test]
fn a_generation_with_large_blocks_is_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.redb");
    let store = Store::open(&path, &Config::default(), true).unwrap();
    let identity = ModelIdentity { name: "none".into(), dimension: 256, hash: "00".into() };
    let put = |store: &Store, ids: std::ops::Range<usize>| {
        let namespace: Namespace = "a".parse().unwrap();
        let message = |id: usize| (namespace.clone(), Message::user("a text").with_id(format!("m{id}")));
        store.write(|t| t.edit_messages().put(&ids.map(message).collect::<Vec<_>>())).unwrap();
        let generation = store.read().unwrap().generations().serving().unwrap().unwrap();
        let pending = store.read().unwrap().pending().next(generation.id, &mut PendingCursor::default(), 1000).unwrap();
        let batch: Vec<Embedded> = pending
            .into_iter()
            .map(|pending| {
                let mut vector = vec![0.0; 256];
                vector[pending.meta.seq as usize % 256] = 1.0;
                Embedded {
                    namespace: pending.namespace,
                    revision: pending.revision,
                    meta: pending.meta,
                    vectors: vec![vector],
                }
            })
            .collect();
        store.write(|t| t.vectors().add(generation.id, &batch)).unwrap();
    };
    // As schema 9 wrote it.
    let serving = store.write(|t| t.generations().create_serving(&identity, Precision::F16)).unwrap();
    let [(id, record)] = &records(&store.read().unwrap().tables().table(GENERATIONS).unwrap()).unwrap()[..] else {
        panic!("one generation was made")
    };
    let old = codec::encode(&GenerationRecord { layout: 2, ..record.clone() });
    store.write(|t| t.tables().table(GENERATIONS)?.insert(id.0, old.as_slice()).map(drop)).unwrap();
    store.write(|t| t.tables().table(META)?.insert("schema", 9u32.to_le_bytes().as_slice()).map(drop)).unwrap();
    put(&store, 0..300);
    drop(store);

    let store = Store::open(&path, &Config::default(), true).unwrap();
    put(&store, 300..400);
    let snapshot = store.read().unwrap();
    assert_eq!(snapshot.tables().table(VECTORS).unwrap().len().unwrap(), 4, "121 rows are in a block");
    let generation = snapshot.generations().serving().unwrap().unwrap();
    assert_eq!(generation.id, serving.id);
    let check = |row: usize, vector: Vec<f32>| assert_eq!(vector.iter().position(|x| *x == 1.0), Some(row % 256));
    let mut rows = 0;
    snapshot
        .vectors()
        .scan(&generation, NamespaceId(0), 0..u32::MAX, |row| {
            let mut vector = Vec::new();
            row.append_to(&mut vector);
            check(rows, vector);
            rows += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(rows, 400);
    let wanted = [399, 0, 121, 242];
    snapshot
        .vectors()
        .get(&generation, NamespaceId(0), &wanted, |at, row| {
            let mut vector = Vec::new();
            row.append_to(&mut vector);
            check(wanted[at] as usize, vector);
        })
        .unwrap();
    assert_eq!(verify(snapshot.tables()).unwrap().problems, [""; 0]);
}
