//! Every prompt is one that OpenAI, Anthropic and Gemini accept, whatever was put, and whichever call made it.

use std::collections::HashSet;

use mnemon::{
    AssembleRequest, InsertMethod, MediaReference, MessageUpdate, MessageWindow, TokenWindow, to_anthropic, to_gemini,
    to_openai,
};
use proptest::prelude::*;

use super::*;

/// Checks that each provider accepts the messages. With `may_wait`, the last calls may be without results.
fn assert_valid(messages: &[Message], may_wait: bool) {
    let shown = || messages.iter().map(|m| format!("{} {:?}\n", m.role.as_str(), m.content)).collect::<String>();
    // A conversation without the user is no prompt yet.
    let has_user = messages.iter().any(|message| message.role == Role::User);
    let openai = to_openai(messages);
    assert!(openai_accepts(&openai, has_user, may_wait), "OpenAI:\n{}", shown());
    let anthropic = to_anthropic(messages);
    assert!(
        anthropic_accepts(anthropic["messages"].as_array().unwrap(), has_user, may_wait),
        "Anthropic: {anthropic}\n{}",
        shown()
    );
    let gemini = to_gemini(messages);
    assert!(
        gemini_accepts(gemini["contents"].as_array().unwrap(), has_user, may_wait),
        "Gemini: {gemini}\n{}",
        shown()
    );
}

fn is_blank(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.trim().is_empty())
}

