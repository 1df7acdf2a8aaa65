//! Lists of messages: counted, changed by ids, cut to a budget, chosen from.

use std::sync::Arc;

use mnemon::{
    ApproximateTokens, BufferLimits, Error, Message, MessageCounter, MessageSelector, MessageTokens, MessageUpdate,
    MessageWindow, Part, Role, TokenCounter, TokenWindow, TokenizerFile, Trim, add_messages, trim_messages,
};
use proptest::prelude::*;
use serde_json::json;

fn words() -> MessageTokens {
    MessageTokens::new(|text: &str| text.split_whitespace().count())
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(Message::text).collect()
}

fn call(id: &str) -> Message {
    let mut message = Message::assistant("calling").with_id(format!("call-{id}"));
    message.content.push(Part::ToolCall { id: id.into(), name: "search".into(), arguments: json!({"q": 1}) });
    message
}

fn result(id: &str) -> Message {
    let content = vec![Part::ToolResult { id: id.into(), content: "found it".into() }];
    Message { content, ..Message::new(Role::Tool, "x").with_id(format!("result-{id}")) }
}

#[test]
fn tokens_of_text() {
    assert_eq!([0, 1, 1, 2].to_vec(), ["", "a", "abcd", "abcde"].map(|text| ApproximateTokens.count(text)).to_vec());
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("models/static-en-256/tokenizer.json");
    let tokenizer = TokenizerFile::open(&file).unwrap();
    assert_eq!(tokenizer.count("unaffable bicycles, 12!"), 7, "una ##ffa ##ble bicycles , 12 !");
    assert_eq!(tokenizer.count(""), 0);
    assert!(matches!(TokenizerFile::open("Cargo.toml"), Err(Error::InvalidModel { .. })));
}

#[cfg(feature = "tiktoken")]
#[test]
fn tokens_as_openai_counts_them() {
    use mnemon::Tiktoken;
    // As the encodings' authors give them.
    assert_eq!(Tiktoken::cl100k_base().count("tiktoken is great!"), 6);
    assert_eq!(Tiktoken::o200k_base().count("tiktoken is great!"), 6);
    assert_eq!(Tiktoken::cl100k_base().count("antidisestablishmentarianism"), 6);
    assert_eq!(Tiktoken::o200k_base().count("お誕生日おめでとう"), 8);
    assert_eq!(Tiktoken::cl100k_base().count("お誕生日おめでとう"), 9);
    // Plain text, not a command to the model.
    assert!(Tiktoken::o200k_base().count("<|endoftext|>") > 1);
}

#[test]
fn every_part_of_a_message_costs() {
    let mut tokens = words();
    let parts = json!({"id": "m", "role": "assistant", "name": "two words", "content": [
        {"type": "text", "text": "one two three"},
        {"type": "tool_call", "id": "c", "name": "search", "arguments": {"q": "a b"}},
        {"type": "tool_result", "id": "c", "content": "four words are here"},
        {"type": "image", "uri": "a.png"}, {"type": "audio", "uri": "a.ogg"}, {"type": "video", "uri": "a.mp4"},
        {"type": "file", "uri": "a.pdf"},
    ]});
    let message = mnemon::MessageLine::parse(&parts.to_string()).unwrap().message;
    // Name 2, text 3, call 1 and its arguments {"q":"a b"} 2, result 4.
    assert_eq!(tokens.count(&message), 2 + 3 + 1 + 2 + 4 + 3 * 256 + 2048);
    (tokens.message, tokens.media, tokens.file) = (5, 1, 10);
    assert_eq!(tokens.count(&message), 12 + 5 + 3 + 10);
}

