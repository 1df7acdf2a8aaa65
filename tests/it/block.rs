//! `VectorBlock`: its query, and the processors of its hits.

use std::sync::{Arc, Mutex};

use mnemon::{
    BlockContent, BlockQuery, Hit, MAX_K, MAX_QUERY_BYTES, MemoryBlock, Message, Namespace, Query, RankingStrategy,
    Result, Retriever, Role, Timestamp, VectorBlock,
};
use serde_json::Value;

use crate::support::{Db, ids, message, namespace};

/// A retriever that has this many messages, best first, and remembers its queries.
struct Numbers(usize, Mutex<Vec<Query>>);

impl Retriever for Numbers {
    fn recall(&self, _: &Namespace, query: &Query) -> Result<Vec<Hit>> {
        self.1.lock().unwrap().push(query.clone());
        // A query does not tell its k: the first k of all that makes an equal query.
        let k = (1..=MAX_K).find(|&k| query.clone().k(k) == *query).unwrap();
        let hit = |at: usize| Hit::new(message(&at.to_string(), &format!("text {at}")), 1.0 / (at + 1) as f32, at + 1);
        Ok((0..self.0.min(k)).map(hit).collect())
    }
}

/// The time of the last message of the prompt.
fn asked_at() -> Timestamp {
    "2024-06-01T00:00:00Z".parse().unwrap()
}

/// Returns the ids that a block recalls out of so many messages, and its queries.
fn recalled(block: &VectorBlock, messages: usize) -> (Vec<String>, Vec<Query>) {
    let retriever = Arc::new(Numbers(messages, Mutex::default()));
    let prompt = vec![Arc::new(message("q", "where is it").at(asked_at()))];
    let query = BlockQuery::new(namespace("a"), "s", prompt, Arc::clone(&retriever) as _);
    let BlockContent::Quoted(told) = block.get(&Value::Null, &query).unwrap() else { panic!("messages") };
    let queries = std::mem::take(&mut *retriever.1.lock().unwrap());
    (told.into_iter().map(|message| message.id).collect(), queries)
}

#[test]
fn a_vector_block_takes_the_options_of_a_query() {
    let time = "2024-05-01T00:00:00Z".parse().unwrap();
    let block = VectorBlock::new("v").own_session().query(move |query| {
        assert_eq!(query.text(), "where is it");
        query.role(Role::User).since(time).strategy(RankingStrategy::Dense).k(1)
    });
    let expected = Query::new("where is it").session("s").role(Role::User).since(time);
    let expected = expected.strategy(RankingStrategy::Dense).k(12);
    let expected = expected.now(asked_at()).time_zone(mnemon::message::TimeZone::system());
    assert_eq!(recalled(&block, 5), (vec!["0".into(), "1".into()], vec![expected]));
}

#[test]
fn a_vector_block_asks_with_the_end_of_long_messages() {
    let retriever = Arc::new(Numbers(1, Mutex::default()));
    let prompt: Vec<_> = ["é", "ü"].map(|letter| Arc::new(message(letter, &letter.repeat(500_000)))).into();
    let query = BlockQuery::new(namespace("a"), "s", prompt, Arc::clone(&retriever) as _);
    VectorBlock::new("v").retrieval_context_window(2).get(&Value::Null, &query).unwrap();
    let asked = retriever.1.lock().unwrap()[0].text().to_owned();
    assert!((MAX_QUERY_BYTES - 1..=MAX_QUERY_BYTES).contains(&asked.len()), "{}", asked.len());
    assert!(asked.starts_with("é") && asked.ends_with(&format!(" {}", "ü".repeat(500_000))));
}

#[test]
fn a_vector_block_finds_what_its_query_allows() {
    let db = Db::new();
    let engine = db.open();
    let said = |at: usize| Message::assistant(format!("the red bike number {at}")).with_id(format!("a{at}"));
    let mut messages: Vec<Message> = (0..50).map(said).collect();
    messages.push(message("mine", "a bike").in_session("t"));
    engine.blocking().put(&namespace("a"), messages).unwrap();
    engine.blocking().flush().unwrap();
    let block = VectorBlock::new("v").query(|query| query.role(Role::User));
    let memory = engine.memory(&namespace("a"), "s").block(block).open().unwrap();
    let prompt = memory.blocking().get(Some(Message::user("the red bike number 7"))).unwrap();
    assert_eq!(prompt.recalled.iter().map(|recalled| recalled.id.as_str()).collect::<Vec<_>>(), ["mine"]);
    // One that is wrong fails the block, not the prompt.
    let block = VectorBlock::new("v").query(|query| query.strategy(RankingStrategy::Weighted(2.0)));
    let memory = engine.memory(&namespace("a"), "s").block(block).open().unwrap();
    let prompt = memory.blocking().get(Some(Message::user("bike"))).unwrap();
    assert!(prompt.failed[0].reason.contains("weighted"), "{:?}", prompt.failed);
}

#[test]
fn a_processor_that_filters_does_not_starve_the_block() {
    let every = |n: usize| {
        move |hits: Vec<Hit>| {
            Ok(hits.into_iter().filter(|hit| hit.message.id.parse::<usize>().unwrap() % n == n - 1).collect())
        }
    };
    let block = |n: usize| VectorBlock::new("v").similarity_top_k(3).hit_processor(every(n));
    let (found, queries) = recalled(&block(900), 5000);
    assert_eq!((found.join(" ").as_str(), queries.len()), ("899 1799 2699", 5), "14, 56, 224, 896, 3584");
    let (found, queries) = recalled(&block(2), 5000);
    assert_eq!((found.join(" ").as_str(), queries.len()), ("1 3 5", 1));
    // Until nothing is left.
    let (found, queries) = recalled(&block(900), 1000);
    assert_eq!((found.join(" ").as_str(), queries.len()), ("899", 5));
    assert_eq!(recalled(&block(1_000_000), MAX_K * 2).0, [""; 0]);
    // Where the threshold leaves no more hits, more are not asked for.
    let (found, queries) = recalled(&block(900).similarity_threshold(0.02), 5000);
    assert_eq!((found.len(), queries.len()), (0, 3));
}

#[test]
fn a_block_alone_recalls_no_message_of_the_prompt() {
    struct All(Vec<Message>);
    impl Retriever for All {
        fn recall(&self, _: &Namespace, _: &Query) -> Result<Vec<Hit>> {
            Ok(self.0.iter().map(|message| Hit::new(message.clone(), 1.0, 1)).collect())
        }
        fn batch_of(&self, _: &Namespace, _: &str) -> Result<Vec<Message>> {
            Ok(self.0.clone())
        }
    }
    let all = vec![message("1", "one"), message("2", "two"), message("3", "one"), message("4", "four")];
    let prompt: Vec<Arc<Message>> = all[..2].iter().cloned().map(Arc::new).collect();
    let query = BlockQuery::new(namespace("a"), "s", prompt, Arc::new(All(all)));
    for (unit, expected) in [(Default::default(), vec!["4"]), (mnemon::RetrievalUnit::Batch, vec!["3", "4"])] {
        let block = VectorBlock::new("v").retrieval_unit(unit);
        let BlockContent::Quoted(told) = block.get(&Value::Null, &query).unwrap() else { panic!("messages") };
        assert_eq!(ids(&told), expected);
    }
}
