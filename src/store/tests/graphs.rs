use crate::{
    config::{Config, Precision},
    error::{Error, Result},
    ids::{GenerationId, ModelIdentity, Namespace, NamespaceId},
    message::Message,
    store::{
        Embedded, HISTORY_START, PendingCursor, PendingMessage, Store,
        codec::Codec,
        graphs::seal,
        schema::*,
        tables::{ReadableTable, Tables},
    },
};

const NAMESPACE: NamespaceId = NamespaceId(0);

type Parts = Vec<(u32, Vec<u8>)>;

struct Db {
    store: Store,
    generation: GenerationId,
    _folder: tempfile::TempDir,
}

impl Db {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("a.redb"), &Config::default(), true).unwrap();
        let identity = ModelIdentity { name: "none".into(), dimension: 2, hash: "00".into() };
        let generation = store.write(|t| t.generations().create_serving(&identity, Precision::F32)).unwrap().id;
        Db { store, generation, _folder: folder }
    }

    /// Puts a version of each message and stores vectors for it, one per byte of `version`. Returns the rows.
    fn put(&self, ids: &[&str], version: &str) -> Vec<u32> {
        self.try_put(ids, version).unwrap()
    }

    fn try_put(&self, ids: &[&str], version: &str) -> Result<Vec<u32>> {
        let namespace: Namespace = "a".parse().unwrap();
        let messages: Vec<_> = ids.iter().map(|&id| (namespace.clone(), Message::user(version).with_id(id))).collect();
        self.store.write(|t| t.edit_messages().put(&messages)).unwrap();
        let pending =
            self.store.read().unwrap().pending().next(self.generation, &mut PendingCursor::default(), 100).unwrap();
        let embedded = |pending: &PendingMessage| Embedded {
            namespace: pending.namespace,
            revision: pending.revision,
            meta: pending.meta,
            vectors: vec![vec![1.0, 0.0]; pending.text.len()],
        };
        let batch: Vec<Embedded> = pending.iter().map(embedded).collect();
        let added = self.store.write(|t| t.vectors().add(self.generation, &batch))?;
        Ok(added.into_iter().flat_map(|new| new.rows).collect())
    }

    fn delete(&self, ids: &[&str]) {
        let ids: Vec<String> = ids.iter().map(|&id| id.to_owned()).collect();
        self.store.write(|t| t.edit_messages().delete(&"a".parse().unwrap(), &ids).map(drop)).unwrap();
    }

    fn free(&self) -> Vec<u32> {
        self.store.read().unwrap().rows().free(self.generation, NAMESPACE).unwrap()
    }

    /// The pages and the deltas.
    fn graph(&self) -> Result<Option<[Parts; 2]>> {
        let (mut pages, mut deltas) = (Vec::new(), Vec::new());
        let into = |all: &mut Parts, number, bytes: &[u8]| {
            all.push((number, bytes.to_vec()));
            Ok(())
        };
        let (page, delta) = (|n, b: &[u8]| into(&mut pages, n, b), |n, b: &[u8]| into(&mut deltas, n, b));
        let found = self.store.read()?.graphs().read(self.generation, NAMESPACE, page, delta)?;
        Ok(found.then_some([pages, deltas]))
    }

    fn delta(&self, payload: &[u8], freed: &[u32]) -> u32 {
        self.store.write(|t| t.graphs().add_delta(self.generation, NAMESPACE, payload, freed)).unwrap()
    }

    fn problems(&mut self) -> Vec<String> {
        self.store.verify().unwrap().problems
    }
}

/// Stored databases outlive releases: cases may be added here, but these bytes never change.
#[test]
fn golden_bytes() {
    let hex: String = seal(b"123456789").iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "4d6e03012639f4cb313233343536373839");
}

#[test]
fn parts_are_read_in_order_and_delta_numbers_only_ascend() {
    let mut db = Db::new();
    assert!(db.graph().unwrap().is_none());
    assert_eq!([db.delta(b"first", &[]), db.delta(b"", &[])], [0, 1]);
    let pages = vec![(7, vec![7; 70_000]), (2, vec![2])];
    db.store.write(|t| t.graphs().put_pages(db.generation, NAMESPACE, &pages)).unwrap();
    let [pages, deltas] = db.graph().unwrap().unwrap();
    assert_eq!(pages, [(2, vec![2]), (7, vec![7; 70_000])]);
    assert_eq!(deltas, [(0, b"first".to_vec()), (1, Vec::new())]);
    for through in [0, 0, 1, 9] {
        db.store.write(|t| t.graphs().remove_deltas(db.generation, NAMESPACE, through)).unwrap();
        let [_, deltas] = db.graph().unwrap().unwrap();
        assert_eq!(deltas.len(), if through == 0 { 1 } else { 0 });
    }
    assert_eq!(db.delta(b"next", &[]), 2);
    db.store.write(|t| t.graphs().put_pages(db.generation, NAMESPACE, &[(2, vec![3])])).unwrap();
    assert_eq!(db.graph().unwrap().unwrap()[0][0], (2, vec![3]));
    assert_eq!(db.problems(), [""; 0]);
    db.store.write(|t| t.graphs().remove(db.generation, NAMESPACE)).unwrap();
    assert!(db.graph().unwrap().is_none());
    assert_eq!(db.problems(), [""; 0]);
}

