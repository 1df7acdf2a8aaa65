//! The graph of a namespace: pages, and deltas that change them. The store does not know what their bytes say.
//!
//! A graph is there if it has a record. What it is, is its pages in order, then its deltas in order; a delta is dropped
//! when pages have been written that say what it said. Each part is stored behind its checksum, as links that a flipped
//! bit has bent lead astray and fail nowhere.

use std::collections::{BTreeMap, BTreeSet};

use redb::{ReadableTable, Table};

use super::{
    Snapshot, Transaction,
    codec::{self, Codec, HEADER_BYTES},
    schema::*,
    storage,
    verify::VerifyReport,
};
use crate::{
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
};

const CHECKSUM_BYTES: usize = 4;

/// A part as it is stored: header, CRC-32 of the payload, little endian, payload.
fn seal(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + CHECKSUM_BYTES + payload.len());
    bytes.extend(codec::header(Codec::Graph));
    bytes.extend(crc32fast::hash(payload).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// The payload of a part. `what` names it: "page 3", say.
fn open<'a>(bytes: &'a [u8], what: &str, number: u32) -> Result<&'a [u8]> {
    let named = |reason: String| Error::corrupted(format!("{what} {number} of a graph: {reason}"));
    let sealed = codec::payload(Codec::Graph, bytes).map_err(|_| named("it does not begin as one".into()))?;
    let (checksum, payload) =
        sealed.split_first_chunk::<CHECKSUM_BYTES>().ok_or_else(|| named(format!("it has {} bytes", bytes.len())))?;
    match crc32fast::hash(payload) == u32::from_le_bytes(*checksum) {
        true => Ok(payload),
        false => Err(named("its checksum is wrong".into())),
    }
}

fn read_record(
    table: &impl ReadableTable<(u32, u32), &'static [u8]>,
    GenerationId(generation): GenerationId,
    NamespaceId(namespace): NamespaceId,
) -> Result<Option<GraphRecord>> {
    let value = table.get((generation, namespace)).map_err(storage)?;
    value.map(|value| codec::decode(value.value())).transpose()
}

fn write_record(
    table: &mut Table<'_, (u32, u32), &'static [u8]>,
    GenerationId(generation): GenerationId,
    NamespaceId(namespace): NamespaceId,
    record: &GraphRecord,
) -> Result<()> {
    table.insert((generation, namespace), codec::encode(record).as_slice()).map_err(storage)?;
    Ok(())
}

impl Transaction {
    /// Stores a change of a graph under the next number, and makes one if there is none. `freed` are dead rows that nothing
    /// in the graph leads to any more: they may be given again. Returns the number; none is given twice while the graph is
    /// there.
    pub(crate) fn add_graph_delta(
        &mut self,
        generation: GenerationId,
        namespace: NamespaceId,
        payload: &[u8],
        freed: &[u32],
    ) -> Result<u32> {
        let mut graphs = self.table(GRAPHS)?;
        let mut record = read_record(&graphs, generation, namespace)?.unwrap_or_default();
        let number = record.next_delta;
        record.next_delta = number.checked_add(1).ok_or_else(|| Error::corrupted("a graph is out of deltas"))?;
        write_record(&mut graphs, generation, namespace, &record)?;
        let key = (generation.0, namespace.0, number);
        self.table(GRAPH_DELTAS)?.insert(key, seal(payload).as_slice()).map_err(storage)?;
        let mut free = self.table(FREE_ROWS)?;
        for &row in freed {
            free.insert((generation.0, namespace.0, row), ()).map_err(storage)?;
        }
        Ok(number)
    }

    /// Stores pages of a graph in place of those of these numbers, and makes a graph if there is none.
    pub(crate) fn put_graph_pages(
        &mut self,
        generation: GenerationId,
        namespace: NamespaceId,
        pages: &[(u32, Vec<u8>)],
    ) -> Result<()> {
        let mut graphs = self.table(GRAPHS)?;
        if read_record(&graphs, generation, namespace)?.is_none() {
            write_record(&mut graphs, generation, namespace, &GraphRecord::default())?;
        }
        let mut table = self.table(GRAPH_PAGES)?;
        for (page, payload) in pages {
            let key = (generation.0, namespace.0, *page);
            table.insert(key, seal(payload).as_slice()).map_err(storage)?;
        }
        Ok(())
    }

