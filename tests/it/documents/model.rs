//! Random operations on documents, against a naive model, with reopening.

use std::collections::BTreeMap;

use mnemon::{DocumentOperation as Operation, MetadataFilter};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::support::Db;

#[derive(Clone, Debug)]
enum Step {
    /// Puts these keys in one batch, with numbers; indexed or not; with a time to live that is over at once or none.
    Put(Vec<(u8, u8, bool, bool)>),
    Delete(u8, u8),
    DeleteNamespace(u8),
    Flush,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let put = (0..6_u8, 0..20_u8, any::<bool>(), prop::bool::weighted(0.2));
    prop_oneof![
        6 => prop::collection::vec(put, 1..5).prop_map(Step::Put),
        3 => (0..2_u8, 0..6_u8).prop_map(|(space, key)| Step::Delete(space, key)),
        1 => (0..2_u8).prop_map(Step::DeleteNamespace),
        1 => Just(Step::Flush),
        2 => Just(Step::Reopen),
    ]
}

/// A document of the model.
#[derive(Clone, Debug, PartialEq)]
struct Expected {
    number: u8,
    is_indexed: bool,
    change: usize,
}

fn name(space: u8) -> mnemon::Namespace {
    namespace(["acme", "acme/user-42"][usize::from(space)])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn documents_are_those_of_a_naive_model(steps in prop::collection::vec(step(), 1..20)) {
        let db = Db::new();
        let mut engine = db.open();
        let mut stored: BTreeMap<(u8, String), Expected> = BTreeMap::new();
        let mut changes = 0;
        for step in steps {
            match step {
                Step::Put(puts) => {
                    let mut operations = Vec::new();
                    for (key, number, is_indexed, is_brief) in puts {
                        changes += 1;
                        let (space, key) = (number % 2, format!("key {key}"));
                        let mut options = if is_indexed { options().index(["text"]) } else { options().not_indexed() };
                        options.ttl_minutes = is_brief.then_some(1.0 / 60_000.0);
                        let value = json!({"number": number, "text": format!("ferry word{}", number % 3)});
                        operations.push(Operation::Put { namespace: name(space), key: key.clone(), value, options });
                        stored.insert((space, key.clone()), Expected { number, is_indexed, change: changes });
                        if is_brief {
                            stored.remove(&(space, key));
                        }
                    }
                    engine.blocking().document_batch(operations).unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                Step::Delete(space, key) => {
                    let key = format!("key {key}");
                    let existed = engine.documents(&name(space)).blocking().delete(&key).unwrap();
                    prop_assert_eq!(existed, stored.remove(&(space, key)).is_some());
                }
                Step::DeleteNamespace(space) => {
                    engine.blocking().delete_namespace(&name(space)).unwrap();
                    stored.retain(|(other, _), _| *other != space);
                }
                Step::Flush => drop(engine.blocking().flush().unwrap()),
                Step::Reopen => {
                    drop(engine);
                    db.assert_sound();
                    engine = db.open();
                }
            }
            for space in 0..2 {
                let documents = engine.documents(&name(space));
                let mut expected: Vec<(&String, &Expected)> =
                    stored.iter().filter(|((other, _), _)| *other == space).map(|((_, key), value)| (key, value)).collect();
                expected.sort_by_key(|(_, expected)| std::cmp::Reverse(expected.change));
                for (key, expected) in &expected {
                    let value = documents.blocking().get(key).unwrap().unwrap().value;
                    prop_assert_eq!(&value["number"], expected.number);
                }
                let list = |filter: &dyn Fn(&Expected) -> bool| -> Vec<&str> {
                    expected.iter().filter(|(_, value)| filter(value)).map(|(key, _)| key.as_str()).collect()
                };
                let found = documents.blocking().search(search()).unwrap();
                prop_assert_eq!(keys(&found), list(&|_| true));
                let low = MetadataFilter::lt("number", 10).unwrap();
                let found = documents.blocking().search(search().filter(low.clone())).unwrap();
                prop_assert_eq!(keys(&found), list(&|expected| expected.number < 10));
                let found = documents.blocking().search(search().query("ferry").filter(low)).unwrap();
                let (mut found, mut wanted) = (keys(&found), list(&|value| value.is_indexed && value.number < 10));
                found.sort_unstable();
                wanted.sort_unstable();
                prop_assert_eq!(found, wanted);
            }
            let named = engine.blocking().document_namespaces(Default::default()).unwrap();
            let spaces: Vec<u8> = (0..2).filter(|space| stored.keys().any(|(other, _)| other == space)).collect();
            prop_assert_eq!(named, spaces.into_iter().map(name).collect::<Vec<_>>());
        }
    }
}
