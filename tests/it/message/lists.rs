//! Lists of messages: updated by id, trimmed to a budget, selected from.

use std::sync::Arc;

use mnemon::{
    BufferLimits, ContentPart, Error, Message, MessageSelector, MessageTokenCounter, MessageUpdate, MessageWindow,
    Role, TokenWindow, TrimOptions, add_messages, trim_messages,
};
use proptest::prelude::*;

use crate::support::{call, conversation, result, words};

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(Message::text).collect()
}

#[test]
fn updates_replace_and_remove_messages_by_id() {
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
fn a_list_is_trimmed_to_its_budget_by_each_option() {
    let list = vec![
        Message::new(Role::System, "be kind"),
        Message::user("one two three"),
        Message::assistant("four five"),
        Message::user("six"),
        Message::assistant("seven eight nine"),
    ];
    let check = |trim: TrimOptions, wanted: &[&str]| {
        assert_eq!(texts(&trim_messages(&list, &trim, &words()).unwrap()), wanted);
    };
    let with = |mut trim: TrimOptions, change: &dyn Fn(&mut TrimOptions)| {
        change(&mut trim);
        trim
    };
    check(TrimOptions::last(0), &[]);
    check(TrimOptions::last(4), &["six", "seven eight nine"]);
    check(TrimOptions::first(5), &["be kind", "one two three"]);
    check(TrimOptions::last(100), &["be kind", "one two three", "four five", "six", "seven eight nine"]);
    let system = |trim: &mut TrimOptions| trim.include_system = true;
    check(with(TrimOptions::last(6), &system), &["be kind", "six", "seven eight nine"]);
    check(with(TrimOptions::last(1), &system), &["be kind"]);
    let user = |trim: &mut TrimOptions| trim.start_on = vec![Role::User];
    check(with(TrimOptions::last(6), &user), &["six", "seven eight nine"]);
    check(with(TrimOptions::last(3), &user), &[]);
    check(with(TrimOptions::last(100), &user), &["one two three", "four five", "six", "seven eight nine"]);
    check(with(TrimOptions::last(6), &|trim| trim.end_on = vec![Role::User]), &["one two three", "four five", "six"]);
    check(with(TrimOptions::last(6), &|trim| trim.end_on = vec![Role::Tool]), &[]);
    let partial = |trim: &mut TrimOptions| {
        trim.allow_partial = true;
        trim.splitter = Arc::new(|text: &str| text.split_inclusive(' ').map(str::to_owned).collect());
    };
    check(with(TrimOptions::last(2), &partial), &["eight nine"]);
    check(with(TrimOptions::first(4), &partial), &["be kind", "one two "]);
    let built = TrimOptions::last(6).include_system(true).start_on([Role::User]).end_on(vec![Role::User]);
    check(built, &["be kind", "six"]);
    let partial_words = TrimOptions::first(4).allow_partial(true).keep_tool_calls_whole(false);
    let partial_words = partial_words.splitter(|text| text.split_inclusive(' ').map(str::to_owned).collect());
    check(partial_words, &["be kind", "one two "]);
    for wrong in [with(TrimOptions::first(5), &user), with(TrimOptions::first(5), &system)] {
        assert!(matches!(trim_messages(&list, &wrong, &words()), Err(Error::InvalidConfig { .. })));
    }
}

#[test]
fn a_tool_call_and_its_result_are_trimmed_together() {
    let list = vec![Message::user("question"), call("1"), result("1"), Message::assistant("answer")];
    let cost: usize = list.iter().map(|message| words().count(message)).sum();
    // Room for all but the question and the call: the result would be an orphan.
    let last = TrimOptions::last(cost - 1 - words().count(&list[1]));
    assert_eq!(texts(&trim_messages(&list, &last, &words()).unwrap()), ["answer"]);
    // Room for the question and the call, not its result.
    let first = TrimOptions::first(1 + words().count(&list[1]));
    assert_eq!(texts(&trim_messages(&list, &first, &words()).unwrap()), ["question"]);
    // As LangChain does it, on request.
    let mut langchain = last;
    langchain.keep_tool_calls_whole = false;
    assert_eq!(trim_messages(&list, &langchain, &words()).unwrap().len(), 2);
}

#[test]
fn an_id_of_a_tool_call_may_be_reused_in_a_later_turn() {
    let turn = || [Message::user("question"), call("0"), result("0"), Message::assistant("answer")];
    let list: Vec<Message> = turn().into_iter().chain(turn()).collect();
    let cost: usize = turn().iter().map(|message| words().count(message)).sum();
    assert_eq!(trim_messages(&list, &TrimOptions::last(cost), &words()).unwrap().len(), 4);
    assert_eq!(trim_messages(&list, &TrimOptions::first(cost), &words()).unwrap().len(), 4);
    let limits = BufferLimits::new(cost, 1.0, 1).unwrap();
    assert_eq!(limits.plan_flush(&list, &words()).iter().map(|batch| batch.end).collect::<Vec<_>>(), [4]);
}

#[test]
fn selectors_keep_the_newest_messages_that_fit() {
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

proptest! {
    /// Whatever is cut: it fits (but for an over-budget system message), is in order, and ends and begins as asked;
    /// no tool result stands without its call.
    #[test]
    fn a_trimmed_list_fits_its_budget_and_keeps_calls_with_results(
        list in conversation(),
        max_tokens in 0usize..60,
        last in any::<bool>(),
        partial in any::<bool>(),
        include_system in any::<bool>(),
        start in any::<bool>(),
        end in any::<bool>(),
    ) {
        let mut trim = if last { TrimOptions::last(max_tokens) } else { TrimOptions::first(max_tokens) };
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
                if let ContentPart::ToolResult { id, .. } = part {
                    let called = kept.iter().flat_map(|m| &m.content).any(|p| matches!(p, ContentPart::ToolCall { id: i, .. } if i == id));
                    prop_assert!(called, "result {id} has no call");
                }
            }
        }
    }
}