    /// Deletes the deltas up to this number, it too: the pages have them.
    pub(crate) fn drop_graph_deltas(
        &mut self,
        generation: GenerationId,
        namespace: NamespaceId,
        through: u32,
    ) -> Result<()> {
        let mut graphs = self.table(GRAPHS)?;
        let Some(mut record) = read_record(&graphs, generation, namespace)? else { return Ok(()) };
        let first = through.saturating_add(1).min(record.next_delta);
        if first > record.first_delta {
            let dropped = (generation.0, namespace.0, 0)..(generation.0, namespace.0, first);
            self.table(GRAPH_DELTAS)?.retain_in(dropped, |_, _| false).map_err(storage)?;
            record.first_delta = first;
            write_record(&mut graphs, generation, namespace, &record)?;
        }
        Ok(())
    }

    /// Deletes a graph. All dead rows of the namespace are free then: nothing leads to them.
    pub(crate) fn drop_graph(&mut self, generation: GenerationId, namespace: NamespaceId) -> Result<()> {
        self.table(GRAPHS)?.remove((generation.0, namespace.0)).map_err(storage)?;
        for parts in [GRAPH_PAGES, GRAPH_DELTAS] {
            let all = (generation.0, namespace.0, 0)..=(generation.0, namespace.0, u32::MAX);
            self.table(parts)?.retain_in(all, |_, _| false).map_err(storage)?;
        }
        self.free_dead_rows(generation, namespace)
    }
}

