//! Blocks that call a language model, with the real client and a scripted server.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mnemon::{BlockScope, ChatModel, ChatRequest, FactBlock, InstructionBlock, OpenAiChat, SummaryBlock};

use super::*;
use crate::support::servers::{LlmServer, Reply};

fn client(server: &LlmServer) -> Arc<dyn ChatModel> {
    let client = OpenAiChat::new(server.base_url(), "small").attempts(1).timeout(Duration::from_millis(300));
    Arc::new(client.backoff(Duration::from_millis(1)))
}

fn with(engine: &Engine, block: impl MemoryBlock + 'static) -> Memory {
    let memory = engine.memory(&namespace("a"), "s").limits(limits(3, 1.0, 1)).message_counter(words());
    memory.block(block).open().unwrap()
}

fn say(memory: &Memory, turns: &[&str]) {
    for turn in turns {
        memory.blocking().put(vec![Message::user(*turn).by("Ada")]).unwrap();
    }
}

/// Settles, whatever fails meanwhile.
fn settle(memory: &Memory) {
    for _ in 0..1000 {
        if memory.blocking().settle().is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("{:?}", memory.blocking().status());
}

fn facts(memory: &Memory) -> Vec<String> {
    let state = memory.blocking().block_state("facts").unwrap();
    serde_json::from_value(state["facts"].clone()).unwrap_or_default()
}

#[test]
fn facts_survive_every_failure_of_the_model() {
    let db = Db::new();
    let engine = open(&db);
    let server = LlmServer::replies([
        Reply::error(429, "slow down"),
        Reply::error(500, "broken"),
        Reply::text("late").after(Duration::from_millis(600)),
        Reply::new(200, "{"),
        Reply::text("I found no JSON to answer with."),
        Reply::text("Here they are:\n```json\n{\"facts\": [\"Ada rows.\", \" Ada rows. \", \"Ada has a boat.\"]}\n```"),
        Reply::text("{\"facts\": [\"Ada rows.\", \"The boat is green.\"]}"),
        Reply::text("{\"facts\": []}"),
    ]);
    let memory = with(&engine, FactBlock::new("facts", client(&server)));
    say(&memory, &["I row daily", "in my boat", "it is green", "that is all"]);
    settle(&memory);
    assert_eq!(facts(&memory), ["Ada rows.", "Ada has a boat.", "The boat is green."]);
    let requests = server.requests();
    assert_eq!(requests.len(), 8, "each batch was asked for until it was answered");
    let asked = requests[6].body["messages"][1]["content"].as_str().unwrap().to_owned();
    assert!(asked.contains("Ada has a boat."), "known facts are told: {asked}");
    assert!(asked.contains("name='Ada'") && asked.contains(">in my boat</message>"), "{asked}");
    let prompt = memory.blocking().get(None).unwrap();
    let text = prompt.messages[0].text();
    assert!(text.contains("<facts>\nAda rows.\nAda has a boat.\nThe boat is green.\n</facts>"), "{text}");
}

#[test]
fn a_put_never_waits_for_the_model() {
    let db = Db::new();
    let engine = open(&db);
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap();
    let opened = Arc::clone(&gate);
    let server = LlmServer::new(move |_| {
        drop(opened.lock().unwrap());
        Reply::text("{\"facts\": [\"late\"]}")
    });
    let client = OpenAiChat::new(server.base_url(), "small").timeout(Duration::from_secs(60));
    let memory = with(&engine, FactBlock::new("facts", client));
    say(&memory, &["one two three", "four five six", "seven eight nine"]);
    // All puts are done, and the model cannot have answered.
    assert_eq!(memory.blocking().status().unwrap()[0].behind, 2);
    drop(closed);
    settle(&memory);
    assert_eq!(facts(&memory), ["late"]);
}

#[test]
fn an_empty_answer_fails_the_batch_and_is_named() {
    let db = Db::new();
    let engine = open(&db);
    let blank = Arc::new(Mutex::new(true));
    let says = Arc::clone(&blank);
    let server = LlmServer::new(move |_| Reply::text(if *says.lock().unwrap() { " " } else { "{\"facts\": [\"x\"]}" }));
    let memory = with(&engine, FactBlock::new("facts", client(&server)));
    say(&memory, &["one two three", "four five six"]);
    settle(&memory);
    let status = memory.blocking().status().unwrap().remove(0);
    assert!(status.failed[0].1.contains("answered with an empty message"), "{status:?}");
    assert_eq!((facts(&memory).len(), server.requests().len()), (0, 3));
    *blank.lock().unwrap() = false;
    assert_eq!(memory.blocking().retry_failed("facts").unwrap(), 1);
    assert_eq!(facts(&memory), ["x"]);
}

#[test]
fn facts_are_condensed_above_the_maximum() {
    let db = Db::new();
    let engine = open(&db);
    let server = LlmServer::new(|request| {
        let system = request.body["messages"][0]["content"].as_str().unwrap().to_owned();
        let user = request.body["messages"][1]["content"].as_str().unwrap().to_owned();
        let answer: String = match system.contains("shorten") {
            // Condensing to nothing is no answer.
            true if user.contains("fact 5") => "{\"facts\": [\"all in one\"]}".into(),
            true => "{\"facts\": []}".into(),
            false => {
                let n = user.matches("fact ").count();
                format!("{{\"facts\": [\"fact {n}\", \"fact {}\"]}}", n + 1)
            }
        };
        Reply::text(&answer)
    });
    let memory = with(&engine, FactBlock::new("facts", client(&server)).with_max_facts(3));
    say(&memory, &["one two three", "four five six", "seven eight nine"]);
    settle(&memory);
    assert_eq!(facts(&memory), ["fact 0", "fact 1", "fact 2", "fact 3"], "nothing is no shorter list");
    say(&memory, &["ten eleven twelve"]);
    settle(&memory);
    assert_eq!(facts(&memory), ["all in one"]);
}

#[test]
fn a_summary_grows_with_what_is_flushed() {
    let db = Db::new();
    let engine = open(&db);
    let server = LlmServer::new(|request| {
        let text = request.body["messages"][1]["content"].as_str().unwrap().to_owned();
        let before =
            text.split("New messages:").next().unwrap().trim_start_matches("Summary so far:").trim().to_owned();
        Reply::text(format!("{before}+{}", text.matches("<message").count()).as_str())
    });
    let memory = with(&engine, SummaryBlock::new("summary", client(&server)));
    say(&memory, &["one two three", "four five six", "seven eight nine"]);
    settle(&memory);
    let text = memory.blocking().get(None).unwrap().messages[0].text();
    assert!(text.contains("<summary>\n+1+1\n</summary>"), "{text}");
}

#[test]
fn instructions_are_refined_and_reverted() {
    let db = Db::new();
    let engine = open(&db);
    let model = |request: &ChatRequest| {
        let text = request.messages[1].text();
        let feedback = text.rsplit("Feedback:\n").next().unwrap().to_owned();
        Ok(Message::assistant(if feedback == "nothing" { " ".into() } else { format!("Be kind. {feedback}.") }))
    };
    let block = Arc::new(InstructionBlock::new("instructions", "Be kind.", model));
    let open = |session: &str| {
        let memory = engine.memory(&namespace("a"), session);
        memory.block(Arc::clone(&block)).open().unwrap()
    };
    let (one, two) = (open("one"), open("two"));
    let text = |memory: &Memory| memory.blocking().get(None).unwrap().messages[0].text();
    assert!(text(&one).contains("\nBe kind.\n"));
    let refine =
        |feedback: &str| one.blocking().change_block("instructions", |state| block.refine(state, feedback, &[]));
    refine("Be short").unwrap();
    assert!(text(&two).contains("\nBe kind. Be short.\n"), "all sessions share them: {}", text(&two));
    assert!(matches!(refine("nothing"), Err(Error::Chat { .. })));
    assert!(text(&two).contains("Be short"), "nothing is not instructions");
    one.blocking().change_block("instructions", |state| block.revert(state, 0)).unwrap();
    assert!(text(&one).contains("\nBe kind.\n"));
    let gone = one.blocking().change_block("instructions", |state| block.revert(state, 9));
    assert!(matches!(gone, Err(Error::InvalidQuery { .. })));
    for turn in 0..120 {
        refine(&turn.to_string()).unwrap();
    }
    let state = one.blocking().block_state("instructions").unwrap();
    assert_eq!(state["versions"].as_array().unwrap().len(), 100, "the newest are kept");
    assert_eq!(block.instructions(&state).unwrap(), "Be kind. 119.");
    assert_eq!(block.scope(), BlockScope::Namespace, "by default");
}
