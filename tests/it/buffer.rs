//! Limits of the short-term buffer, and which turns are flushed.

use std::sync::Arc;

use mnemon::{BufferLimits, Engine, Error, Message, MessageTokenCounter, Role};
use proptest::prelude::*;

use crate::support::{Hashing, call, conversation, namespace, result, splits_a_call, words};

#[test]
fn limits_out_of_range_are_errors() {
    for (limit, ratio, size) in
        [(0, 0.7, 1), (10, 0.0, 1), (10, 1.1, 1), (10, f64::NAN, 1), (10, 0.7, 0), (10, 0.7, 11)]
    {
        assert!(
            matches!(BufferLimits::new(limit, ratio, size), Err(Error::InvalidConfig { .. })),
            "{limit} {ratio} {size}"
        );
    }
    assert_eq!((BufferLimits::default().token_limit, BufferLimits::default().flush_size()), (30_000, 3_000));
    assert_eq!(BufferLimits::default().budget(), 21_000);
}

#[test]
fn a_limit_that_is_not_set_follows_the_token_limit() {
    let engine = Engine::builder_in_memory().embedder(Arc::new(Hashing::new(32))).open().unwrap();
    let open = |limits| engine.memory(&namespace("a"), "s").limits(limits).open();
    for limit in [1, 9, 1_000, 1_000_000] {
        let mut by_field = BufferLimits::default();
        by_field.token_limit = limit;
        let by_builder = BufferLimits::default().token_limit(limit);
        assert_eq!((by_field, by_builder.flush_size()), (by_builder, (limit / 10).max(1)));
        open(by_field).unwrap();
    }
    // What was set is kept, and is refused if it contradicts the rest.
    let set = BufferLimits::default().token_flush_size(300).chat_history_token_ratio(0.5);
    assert_eq!((set.token_limit(1_000).flush_size(), set.token_limit(1_000).budget()), (300, 500));
    for wrong in [set.token_limit(299), set.token_flush_size(0), set.chat_history_token_ratio(0.0)] {
        assert!(matches!(open(wrong), Err(Error::InvalidConfig { .. })), "{wrong:?}");
    }
}

#[test]
fn a_flush_takes_whole_turns() {
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

proptest! {
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