impl Snapshot {
    /// Reads the graph of a namespace: its pages in order, then its deltas in order, with their numbers. Returns whether
    /// there is one.
    ///
    /// # Errors
    /// [`Error::Corrupted`] if a part is damaged or a delta is missing, and those of the callbacks.
    pub(crate) fn graph(
        &self,
        generation: GenerationId,
        namespace: NamespaceId,
        mut page: impl FnMut(u32, &[u8]) -> Result<()>,
        mut delta: impl FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<bool> {
        let all = (generation.0, namespace.0, 0)..=(generation.0, namespace.0, u32::MAX);
        let Some(record) = read_record(&self.table(GRAPHS)?, generation, namespace)? else {
            // Parts of a graph that was must not come into the next.
            for parts in [GRAPH_PAGES, GRAPH_DELTAS] {
                if self.table(parts)?.range(all.clone()).map_err(storage)?.next().is_some() {
                    return Err(Error::corrupted("a graph has parts, but no record"));
                }
            }
            return Ok(false);
        };
        for entry in self.table(GRAPH_PAGES)?.range(all.clone()).map_err(storage)? {
            let (key, value) = entry.map_err(storage)?;
            let number = key.value().2;
            page(number, open(value.value(), "page", number)?)?;
        }
        let mut expected = record.first_delta;
        for entry in self.table(GRAPH_DELTAS)?.range(all).map_err(storage)? {
            let (key, value) = entry.map_err(storage)?;
            let number = key.value().2;
            if number != expected {
                break;
            }
            delta(number, open(value.value(), "delta", number)?)?;
            expected = number.saturating_add(1);
        }
        match expected == record.next_delta {
            true => Ok(true),
            false => Err(Error::corrupted(format!("delta {expected} of a graph is missing"))),
        }
    }
}

/// Checks what is stored of the graphs of a generation. Returns the namespaces that have one.
pub(super) fn verify(
    snapshot: &Snapshot,
    report: &mut VerifyReport,
    GenerationId(id): GenerationId,
) -> Result<BTreeSet<u32>> {
    let mut records = BTreeMap::new();
    for entry in snapshot.table(GRAPHS)?.range((id, 0)..=(id, u32::MAX)).map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        let space = key.value().1;
        let record = codec::decode::<GraphRecord>(value.value());
        if let Err(error) = &record {
            report.problem(format!("generation {id}, namespace {space}: the record of its graph: {error}"));
        }
        records.insert(space, record.ok());
    }
    let mut deltas: BTreeMap<u32, u32> = BTreeMap::new();
    for (table, what) in [(GRAPH_PAGES, "page"), (GRAPH_DELTAS, "delta")] {
        for entry in snapshot.table(table)?.range((id, 0, 0)..=(id, u32::MAX, u32::MAX)).map_err(storage)? {
            let (key, value) = entry.map_err(storage)?;
            let (_, space, number) = key.value();
            let mut problem = |error: String| report.problem(format!("generation {id}, namespace {space}: {error}"));
            if let Err(error) = open(value.value(), what, number) {
                problem(error.to_string());
            }
            match records.get(&space) {
                None => problem(format!("{what} {number} of a graph that has no record")),
                Some(Some(record)) if what == "delta" => {
                    if !(record.first_delta..record.next_delta).contains(&number) {
                        problem(format!("delta {number} of its graph was dropped, or never given"));
                    }
                    *deltas.entry(space).or_default() += 1;
                }
                Some(_) => {}
            }
        }
    }
    for (space, record) in &records {
        let found = deltas.get(space).copied().unwrap_or(0);
        if let Some(GraphRecord { first_delta, next_delta }) = record
            && next_delta.checked_sub(*first_delta) != Some(found)
        {
            report.problem(format!(
                "generation {id}, namespace {space}: {found} deltas of its graph, not {first_delta} to {next_delta}"
            ));
        }
    }
    Ok(records.into_keys().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::Precision,
        ids::{ModelIdentity, Namespace},
        message::Message,
        store::{Embedded, Options, Pass, Store},
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
            let options = Options { create: true, cache_bytes: 1 << 20, two_phase_commit: false };
            let store = Store::open(&folder.path().join("a.redb"), options).unwrap();
            let identity = ModelIdentity { name: "none".into(), dimension: 2, hash: "00".into() };
            let generation = store.write(|t| t.create_serving(&identity, Precision::F32)).unwrap();
            Db { store, generation, _folder: folder }
        }

        /// Puts messages, each another version of itself, and gives them vectors. Returns the rows.
        fn put(&self, ids: &[&str], version: &str) -> Vec<u32> {
            self.try_put(ids, version).unwrap()
        }

        fn try_put(&self, ids: &[&str], version: &str) -> Result<Vec<u32>> {
            let space: Namespace = "a".parse().unwrap();
            let messages: Vec<_> = ids.iter().map(|&id| (space.clone(), Message::user(version).with_id(id))).collect();
            self.store.write(|t| t.put(&messages)).unwrap();
            let pending = self.store.read().unwrap().pending(self.generation, &mut Pass::default(), 100).unwrap();
            let embedded = |pending: &crate::store::Pending| Embedded {
                namespace: pending.namespace,
                revision: pending.revision,
                meta: pending.meta,
                vectors: vec![vec![1.0, 0.0]; pending.text.len()],
            };
            let batch: Vec<Embedded> = pending.iter().map(embedded).collect();
            let added = self.store.write(|t| t.add_vectors(self.generation, &batch))?;
            Ok(added.into_iter().flat_map(|new| new.rows).collect())
        }

        fn delete(&self, ids: &[&str]) {
            let ids: Vec<String> = ids.iter().map(|&id| id.to_owned()).collect();
            self.store.write(|t| t.delete(&"a".parse().unwrap(), &ids).map(drop)).unwrap();
        }

        fn free(&self) -> Vec<u32> {
            self.store.read().unwrap().free_rows(self.generation, NAMESPACE).unwrap()
        }

