//! Recalls on a copy say of a message what they say on a file of its own: its score, what it supersedes, and whose words it is.

use mnemon::{Engine, MetadataFilter, Query, Timestamp, message::Source};
use serde_json::json;

use super::open;
use crate::support::{Db, message, namespace, postgres::server};

#[test]
fn a_copy_says_what_a_file_of_its_own_says() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (a, b, own) = (Db::new(), Db::new(), Db::new());
    let (writer, reader, file) = (open(&a, &address), open(&b, &address), own.open());
    let space = namespace("acme/ada");
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let messages = vec![
        message("a", "the dose for the cat is 5 mg").at(at("2024-01-01")),
        message("b", "the cat takes ten mg of it now").at(at("2024-02-01")).supersedes("a"),
        message("c", "the cat likes the dose").at(at("2024-03-01")).from_source(Source::Web),
        message("d", "the bakery opens at eight").at(at("2024-03-02")),
    ];
    // One at a time, and in another machine's copy before they are embedded.
    for message in messages {
        writer.blocking().put(&space, vec![message.clone()]).unwrap();
        file.blocking().put(&space, vec![message]).unwrap();
        reader.blocking().history(&space, "default").unwrap();
    }
    writer.blocking().flush().unwrap();
    reader.blocking().flush().unwrap();
    file.blocking().flush().unwrap();
    let found = |engine: &Engine, query: &Query| -> Vec<_> {
        let hits = engine.blocking().recall(&space, query.clone()).unwrap();
        let said = hits
            .iter()
            .map(|hit| (hit.message.id.clone(), hit.relevance, hit.supersedes.clone(), hit.message.source()));
        said.collect()
    };
    let of_source = |source: &str| -> MetadataFilter { serde_json::from_value(json!({ "$source": source })).unwrap() };
    let asked = || Query::new("which dose does the cat take").keep_duplicates();
    let all = found(&file, &asked().include_superseded());
    let mut relevances: Vec<f32> = all.iter().map(|(_, relevance, ..)| *relevance).collect();
    relevances.sort_by(|one, other| other.total_cmp(one));
    let cases = [
        (asked(), 3),
        (asked().include_superseded(), 4),
        (asked().include_superseded().min_score(relevances[1]), 2),
        (asked().filter(of_source("web")), 1),
        (asked().filter(of_source("user")), 2),
    ];
    for (query, count) in cases {
        let expected = found(&file, &query);
        assert_eq!(expected.len(), count, "{query:?}: {expected:?}");
        for engine in [&writer, &reader] {
            assert_eq!(found(engine, &query), expected, "{query:?}");
        }
    }
    assert!(all.iter().any(|(id, _, supersedes, _)| id == "b" && supersedes == &["a"]));
    assert!(all.iter().any(|(id, .., source)| id == "c" && *source == Some(Source::Web)));
    // What was superseded is found again when the newer message is gone, on the other machine too.
    reader.blocking().delete(&space, vec!["b".into()]).unwrap();
    file.blocking().delete(&space, vec!["b".into()]).unwrap();
    let left = found(&file, &asked());
    assert!(left.iter().any(|(id, ..)| id == "a"));
    assert_eq!(found(&writer, &asked()), left);
}