#[test]
fn updates_by_id() {
    let put = |id: &str, text: &str| MessageUpdate::Put(Message::user(text).with_id(id));
    let remove = |id: &str| MessageUpdate::Remove(id.into());
    let list: Vec<Message> = ["a", "b", "c"].map(|id| Message::user(id).with_id(id)).to_vec();
    let check = |updates: Vec<MessageUpdate>, wanted: &[&str]| {
        assert_eq!(texts(&add_messages(list.clone(), updates).unwrap()), wanted);
    };
    check(vec![], &["a", "b", "c"]);
    check(vec![put("b", "B"), put("d", "D")], &["a", "B", "c", "D"]);
    check(vec![put("d", "1"), put("d", "2")], &["a", "b", "c", "2"]);
    check(vec![remove("a"), remove("c")], &["b"]);
    check(vec![remove("a"), put("a", "A")], &["A", "b", "c"]);
    check(vec![put("a", "A"), remove("a")], &["b", "c"]);
    check(vec![put("d", "D"), remove("d")], &["a", "b", "c"]);
    check(vec![put("d", "D"), MessageUpdate::RemoveAll, put("e", "E")], &["E"]);
    check(vec![remove("nobody"), MessageUpdate::RemoveAll], &[]);
    for unknown in [vec![remove("x")], vec![MessageUpdate::RemoveAll, remove("a")]] {
        assert!(matches!(add_messages(list.clone(), unknown), Err(Error::InvalidMessage { .. })));
    }
}

#[test]
fn trimming() {
    let list = vec![
        Message::new(Role::System, "be kind"),
        Message::user("one two three"),
        Message::assistant("four five"),
        Message::user("six"),
        Message::assistant("seven eight nine"),
    ];
    let check = |trim: Trim, wanted: &[&str]| {
        assert_eq!(texts(&trim_messages(&list, &trim, &words()).unwrap()), wanted);
    };
    let with = |mut trim: Trim, change: &dyn Fn(&mut Trim)| {
        change(&mut trim);
        trim
    };
    check(Trim::last(0), &[]);
    check(Trim::last(4), &["six", "seven eight nine"]);
    check(Trim::first(5), &["be kind", "one two three"]);
    check(Trim::last(100), &["be kind", "one two three", "four five", "six", "seven eight nine"]);
    let system = |trim: &mut Trim| trim.include_system = true;
    check(with(Trim::last(6), &system), &["be kind", "six", "seven eight nine"]);
    check(with(Trim::last(1), &system), &["be kind"]);
    let user = |trim: &mut Trim| trim.start_on = vec![Role::User];
    check(with(Trim::last(6), &user), &["six", "seven eight nine"]);
    check(with(Trim::last(3), &user), &[]);
    check(with(Trim::last(100), &user), &["one two three", "four five", "six", "seven eight nine"]);
    check(with(Trim::last(6), &|trim| trim.end_on = vec![Role::User]), &["one two three", "four five", "six"]);
    check(with(Trim::last(6), &|trim| trim.end_on = vec![Role::Tool]), &[]);
    let partial = |trim: &mut Trim| {
        trim.allow_partial = true;
        trim.splitter = Arc::new(|text: &str| text.split_inclusive(' ').map(str::to_owned).collect());
    };
    check(with(Trim::last(2), &partial), &["eight nine"]);
    check(with(Trim::first(4), &partial), &["be kind", "one two "]);
    for wrong in [with(Trim::first(5), &user), with(Trim::first(5), &system)] {
        assert!(matches!(trim_messages(&list, &wrong, &words()), Err(Error::InvalidConfig { .. })));
    }
}

#[test]
fn tool_calls_are_cut_whole() {
    let list = vec![Message::user("question"), call("1"), result("1"), Message::assistant("answer")];
    let cost: usize = list.iter().map(|message| words().count(message)).sum();
    // Room for all but the question and the call: the result would be an orphan.
    let last = Trim::last(cost - 1 - words().count(&list[1]));
    assert_eq!(texts(&trim_messages(&list, &last, &words()).unwrap()), ["answer"]);
    // Room for the question and the call, not its result.
    let first = Trim::first(1 + words().count(&list[1]));
    assert_eq!(texts(&trim_messages(&list, &first, &words()).unwrap()), ["question"]);
    // As LangChain does it, on request.
    let mut langchain = last;
    langchain.keep_tool_calls_whole = false;
    assert_eq!(trim_messages(&list, &langchain, &words()).unwrap().len(), 2);
}

