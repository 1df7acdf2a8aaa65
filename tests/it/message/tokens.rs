//! Counting of messages with the help of the usage that a provider reports.

use mnemon::{CalibratedTokenCounter, Message, MessageTokenCounter, TrimOptions, trim_messages};

use crate::support::words;

#[test]
fn reported_usage_calibrates_the_estimate() {
    let counter = CalibratedTokenCounter::new(words());
    let prompt = [Message::user("one two three four"), Message::assistant("five six seven eight nine ten")];
    assert_eq!((counter.ratio(), counter.count(&prompt[0])), (1.0, 4));
    // The provider counts half as much again; a clone learns it too.
    let clone = counter.clone();
    counter.observe(&prompt, 15);
    assert_eq!((clone.ratio(), clone.count(&prompt[0])), (1.5, 6));
    // Prompts without tokens tell nothing.
    counter.observe(&[], 100);
    counter.observe(&prompt, 0);
    assert_eq!(counter.ratio(), 1.5);
    // Ten words do not fit into ten tokens any more.
    let kept =
        |counter: &dyn MessageTokenCounter| trim_messages(&prompt, &TrimOptions::last(10), counter).unwrap().len();
    assert_eq!((kept(&words()), kept(&counter)), (2, 1));
}

#[test]
fn newer_usage_counts_more() {
    let counter = CalibratedTokenCounter::new(|_: &Message| 100_000);
    let prompt = [Message::user("long")];
    counter.observe(&prompt, 100_000);
    assert_eq!(counter.ratio(), 1.0);
    // The older observation has half the weight of the newer one.
    counter.observe(&prompt, 400_000);
    assert_eq!(counter.ratio(), 3.0);
}