#[test]
fn a_damaged_part_is_named_in_errors_and_problems() {
    let mut db = Db::new();
    type Damage = fn(&mut Vec<u8>);
    let damages: [Damage; 5] = [
        |bytes| bytes.truncate(bytes.len() - 1),
        |bytes| *bytes.last_mut().unwrap() ^= 1,
        |bytes| bytes[4] ^= 0x80,
        |bytes| bytes.truncate(7),
        |bytes| bytes[2] = Codec::Rows as u8,
    ];
    let both = [(GRAPH_PAGES, "page 3"), (GRAPH_DELTAS, "delta 0")];
    for ((table, name), damage) in both.into_iter().flat_map(|part| damages.map(|damage| (part, damage))) {
        db.store.write(|t| t.graphs().remove(db.generation, NAMESPACE)).unwrap();
        db.store.write(|t| t.graphs().put_pages(db.generation, NAMESPACE, &[(3, b"page".to_vec())])).unwrap();
        let key = (db.generation.0, NAMESPACE.0, if name == "page 3" { 3 } else { db.delta(b"delta", &[]) });
        let mut bytes = seal(if name == "page 3" { b"page" } else { b"delta" });
        damage(&mut bytes);
        db.store.write(|t| t.tables().table(table)?.insert(key, bytes.as_slice()).map(drop)).unwrap();
        let error = db.graph().unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        let problems = db.problems();
        assert!(problems.iter().any(|problem| problem.contains(name)), "{problems:?}");
    }
    db.store.write(|t| t.graphs().remove(db.generation, NAMESPACE)).unwrap();
    (0..3).for_each(|number| assert_eq!(db.delta(b"delta", &[]), number));
    let remove = |key| db.store.write(|t| t.tables().table(GRAPH_DELTAS)?.remove(key).map(drop)).unwrap();
    remove((db.generation.0, NAMESPACE.0, 1));
    assert!(db.graph().unwrap_err().to_string().contains("delta 1 of a graph is missing"));
    remove((db.generation.0, NAMESPACE.0, 2));
    assert!(db.graph().unwrap_err().to_string().contains("delta 1 of a graph is missing"));
    let key = (db.generation.0, NAMESPACE.0);
    db.store.write(|t| t.tables().table(GRAPHS)?.remove(key).map(drop)).unwrap();
    assert!(db.problems()[0].contains("delta 0 of a graph that has no record"), "{:?}", db.problems());
}

#[test]
fn a_row_is_reused_when_no_link_leads_to_it() {
    let mut db = Db::new();
    // Each byte of the version is a window.
    assert_eq!(db.put(&["a", "b", "c"], "1"), [0, 1, 2]);
    db.delete(&["a", "c"]);
    assert_eq!(db.free(), [0, 2]);
    assert_eq!(db.put(&["d"], "1"), [0], "the lowest free row is reused first");
    assert_eq!(db.put(&["b"], "22"), [3, 4], "windows need consecutive rows");
    assert_eq!(db.free(), [1, 2]);
    assert_eq!(db.put(&["e", "f", "g"], "1"), [1, 2, 5], "when no row is free, a new one is used");
    assert_eq!(db.problems(), [""; 0]);

    db.delta(b"a graph", &[]);
    db.delete(&["d", "b"]);
    assert_eq!(db.free(), [0; 0], "links of the graph may lead to them");
    assert_eq!(db.put(&["h"], "1"), [6]);
    db.delta(b"links", &[4]);
    assert_eq!((db.free(), db.problems()), (vec![4], vec![]));
    assert_eq!(db.put(&["i"], "1"), [4]);
    db.store.write(|t| t.graphs().remove(db.generation, NAMESPACE)).unwrap();
    assert_eq!((db.free(), db.problems()), (vec![0, 3], vec![]));
}

#[test]
fn a_live_row_is_not_reused() {
    let mut db = Db::new();
    db.put(&["a", "b"], "1");
    db.delta(b"wrong", &[1]);
    assert!(db.problems()[0].contains("row 1 is free, but not dead"), "{:?}", db.problems());
    assert!(matches!(db.try_put(&["c"], "1"), Err(Error::Corrupted { .. })));
    db.store.write(|t| t.graphs().remove(db.generation, NAMESPACE)).unwrap();
    let key = (db.generation.0, NAMESPACE.0, 1);
    db.store.write(|t| t.tables().table(FREE_ROWS)?.remove(key).map(drop)).unwrap();
    db.delete(&["b"]);
    db.store.write(|t| t.tables().table(FREE_ROWS)?.remove(key).map(drop)).unwrap();
    assert!(db.problems()[0].contains("row 1 is dead, but not free"), "{:?}", db.problems());
}

#[test]
fn a_swept_generation_leaves_nothing() {
    let mut db = Db::new();
    let identity = ModelIdentity { name: "next".into(), dimension: 2, hash: "01".into() };
    db.put(&["a", "b"], "1");
    let next = db.store.write(|t| t.generations().begin_building(&identity, Precision::F32)).unwrap().id;
    db.store.write(|t| t.generations().seed(next, HISTORY_START, 100)).unwrap();
    db.delete(&["a"]);
    db.delta(b"delta", &[]);
    let pages: Vec<(u32, Vec<u8>)> = (0..10).map(|page| (page, vec![1; 100])).collect();
    db.store.write(|t| t.graphs().put_pages(db.generation, NAMESPACE, &pages)).unwrap();
    db.store.write(|t| t.generations().switch(next, false)).unwrap();
    let mut steps = 0;
    while db.store.write(|t| t.sweep(4)).unwrap() {
        steps += 1;
    }
    assert_eq!(steps, 4, "12 parts and blocks, then the small entries");
    assert!(db.graph().unwrap().is_none());
    assert_eq!((db.free(), db.problems().len()), (vec![], 0));
    let snapshot = db.store.read().unwrap();
    for table in [GRAPH_PAGES, GRAPH_DELTAS, VECTORS] {
        assert_eq!(snapshot.tables().table(table).unwrap().iter().unwrap().count(), 0);
    }
}