        /// Pages, deltas.
        fn graph(&self) -> Result<Option<[Parts; 2]>> {
            let (mut pages, mut deltas) = (Vec::new(), Vec::new());
            let into = |all: &mut Parts, number, bytes: &[u8]| {
                all.push((number, bytes.to_vec()));
                Ok(())
            };
            let (page, delta) = (|n, b: &[u8]| into(&mut pages, n, b), |n, b: &[u8]| into(&mut deltas, n, b));
            let found = self.store.read()?.graph(self.generation, NAMESPACE, page, delta)?;
            Ok(found.then_some([pages, deltas]))
        }

        fn delta(&self, payload: &[u8], freed: &[u32]) -> u32 {
            self.store.write(|t| t.add_graph_delta(self.generation, NAMESPACE, payload, freed)).unwrap()
        }

        fn problems(&mut self) -> Vec<String> {
            self.store.verify().unwrap().problems
        }
    }

    /// Stored databases outlive releases: these bytes may be added to, never changed.
    #[test]
    fn golden_bytes() {
        let hex: String = seal(b"123456789").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "4d6e03012639f4cb313233343536373839");
    }

    #[test]
    fn parts_come_back_in_order_and_numbers_only_ascend() {
        let mut db = Db::new();
        assert!(db.graph().unwrap().is_none());
        assert_eq!([db.delta(b"first", &[]), db.delta(b"", &[])], [0, 1]);
        let pages = vec![(7, vec![7; 70_000]), (2, vec![2])];
        db.store.write(|t| t.put_graph_pages(db.generation, NAMESPACE, &pages)).unwrap();
        let [pages, deltas] = db.graph().unwrap().unwrap();
        assert_eq!(pages, [(2, vec![2]), (7, vec![7; 70_000])]);
        assert_eq!(deltas, [(0, b"first".to_vec()), (1, Vec::new())]);
        for through in [0, 0, 1, 9] {
            db.store.write(|t| t.drop_graph_deltas(db.generation, NAMESPACE, through)).unwrap();
            let [_, deltas] = db.graph().unwrap().unwrap();
            assert_eq!(deltas.len(), if through == 0 { 1 } else { 0 });
        }
        assert_eq!(db.delta(b"next", &[]), 2);
        db.store.write(|t| t.put_graph_pages(db.generation, NAMESPACE, &[(2, vec![3])])).unwrap();
        assert_eq!(db.graph().unwrap().unwrap()[0][0], (2, vec![3]));
        assert_eq!(db.problems(), [""; 0]);
        db.store.write(|t| t.drop_graph(db.generation, NAMESPACE)).unwrap();
        assert!(db.graph().unwrap().is_none());
        assert_eq!(db.problems(), [""; 0]);
    }

    #[test]
    fn damage_is_named() {
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
            db.store.write(|t| t.drop_graph(db.generation, NAMESPACE)).unwrap();
            db.store.write(|t| t.put_graph_pages(db.generation, NAMESPACE, &[(3, b"page".to_vec())])).unwrap();
            let key = (db.generation.0, NAMESPACE.0, if name == "page 3" { 3 } else { db.delta(b"delta", &[]) });
            let mut bytes = seal(if name == "page 3" { b"page" } else { b"delta" });
            damage(&mut bytes);
            db.store.write(|t| t.table(table)?.insert(key, bytes.as_slice()).map(drop).map_err(storage)).unwrap();
            let error = db.graph().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            let problems = db.problems();
            assert!(problems.iter().any(|problem| problem.contains(name)), "{problems:?}");
        }
        db.store.write(|t| t.drop_graph(db.generation, NAMESPACE)).unwrap();
        (0..3).for_each(|number| assert_eq!(db.delta(b"delta", &[]), number));
        let remove = |key| db.store.write(|t| t.table(GRAPH_DELTAS)?.remove(key).map(drop).map_err(storage)).unwrap();
        remove((db.generation.0, NAMESPACE.0, 1));
        assert!(db.graph().unwrap_err().to_string().contains("delta 1 of a graph is missing"));
        remove((db.generation.0, NAMESPACE.0, 2));
        assert!(db.graph().unwrap_err().to_string().contains("delta 1 of a graph is missing"));
        let key = (db.generation.0, NAMESPACE.0);
        db.store.write(|t| t.table(GRAPHS)?.remove(key).map(drop).map_err(storage)).unwrap();
        assert!(db.problems()[0].contains("delta 0 of a graph that has no record"), "{:?}", db.problems());
    }

    #[test]
    fn a_row_is_given_again_when_nothing_leads_to_it() {
        let mut db = Db::new();
        // A letter a window.
        assert_eq!(db.put(&["a", "b", "c"], "1"), [0, 1, 2]);
        db.delete(&["a", "c"]);
        assert_eq!(db.free(), [0, 2]);
        assert_eq!(db.put(&["d"], "1"), [0], "the lowest");
        assert_eq!(db.put(&["b"], "22"), [3, 4], "windows need rows one after the other");
        assert_eq!(db.free(), [1, 2]);
        assert_eq!(db.put(&["e", "f", "g"], "1"), [1, 2, 5], "the rest is new");
        assert_eq!(db.problems(), [""; 0]);

        db.delta(b"a graph", &[]);
        db.delete(&["d", "b"]);
        assert_eq!(db.free(), [0; 0], "links may lead to them");
        assert_eq!(db.put(&["h"], "1"), [6]);
        db.delta(b"links", &[4]);
        assert_eq!((db.free(), db.problems()), (vec![4], vec![]));
        assert_eq!(db.put(&["i"], "1"), [4]);
        db.store.write(|t| t.drop_graph(db.generation, NAMESPACE)).unwrap();
        assert_eq!((db.free(), db.problems()), (vec![0, 3], vec![]));
    }

    #[test]
    fn what_is_not_dead_is_not_given() {
        let mut db = Db::new();
        db.put(&["a", "b"], "1");
        db.delta(b"wrong", &[1]);
        assert!(db.problems()[0].contains("row 1 is free, but not dead"), "{:?}", db.problems());
        assert!(matches!(db.try_put(&["c"], "1"), Err(Error::Corrupted { .. })));
        db.store.write(|t| t.drop_graph(db.generation, NAMESPACE)).unwrap();
        let key = (db.generation.0, NAMESPACE.0, 1);
        db.store.write(|t| t.table(FREE_ROWS)?.remove(key).map(drop).map_err(storage)).unwrap();
        db.delete(&["b"]);
        db.store.write(|t| t.table(FREE_ROWS)?.remove(key).map(drop).map_err(storage)).unwrap();
        assert!(db.problems()[0].contains("row 1 is dead, but not free"), "{:?}", db.problems());
    }

    #[test]
    fn a_retired_generation_leaves_nothing() {
        let mut db = Db::new();
        let identity = ModelIdentity { name: "next".into(), dimension: 2, hash: "01".into() };
        db.put(&["a", "b"], "1");
        let next = db.store.write(|t| t.begin_building(&identity, Precision::F32)).unwrap().0;
        db.store.write(|t| t.seed(next, crate::store::FIRST, 100)).unwrap();
        db.delete(&["a"]);
        db.delta(b"delta", &[]);
        let pages: Vec<(u32, Vec<u8>)> = (0..10).map(|page| (page, vec![1; 100])).collect();
        db.store.write(|t| t.put_graph_pages(db.generation, NAMESPACE, &pages)).unwrap();
        db.store.write(|t| t.switch(next, false)).unwrap();
        let mut steps = 0;
        while db.store.write(|t| t.sweep(4)).unwrap() {
            steps += 1;
        }
        assert_eq!(steps, 4, "12 parts and blocks, and the rest");
        assert!(db.graph().unwrap().is_none());
        assert_eq!((db.free(), db.problems().len()), (vec![], 0));
        let snapshot = db.store.read().unwrap();
        for table in [GRAPH_PAGES, GRAPH_DELTAS, VECTORS] {
            assert_eq!(snapshot.table(table).unwrap().iter().unwrap().count(), 0);
        }
    }
}
