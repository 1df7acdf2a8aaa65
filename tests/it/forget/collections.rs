//! Items that collections made of forgotten messages.

use mnemon::{ChatRequest, Collection, DocumentSearch, Forget, Message};
use serde_json::json;

use super::*;
use crate::support::Db;

#[test]
fn items_made_of_forgotten_messages_are_forgotten() {
    let db = Db::new();
    let engine = db.open();
    let facts = Collection::new(&engine, &namespace("acme/user-42/facts"));
    let elsewhere = Collection::new(&engine, &namespace("elsewhere"));
    let says = |text: &str| Message::user(text.to_owned()).with_id(text.to_owned());
    let messages = ["ada rows", "ada lives in lyon", "ada sings"].map(says);
    engine.blocking().put(&space(), messages.to_vec()).unwrap();
    for message in &messages {
        let model = |_: &ChatRequest| {
            Ok(Message::assistant(json!({"insert": [{"text": format!("fact: {}", message.text())}]}).to_string()))
        };
        for collection in [&facts, &elsewhere] {
            collection.blocking().update(std::slice::from_ref(message), &model).unwrap();
        }
    }
    engine.blocking().flush().unwrap();
    let found = |collection: &Collection| -> Vec<String> {
        let all = collection.blocking().search(DocumentSearch::default().limit(10)).unwrap();
        let mut texts: Vec<String> = all.iter().map(|item| item.value["text"].as_str().unwrap().to_owned()).collect();
        texts.sort();
        texts
    };
    // An item that a later update changed is made of both.
    let change = |_: &ChatRequest| {
        Ok(Message::assistant(json!({"update": [{"id": 1, "item": {"text": "fact: ada sings in lyon"}}]}).to_string()))
    };
    let late = says("she sings there");
    engine.blocking().put(&space(), vec![late.clone()]).unwrap();
    facts.blocking().update(std::slice::from_ref(&late), &change).unwrap();
    assert_eq!(found(&facts).len(), 3);
    assert!(found(&facts).contains(&"fact: ada sings in lyon".to_owned()));

    let forgotten = forget(&engine, Forget::messages(&space(), ["ada rows"]));
    assert_eq!(
        (forgotten.messages, forgotten.documents, forgotten.document_texts),
        (1, 2, 1),
        "the item and the record"
    );
    assert!(!found(&facts).iter().any(|text| text.contains("rows")));
    assert_eq!(found(&elsewhere).len(), 3, "a collection elsewhere is not found");
    // The same messages may be given again.
    let again = facts.blocking().update(&[says("ada rows")], &|_: &ChatRequest| Ok(Message::assistant("{}"))).unwrap();
    assert!(!again.repeated);
    forget(&engine, Forget::messages(&space(), ["she sings there"]));
    assert!(!found(&facts).iter().any(|text| text.contains("sings in lyon")));
    forget(&engine, Forget::namespace(&space()));
    assert!(found(&facts).is_empty());
    drop((facts, elsewhere, engine));
    db.assert_sound();
}
