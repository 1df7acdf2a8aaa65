//! What people state in few words: it is found among long messages, and a small memory tells what it has nothing about. By the
//! bundled model, which a user gets who names none.

use std::sync::Arc;

use mnemon::{Engine, Message, Model, OnnxEmbedder, Query, Role};

use super::{put, recall};
use crate::support::{Db, message, root};

fn open(db: &Db) -> Engine {
    db.open_with(Arc::new(OnnxEmbedder::new(Model::bundled()).unwrap()))
}

/// Facts of one sentence, each with a question that it answers.
const FACTS: [(&str, &str); 15] = [
    ("Lena works as a paramedic in Ghent.", "What is her job?"),
    ("Her brother Pim repairs violins.", "Who fixes violins?"),
    ("Lena is allergic to walnuts.", "What food makes her ill?"),
    ("The family cat is called Biscuit.", "What is the cat's name?"),
    ("She moved to the canal house in March.", "When did she move?"),
    ("Her favourite film is about a lighthouse keeper.", "Which film does she like best?"),
    ("Pim's wedding is on the ninth of August.", "When does Pim get married?"),
    ("Lena cycles to the station every morning.", "How does Lena get to the station?"),
    ("Their mother grew up in Antwerp.", "Where did their mother grow up?"),
    ("She reads detective novels before bed.", "What does she read at night?"),
    ("The car failed its inspection last week.", "What happened to the car?"),
    ("Lena drinks her coffee without sugar.", "How does she take her coffee?"),
    ("The spare key is under the blue flowerpot.", "Where is the spare key?"),
    ("She wants to learn Portuguese this year.", "Which language does she want to learn?"),
    ("The landlord's name is Mr. Janssens.", "Who is the landlord?"),
];
const STRANGERS: [&str; 8] = [
    "How much does the submarine cost?",
    "What did the committee decide about pensions?",
    "Which team won the hockey final?",
    "How do I reset the router password?",
    "Why was the flight to Lima cancelled?",
    "What is the boiling point of mercury?",
    "Who painted the ceiling of the chapel?",
    "When does the museum open on Sundays?",
];

/// At 0.5, which is where 95 % of the answerable questions are kept.
#[test]
fn a_small_memory_tells_what_it_has_nothing_about() {
    let (mut answered, mut others) = (Vec::new(), Vec::new());
    for count in [1, 5, FACTS.len()] {
        let db = Db::new();
        let engine = open(&db);
        let facts = &FACTS[..count];
        put(&engine, (0..).zip(facts).map(|(at, (fact, _))| message(&format!("f{at}"), fact)).collect());
        let answerability = |question: &&str| recall(&engine, Query::new(*question).k(1)).answerability();
        answered.extend(facts.iter().map(|(_, question)| answerability(question)));
        others.extend(STRANGERS.iter().map(answerability));
    }
    let kept = |all: &[f32]| all.iter().filter(|&&answerability| answerability >= 0.5).count();
    assert_eq!((answered.len(), others.len()), (21, 24));
    assert!(kept(&answered) >= 20, "{answered:?}");
    assert!(kept(&others) <= 1, "{others:?}");
}

#[test]
fn a_short_statement_is_found_among_long_answers() {
    let db = Db::new();
    let engine = open(&db);
    let lines = std::fs::read_to_string(root("datasets/long-answers/messages.jsonl")).unwrap();
    let mut messages: Vec<Message> = (0..)
        .zip(lines.lines())
        .map(|(at, line)| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |key: &str| line[key].as_str().unwrap();
            let role = text("role").parse().unwrap();
            Message { role, ..message(&format!("m{at}"), text("content")).in_session(text("session")) }
        })
        .collect();
    messages.push(message("dislikes", "I dislike learning through online courses.").in_session("dislikes"));
    put(&engine, messages);
    let hits = recall(&engine, Query::new("Can you recommend good resources to learn data science?").k(50));
    let rank = hits.iter().find(|hit| hit.message.id == "dislikes").map(|hit| hit.rank);
    assert!(rank.is_some_and(|rank| rank <= 3), "{rank:?}");
}

#[test]
fn length_counts_below_twelve_words_and_for_a_wordy_role() {
    let db = Db::new();
    let engine = open(&db);
    let kites = |words: usize| "kite ".repeat(words);
    let mut messages: Vec<Message> =
        [3, 11, 12, 40, 300].map(|words| message(&words.to_string(), &kites(words))).into();
    put(&engine, messages.clone());
    let length = |engine: &Engine, id: &str| {
        let hits = recall(engine, Query::new("kite").k(50).keep_duplicates());
        hits.iter().find(|hit| hit.message.id == id).unwrap().breakdown.length
    };
    let few = [3, 11].map(|words: usize| length(&engine, &words.to_string()));
    assert!(few[0] < few[1] && few[1] < 0.0, "{few:?}");
    assert_eq!(["12", "40", "300"].map(|id| length(&engine, id)), [0.0; 3]);
    messages = (0..5).map(|at| message(&format!("answer{at}"), &kites(400))).collect();
    messages.iter_mut().for_each(|message| message.role = Role::Assistant);
    put(&engine, messages);
    assert!(length(&engine, "answer0") < 0.0 && length(&engine, "300") == 0.0);
}