fn openai_accepts(objects: &[Value], has_user: bool, may_wait: bool) -> bool {
    let mut open: HashSet<&str> = HashSet::new();
    for object in objects {
        if object["role"] == "tool" {
            // The result of an open call, once.
            if !open.remove(object["tool_call_id"].as_str().unwrap()) {
                return false;
            }
            continue;
        }
        let calls = object["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        let ids = || calls.iter().map(|call| call["id"].as_str().unwrap());
        if !open.is_empty() || calls.is_empty() && is_blank(&object["content"]) {
            return false;
        }
        open = ids().collect();
        if open.len() != calls.len() {
            return false;
        }
    }
    let first = objects.iter().map(|object| &object["role"]).find(|role| *role != "system");
    (!has_user || first.is_some_and(|role| role == "user")) && (may_wait || open.is_empty())
}

fn anthropic_accepts(turns: &[Value], has_user: bool, may_wait: bool) -> bool {
    let blocks = |turn: &Value| match &turn["content"] {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        other => panic!("{other}"),
    };
    let mut used: HashSet<String> = HashSet::new();
    let mut open: Vec<String> = Vec::new();
    for turn in turns {
        let blocks = blocks(turn);
        if blocks.is_empty() || blocks.iter().any(|block| block["type"] == "text" && is_blank(&block["text"])) {
            return false;
        }
        let of = |kind: &str, field: &str| -> Vec<String> {
            let blocks = blocks.iter().filter(|block| block["type"] == kind);
            blocks.map(|block| block[field].as_str().unwrap().to_owned()).collect()
        };
        let (mut results, calls) = (of("tool_result", "tool_use_id"), of("tool_use", "id"));
        // All results of the calls before, each once, at the beginning.
        let first_other = blocks.iter().take_while(|block| block["type"] == "tool_result").count();
        let is_rest_open = may_wait && std::ptr::eq(turn, turns.last().unwrap());
        results.sort();
        open.sort();
        if first_other != results.len()
            || results != open && !(is_rest_open && results.iter().all(|id| open.contains(id)))
        {
            return false;
        }
        if !calls.iter().all(|id| used.insert(id.clone())) {
            return false;
        }
        open = calls;
    }
    let alternates = turns.is_sorted_by(|a, b| a["role"] != b["role"]);
    alternates && (!has_user || turns[0]["role"] == "user") && (may_wait || open.is_empty())
}

fn gemini_accepts(contents: &[Value], has_user: bool, may_wait: bool) -> bool {
    let mut open = 0;
    for content in contents {
        let parts = content["parts"].as_array().unwrap();
        if parts.is_empty() || parts.iter().any(|part| part.get("text").is_some_and(|text| text == "")) {
            return false;
        }
        let of = |kind: &str| parts.iter().filter(|part| part.get(kind).is_some()).count();
        let is_rest_open = may_wait && std::ptr::eq(content, contents.last().unwrap());
        let results = of("functionResponse");
        if results != open && !(is_rest_open && results < open) {
            return false;
        }
        open = of("functionCall");
    }
    let alternates = contents.is_sorted_by(|a, b| a["role"] != b["role"]);
    alternates && (!has_user || contents[0]["role"] == "user") && (may_wait || open == 0)
}

/// A message of an agent's log, as it should be or not.
fn logged() -> impl Strategy<Value = Message> {
    let ids = || proptest::collection::vec("[abc]", 1..3);
    let text = || prop_oneof![4 => "[a-z]{1,5}( [a-z]{1,5}){0,3}", 1 => "[ \n]{0,2}"];
    let call = |id: String| ContentPart::ToolCall { id, name: "look".into(), arguments: json!({}) };
    let result = |id: String| ContentPart::ToolResult { id, content: "found it".into() };
    let image = || ContentPart::Image(MediaReference { uri: "https://a.org/b.png".into(), media_type: None });
    prop_oneof![
        5 => text().prop_map(Message::user),
        3 => text().prop_map(Message::assistant),
        1 => text().prop_map(|text| Message::new(Role::System, text)),
        1 => Just(Message::from_parts(Role::Assistant, Vec::new())),
        4 => (text(), ids()).prop_map(move |(text, ids)| {
            let text = ContentPart::Text { text };
            Message::from_parts(Role::Assistant, std::iter::once(text).chain(ids.into_iter().map(call)).collect())
        }),
        4 => ids().prop_map(move |ids| Message::from_parts(Role::Tool, ids.into_iter().map(result).collect())),
        1 => "[abc]".prop_map(move |id| Message::from_parts(Role::Tool, vec![result(id), image()])),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<Message>),
    /// Put as a whole: calls and their results.
    PutTurn(u8),
    Added(Message),
    Assemble(Message, u8),
    /// The prompt of the last call again.
    Again,
    /// The results of the last calls that were put, with the last of them as the prompt.
    Answer,
    Get(Option<Message>),
    Flush,
    Remove(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => proptest::collection::vec(logged(), 1..4).prop_map(Step::Put),
        3 => (0..4u8).prop_map(Step::PutTurn),
        2 => logged().prop_map(Step::Added),
        4 => (logged(), 0..6u8).prop_map(|(prompt, selector)| Step::Assemble(prompt, selector)),
        2 => Just(Step::Again),
        3 => Just(Step::Answer),
        2 => proptest::option::of(logged()).prop_map(Step::Get),
        1 => Just(Step::Flush),
        1 => (0..30usize).prop_map(Step::Remove),
    ]
}

/// A block that tells of an earlier conversation, as whole messages.
struct Told(Vec<Message>);

impl MemoryBlock for Told {
    fn name(&self) -> &str {
        "told"
    }

    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok(BlockContent::Messages(self.0.clone()))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_prompt_is_valid(
        steps in proptest::collection::vec(step(), 1..14),
        (limit, flush) in (4..60usize, 1..10usize),
        told in proptest::collection::vec(logged(), 0..4),
        inserts_for_user in any::<bool>(),
    ) {
        let engine = Engine::builder_in_memory().embedder(Arc::new(Hashing::new(16))).open().unwrap();
        let insert = if inserts_for_user { InsertMethod::User } else { InsertMethod::System };
        let memory = engine.memory(&namespace("a"), "s").limits(limits(limit, 0.8, flush.min(limit))).insert_method(insert);
        let memory = memory.message_counter(words()).block(Told(told)).block(mnemon::StaticBlock::new("about", "Ada"));
        let opened = memory.open().unwrap();
        let memory = opened.blocking();
        let assemble = |request: AssembleRequest| match memory.assemble(request) {
            Ok(prompt) => assert_valid(&prompt.messages, false),
            Err(Error::InvalidMessage { reason, .. }) => {
                assert!(reason.contains("no model accepts") || reason.contains("is empty"), "{reason}");
            }
            Err(error) => panic!("{error}"),
        };
        let mut last = Message::user("begin");
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put(messages) => drop(memory.put(messages).unwrap()),
                Step::PutTurn(calls) => {
                    let id = |call: u8| format!("c{number}-{call}");
                    let called = (0..calls).map(|at| ContentPart::ToolCall { id: id(at), name: "f".into(), arguments: json!({}) });
                    let mut turn = vec![Message::user("do it now"), Message::from_parts(Role::Assistant, called.collect())];
                    turn.extend((0..calls).map(|at| Message::tool_result(id(at), "done")));
                    memory.put(turn).unwrap();
                }
                Step::Added(message) => opened.add_step(message),
                Step::Assemble(prompt, selector) => {
                    last = prompt.clone();
                    let request = AssembleRequest::new(prompt);
                    assemble(match selector {
                        0 => request.selector(MessageWindow(2)),
                        1 => request.selector(TokenWindow::new(6, words())),
                        _ => request,
                    });
                }
                Step::Again => assemble(last.clone().into()),
                Step::Answer => {
                    let history = memory.history().unwrap();
                    let calls = history.iter().rev().find_map(|message| {
                        let ids = message.content.iter().filter_map(|part| match part {
                            ContentPart::ToolCall { id, .. } => Some(id.clone()),
                            _ => None,
                        });
                        Some(ids.collect::<Vec<_>>()).filter(|ids| !ids.is_empty())
                    });
                    let mut results: Vec<_> =
                        calls.unwrap_or_default().into_iter().map(|id| Message::tool_result(id, "here")).collect();
                    if let Some(prompt) = results.pop() {
                        memory.put(results).unwrap();
                        last = prompt.clone();
                        assemble(prompt.into());
                    }
                }
                Step::Get(input) => {
                    let prompt = memory.get(input.clone()).unwrap();
                    // A question or answer that the caller adds is accepted too.
                    assert_valid(&prompt.messages, true);
                    if let Some(input) = input.filter(|input| input.role == Role::User && !input.text().trim().is_empty()) {
                        assert_valid(&[prompt.messages, vec![input]].concat(), false);
                    }
                }
                Step::Flush => drop(memory.flush().unwrap()),
                Step::Remove(at) => {
                    let history = memory.history().unwrap();
                    if let Some(message) = history.get(at) {
                        memory.update(vec![MessageUpdate::Remove(message.id.clone())]).unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn a_result_over_the_budget_keeps_its_turn() {
    let db = Db::new();
    let engine = open(&db);
    for limit in [8, 12, 100] {
        let memory = engine.memory(&namespace("a"), format!("s{limit}")).limits(limits(limit, 1.0, 1));
        let memory = memory.message_counter(words()).open().unwrap();
        let id = |id: &str| format!("{limit}-{id}");
        let before = [user(&id("1"), "one two three"), assistant(&id("2"), "four five six")];
        memory.blocking().put(before.to_vec()).unwrap();
        let question = user(&id("3"), "where is it in all of this town");
        memory.blocking().put(vec![question, call(&id("4"), "c")]).unwrap();
        let answer = Message { content: result("", "c").content, ..result(&id("5"), "c") };
        let prompt = memory.blocking().assemble(AssembleRequest::new(answer).recall(0)).unwrap();
        let shown = if limit == 100 { vec!["1", "2", "3", "4", "5"] } else { vec!["3", "4", "5"] };
        assert_eq!(ids(&prompt.messages), shown.iter().map(|at| id(at)).collect::<Vec<_>>(), "{limit}");
        assert_valid(&prompt.messages, false);
    }
}

#[test]
fn steps_that_were_put_follow_their_question() {
    let db = Db::new();
    let engine = open(&db);
    for is_put in [false, true] {
        let memory = engine.memory(&namespace("a"), format!("s{is_put}")).message_counter(words()).open().unwrap();
        let id = |id: &str| format!("{is_put}-{id}");
        let shown = |prompt: mnemon::Prompt| -> String {
            assert_valid(&prompt.messages, false);
            prompt.messages.iter().map(|message| message.id.rsplit('-').next().unwrap()).collect()
        };
        let put = |messages: Vec<Message>| drop(memory.blocking().put(messages).unwrap());
        put(vec![user(&id("1"), "hello"), assistant(&id("2"), "hi")]);
        let question = user(&id("3"), "where is it");
        if is_put {
            put(vec![question.clone()]);
        }
        assert_eq!(shown(memory.blocking().assemble(question.clone()).unwrap()), "123");
        put(vec![call(&id("4"), "c"), result(&id("5"), "c")]);
        assert_eq!(shown(memory.blocking().assemble(question.clone()).unwrap()), "12345");
        // A further step that is not put, and one that is both.
        memory.add_step(call(&id("6"), "d"));
        assert_eq!(memory.blocking().assemble(question.clone()).unwrap().left_out, [id("6")], "it has no result yet");
        memory.add_step(result(&id("7"), "d"));
        assert_eq!(shown(memory.blocking().assemble(question.clone()).unwrap()), "1234567");
        put(vec![call(&id("6"), "d"), result(&id("7"), "d")]);
        assert_eq!(shown(memory.blocking().assemble(question.clone()).unwrap()), "1234567");
        // Asked again, it is answered again; asked after another question, it is the last.
        put(vec![question.clone(), assistant(&id("8"), "in the cellar")]);
        assert_eq!(shown(memory.blocking().assemble(question.clone()).unwrap()), "1234567");
        put(vec![user(&id("9"), "thanks")]);
        let again = shown(memory.blocking().assemble(question).unwrap());
        assert!(again.starts_with("12") && again.ends_with("9367"), "{again}");
    }
}

#[test]
fn a_prompt_leaves_out_what_a_provider_would_refuse() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    let blank = |id: &str| Message { content: Vec::new(), ..assistant(id, "") };
    let twice = [call("6", "c"), result("7", "c"), result("8", "c")];
    let session =
        [system("0", "be kind"), assistant("1", "How can I help?"), user("2", " "), user("3", "so"), blank("4")];
    let session = [&session[..], &[assistant("5", "\n\n")], &twice, &[user("9", "well")]].concat();
    memory.blocking().put(session.clone()).unwrap();
    let prompt = memory.blocking().assemble(AssembleRequest::new(user("10", "next")).recall(0)).unwrap();
    assert_eq!(ids(&prompt.messages), ["0", "3", "6", "7", "9", "10"]);
    assert_eq!(prompt.left_out, ["1", "2", "4", "5", "8"]);
    let prompt = memory.blocking().get(None).unwrap();
    assert_eq!(ids(&prompt.messages), ["0", "3", "6", "7", "9"]);
    assert_eq!(
        memory.blocking().history().unwrap(),
        session.into_iter().map(|message| message.in_session("s")).collect::<Vec<_>>()
    );
    let refused = memory.blocking().assemble(result("11", "unknown")).unwrap_err().to_string();
    assert!(refused.contains("put the call"), "{refused}");
    let refused = memory.blocking().assemble(user("11", " \n")).unwrap_err().to_string();
    assert!(refused.contains("the prompt is empty"), "{refused}");
    // Media beside results come after all results of the calls that were made at once.
    let image = ContentPart::Image(MediaReference { uri: "https://a.org/b.png".into(), media_type: None });
    let mut both = call("12", "a");
    both.content.extend(call("", "b").content);
    let mut first = result("13", "a");
    first.content.push(image);
    memory.blocking().put(vec![both, first, result("14", "b")]).unwrap();
    let prompt = memory.blocking().get(None).unwrap();
    assert_eq!(ids(&prompt.messages)[5..], ["12", "13", "14"]);
    let roles: Vec<Value> = to_openai(&prompt.messages).into_iter().map(|object| object["role"].clone()).collect();
    assert_eq!(roles[6..], ["tool", "tool", "user"]);
    assert_valid(&prompt.messages, false);
    // A message with one result twice is left out, and does not stand for the result.
    let mut doubled = result("16", "e");
    doubled.content.extend(result("", "e").content);
    memory.blocking().put(vec![call("15", "e"), doubled, result("17", "e")]).unwrap();
    let prompt = memory.blocking().get(None).unwrap();
    assert_eq!(ids(&prompt.messages)[8..], ["15", "17"]);
    assert_valid(&prompt.messages, false);
}