#[test]
fn ids_of_calls_may_be_used_again() {
    let turn = || [Message::user("question"), call("0"), result("0"), Message::assistant("answer")];
    let list: Vec<Message> = turn().into_iter().chain(turn()).collect();
    let cost: usize = turn().iter().map(|message| words().count(message)).sum();
    assert_eq!(trim_messages(&list, &Trim::last(cost), &words()).unwrap().len(), 4);
    assert_eq!(trim_messages(&list, &Trim::first(cost), &words()).unwrap().len(), 4);
    let limits = BufferLimits::new(cost, 1.0, 1).unwrap();
    assert_eq!(limits.plan_flush(&list, &words()).iter().map(|batch| batch.end).collect::<Vec<_>>(), [4]);
}

#[test]
fn selectors() {
    let list = vec![
        Message::new(Role::System, "system"),
        Message::user("a b c d"),
        result("1"),
        Message::assistant("e f"),
        Message::user("g"),
    ];
    assert_eq!(texts(&MessageWindow(2).select(&list)), ["e f", "g"]);
    assert_eq!(texts(&MessageWindow(9).select(&list)), ["a b c d", "e f", "g"]);
    assert_eq!(texts(&MessageWindow(0).select(&list)), [""; 0]);
    let mut window = TokenWindow::new(4, words());
    assert_eq!(texts(&window.select(&list)), ["e f", "g"]);
    window.skip_too_long = true;
    assert_eq!(texts(&window.select(&list)), ["system", "e f", "g"]);
}

#[test]
fn buffer_limits() {
    for (limit, ratio, size) in
        [(0, 0.7, 1), (10, 0.0, 1), (10, 1.1, 1), (10, f64::NAN, 1), (10, 0.7, 0), (10, 0.7, 11)]
    {
        assert!(
            matches!(BufferLimits::new(limit, ratio, size), Err(Error::InvalidConfig { .. })),
            "{limit} {ratio} {size}"
        );
    }
    assert_eq!(BufferLimits::default(), BufferLimits::new(30_000, 0.7, 3_000).unwrap());
    assert_eq!(BufferLimits::default().budget(), 21_000);
}

#[test]
fn whole_turns_are_flushed() {
    let list = vec![
        Message::new(Role::System, "be kind"),
        Message::user("one"),
        call("1"),
        // In the midst of a call: no turn begins here.
        Message::user("hurry"),
        result("1"),
        Message::user("two"),
        Message::assistant("three four five"),
    ];
    let plan = |limit, size| BufferLimits::new(limit, 1.0, size).unwrap().plan_flush(&list, &words());
    assert_eq!(plan(100, 1), [0..0; 0], "within the budget");
    // The first turn; the last stays, over the budget or not.
    assert_eq!(plan(10, 1).first(), Some(&(1..5)));
    assert_eq!(plan(1, 1).iter().map(|batch| batch.end).collect::<Vec<_>>(), [5]);
    let no_user = [Message::assistant("a b c"), Message::assistant("d e f")];
    assert_eq!(BufferLimits::new(2, 1.0, 1).unwrap().plan_flush(&no_user, &words()), [0..0; 0]);
}

/// Conversations as agents have them, some of them broken.
pub(crate) fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let text = "[a-z]{1,5}( [a-z]{1,5}){0,9}";
    let turn = prop_oneof![
        4 => text.prop_map(|text| vec![Message::user(text)]),
        4 => text.prop_map(|text| vec![Message::assistant(text)]),
        2 => (0u8..20).prop_map(|id| vec![call(&id.to_string()), result(&id.to_string())]),
        1 => (0u8..20).prop_map(|id| vec![result(&id.to_string())]),
        1 => (0u8..20).prop_map(|id| vec![call(&id.to_string())]),
        1 => text.prop_map(|text| vec![Message::new(Role::System, text)]),
    ];
    (proptest::option::of(text), proptest::collection::vec(turn, 0..15)).prop_map(|(system, turns)| {
        let system = system.map(|text| Message::new(Role::System, text));
        let mut messages: Vec<Message> = system.into_iter().chain(turns.into_iter().flatten()).collect();
        for (i, message) in messages.iter_mut().enumerate() {
            message.id = format!("m{i}");
        }
        messages
    })
}

