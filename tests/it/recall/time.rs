//! Times in queries, and the age of messages.

use std::time::Duration;

use mnemon::{
    AssembleRequest, Hits, Message, Query, QueryOptions, TimeUse, Timestamp, VectorBlock,
    message::{LocalTime, TimeZone},
};

use super::{SPACE, filled, ids, recall};
use crate::support::message;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// One on each of these days, all saying the same but for a number; and one without a time.
fn days() -> Vec<Message> {
    let days = ["2023-03-10", "2023-04-20", "2023-05-08", "2023-05-14", "2023-05-16", "2023-06-01"];
    let mut messages: Vec<Message> = days
        .iter()
        .map(|day| message(day, &format!("we cooked soup number {day}")).at(at(&format!("{day}T09:00:00Z"))))
        .collect();
    messages.push(Message { created_at: None, ..message("never", "we cooked soup number 0") });
    messages
}

/// A Wednesday.
const NOW: &str = "2023-05-17T12:00:00Z";

fn asked(text: &str) -> Query {
    Query::new(text).now(at(NOW)).keep_duplicates()
}

fn sorted(hits: &Hits) -> Vec<&str> {
    let mut ids = ids(hits);
    ids.sort_unstable();
    ids
}

#[test]
fn a_time_in_the_query_filters_or_boosts() {
    let (_db, engine) = filled(days());
    for (text, wanted) in [
        ("what did we cook last week", &["2023-05-08", "2023-05-14"][..]),
        ("soup in April", &["2023-04-20"]),
        ("soup yesterday", &["2023-05-16"]),
        ("soup since May 10", &["2023-05-14", "2023-05-16", "2023-06-01"]),
        ("soup in March or on 2023-05-16", &["2023-03-10", "2023-05-16"]),
        ("soup in July 2019", &[]),
    ] {
        let hits = recall(&engine, asked(text).time(TimeUse::Filter));
        assert_eq!(sorted(&hits), wanted, "{text}");
        let hits = recall(&engine, asked(text));
        assert_eq!(hits.len(), 7, "{text}: all are there");
        for hit in &hits {
            assert_eq!(hit.breakdown.time > 0.0, wanted.contains(&hit.message.id.as_str()), "{text}: {hit:?}");
        }
        let hits = recall(&engine, asked(text).time(TimeUse::Ignore));
        assert!(hits.iter().all(|hit| hit.breakdown.time == 0.0), "{text}");
    }
}

#[test]
fn queries_without_a_time_and_with_impossible_times_are_answered() {
    let (_db, engine) = filled(days());
    for text in ["what soup did we cook", "soup between June and May 2023", "soup on 2023-02-31", "soup in 99999"] {
        for time in [TimeUse::Filter, TimeUse::Boost] {
            let hits = recall(&engine, asked(text).time(time));
            assert_eq!(hits.len(), 7, "{text}");
            assert!(hits.iter().all(|hit| hit.breakdown.time == 0.0), "{text}");
        }
    }
    let both = asked("soup last week").time(TimeUse::Filter).since(at("2023-05-10T00:00:00Z"));
    assert_eq!(ids(&recall(&engine, both)), ["2023-05-14"], "with other filters");
    let none = asked("soup last week").time(TimeUse::Filter).since(at("2023-05-15T00:00:00Z"));
    assert!(recall(&engine, none).is_empty());
}

/// Asked in the evening in California, where the next day has begun in UTC.
#[test]
fn days_are_those_of_now_or_of_the_time_zone() {
    let said = ["15", "16", "17"].map(|day| {
        // At noon in California, on three days.
        message(day, &format!("we cooked soup number {day}")).at(at(&format!("2023-05-{day}T19:00:00Z")))
    });
    let (_db, engine) = filled(said.to_vec());
    let filter = |query: Query| {
        let hits = recall(&engine, query.time(TimeUse::Filter).keep_duplicates());
        sorted(&hits).join(" ")
    };
    let evening: LocalTime = "2023-05-17T17:30:00-08:00".parse().unwrap();
    let of_json = |options: &str| {
        let options = serde_json::from_str::<serde_json::Value>(options).unwrap();
        Query::with_options("soup yesterday", QueryOptions::from_json(options.as_object().unwrap()).unwrap())
    };
    assert_eq!(filter(Query::new("soup yesterday").now(evening)), "16");
    assert_eq!(filter(Query::new("soup yesterday").now(evening.time())), "17", "a timestamp is of UTC");
    assert_eq!(filter(of_json(r#"{"now": "2023-05-17T17:30:00-08:00"}"#)), "16");
    assert_eq!(filter(of_json(r#"{"now": "2023-05-18T01:30:00Z"}"#)), "17");
    for zone in ["America/Los_Angeles", "-07:00"] {
        let query = Query::new("soup yesterday").now(evening.time()).time_zone(zone.parse().unwrap());
        assert_eq!(filter(query), "16", "{zone}");
        let json = format!(r#"{{"now": "2023-05-18T03:30:00+02:00", "time_zone": "{zone}"}}"#);
        assert_eq!(filter(of_json(&json)), "16", "{zone} counts, not the offset of now");
    }
    // A prompt is asked at its time.
    for (zone, wanted) in [("America/Los_Angeles", "16"), ("Europe/Berlin", "17")] {
        let block = VectorBlock::new("said").query(|query| query.time(TimeUse::Filter));
        let memory = engine.memory(&SPACE.parse().unwrap(), "prompts").block(block).open().unwrap();
        let prompt = Message::user("what soup did we cook yesterday?").at(evening.time());
        let prompt = memory.blocking().assemble(AssembleRequest::new(prompt).time_zone(zone.parse().unwrap())).unwrap();
        let recalled: Vec<&str> = prompt.recalled.iter().map(|recalled| recalled.id.as_str()).collect();
        assert_eq!(recalled, [wanted], "{zone}");
    }
    // Clocks are set forward between the two midnights: that day has 23 hours.
    let zone: TimeZone = "America/Los_Angeles".parse().unwrap();
    let found = mnemon::recall::time_expressions_in("yesterday", at("2023-03-13T18:00:00Z"), &zone);
    let span = found[0].span;
    assert_eq!((span.since, span.until), (at("2023-03-12T08:00:00Z"), at("2023-03-13T07:00:00Z")));
    for wrong in ["Europe/Nowhere", "+2", "", "8"] {
        assert!(wrong.parse::<TimeZone>().is_err(), "{wrong}");
    }
}

#[test]
fn newer_messages_score_higher() {
    let (_db, engine) = filled(days());
    let day = Duration::from_secs(24 * 3600);
    let hits = recall(&engine, asked("soup").half_life(10 * day));
    let recency = |id: &str| hits.iter().find(|hit| hit.message.id == id).unwrap().breakdown.recency;
    assert!(recency("2023-05-16") > recency("2023-05-14") && recency("2023-05-14") > recency("2023-03-10"));
    assert!((recency("2023-05-08") - 2.0 * 0.5f32.powf(9.125 / 10.0)).abs() < 1e-3, "half as much for each half-life");
    assert_eq!((recency("2023-06-01"), recency("never")), (2.0, 0.0), "what is to come is new; without a time is old");
    // The shortest and the longest.
    for half_life in [Duration::from_nanos(1), Duration::MAX] {
        let hits = recall(&engine, asked("soup").now(at("2023-05-16T09:00:00Z")).half_life(half_life));
        let sound = |hit: &mnemon::Hit| hit.score.is_finite() && (0.0..=2.0).contains(&hit.breakdown.recency);
        assert!(hits.len() == 7 && hits.iter().all(sound), "{half_life:?}: {hits:?}");
    }
}
