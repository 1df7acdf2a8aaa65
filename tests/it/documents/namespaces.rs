//! Listing the namespaces that have documents.

use mnemon::DocumentNamespaces;
use serde_json::json;

use super::*;
use crate::support::Db;

#[test]
fn namespaces_are_listed_by_prefix_suffix_wildcards_and_depth() {
    let db = Db::new();
    let engine = db.open();
    for name in
        ["a/b/c", "a/b/d/e", "a/b/d/i", "a/b/f", "a/c/f", "b/a/f", "users", "users-x", "users/1/v1", "users/2/v1"]
    {
        engine.documents(&namespace(name)).blocking().put("key", json!(1), options().not_indexed()).unwrap();
    }
    let gone = engine.documents(&namespace("gone"));
    gone.blocking().put("key", json!(1), options()).unwrap();
    gone.blocking().delete("key").unwrap();
    engine.blocking().put(&namespace("messages"), vec![mnemon::Message::user("only")]).unwrap();
    let slashed = mnemon::Namespace::from_labels(["slash", "1/2"]).unwrap();
    engine.documents(&slashed).blocking().put("key", json!(1), options()).unwrap();
    let found = engine.blocking().document_namespaces(DocumentNamespaces::default().suffix(["1/2"])).unwrap();
    assert_eq!(found, std::slice::from_ref(&slashed));
    engine.documents(&slashed).blocking().delete("key").unwrap();
    let list = |request: DocumentNamespaces| -> Vec<String> {
        let found = engine.blocking().document_namespaces(request).unwrap();
        found.iter().map(ToString::to_string).collect()
    };
    let any = DocumentNamespaces::default;
    let none: Vec<String> = Vec::new();
    let all = list(any());
    assert_eq!(all.len(), 10, "{all:?}");
    assert_eq!(all[6..], ["users", "users/1/v1", "users/2/v1", "users-x"], "sorted label by label");
    assert_eq!(list(any().prefix(["a", "b"])), ["a/b/c", "a/b/d/e", "a/b/d/i", "a/b/f"]);
    assert_eq!(list(any().prefix(["a", "b"]).max_depth(3)), ["a/b/c", "a/b/d", "a/b/f"]);
    assert_eq!(list(any().prefix(["users"])), ["users", "users/1/v1", "users/2/v1"], "whole labels");
    assert_eq!(list(any().prefix(["users", "*", "v1"])), ["users/1/v1", "users/2/v1"]);
    assert_eq!(list(any().suffix(["f"])), ["a/b/f", "a/c/f", "b/a/f"]);
    assert_eq!(list(any().suffix(["*", "f"]).prefix(["a"])), ["a/b/f", "a/c/f"]);
    assert_eq!(list(any().max_depth(1)), ["a", "b", "users", "users-x"]);
    assert_eq!(list(any().max_depth(1).limit(2).offset(1)), ["b", "users"]);
    assert_eq!(list(any().prefix(["z"])), none);
    assert_eq!(list(any().prefix(["*", "*", "*", "*", "*"])), none);
    assert_eq!(list(any().limit(0)), none);
    assert!(engine.blocking().document_namespaces(any().prefix([""])).is_err());
    assert!(engine.blocking().document_namespaces(any().max_depth(0)).is_err());
}