/// Whether a result from `cut` on answers a call before it: the nearest of its id.
pub(crate) fn splits_a_call(list: &[Message], cut: usize) -> bool {
    let calls = |message: &Message, id: &str| {
        message.content.iter().any(|part| matches!(part, Part::ToolCall { id: call, .. } if call == id))
    };
    (cut..list.len()).any(|result| {
        list[result].content.iter().any(|part| match part {
            Part::ToolResult { id, .. } => {
                (0..=result).rev().find(|&at| calls(&list[at], id)).is_some_and(|at| at < cut)
            }
            _ => false,
        })
    })
}

proptest! {
    /// Whatever is cut: it fits (but for an over-budget system message), is in order, and ends and begins as asked;
    /// no tool result stands without its call.
    #[test]
    fn a_trimmed_list_keeps_its_promises(
        list in conversation(),
        max_tokens in 0usize..60,
        last in any::<bool>(),
        partial in any::<bool>(),
        include_system in any::<bool>(),
        start in any::<bool>(),
        end in any::<bool>(),
    ) {
        let mut trim = if last { Trim::last(max_tokens) } else { Trim::first(max_tokens) };
        trim.allow_partial = partial;
        trim.include_system = include_system && last;
        trim.start_on = if start && last { vec![Role::User] } else { vec![] };
        trim.end_on = if end { vec![Role::Assistant, Role::Tool] } else { vec![] };
        trim.splitter = Arc::new(|text: &str| text.split_inclusive(' ').map(str::to_owned).collect());
        let kept = trim_messages(&list, &trim, &words()).unwrap();

        let system = trim.include_system && kept.first().is_some_and(|first| first.role == Role::System);
        let rest = &kept[usize::from(system)..];
        let system_cost = if system { words().count(&kept[0]) } else { 0 };
        let cost: usize = rest.iter().map(|message| words().count(message)).sum();
        prop_assert!(cost <= max_tokens.saturating_sub(system_cost));
        let places: Vec<usize> = kept.iter().map(|m| list.iter().position(|o| o.id == m.id).unwrap()).collect();
        prop_assert!(places.is_sorted_by(|a, b| a < b));
        prop_assert!(trim.start_on.is_empty() || rest.first().is_none_or(|first| first.role == Role::User));
        prop_assert!(trim.end_on.is_empty() || rest.last().is_none_or(|last| trim.end_on.contains(&last.role)));
        for message in &kept {
            for part in &message.content {
                if let Part::ToolResult { id, .. } = part {
                    let called = kept.iter().flat_map(|m| &m.content).any(|p| matches!(p, Part::ToolCall { id: i, .. } if i == id));
                    prop_assert!(called, "result {id} has no call");
                }
            }
        }
    }

    /// Whatever is flushed: batches follow one another from behind the system prompt, what is left begins with a user
    /// message and splits no call, and it is within the budget unless it is one turn.
    #[test]
    fn a_flush_leaves_a_valid_history(list in conversation(), limit in 1usize..80, ratio in 0.1f64..1.0, size in 1usize..40) {
        let limits = BufferLimits::new(limit, ratio, size.min(limit)).unwrap();
        let batches = limits.plan_flush(&list, &words());
        let system = list.iter().take_while(|message| message.role == Role::System).count();
        let mut end = system;
        for batch in &batches {
            prop_assert!(batch.start == end && batch.end > batch.start);
            end = batch.end;
        }
        let left: Vec<&Message> = list[..system].iter().chain(&list[end..]).collect();
        let cost: usize = left.iter().map(|message| words().count(message)).sum();
        if !batches.is_empty() {
            prop_assert_eq!(list[end].role, Role::User);
            prop_assert!(!splits_a_call(&list, end));
        }
        // More could be flushed only if another turn began later, and no call were split there.
        let another = (end + 1..list.len()).any(|cut| list[cut].role == Role::User && !splits_a_call(&list, cut));
        prop_assert!(cost <= limits.budget() || !another, "{cost} of {} left", limits.budget());
    }
}
