//! Random combinations of all query options: the hits satisfy each of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use mnemon::{
    BufferLimits, Engine, Message, PerPartTokenCounter, Query, RankingStrategy as Ranking, Role, TimeUse, Timestamp,
};
use proptest::{prelude::*, sample::subsequence};

use super::{SPACE, Terse, hashing, recall};
use crate::support::{Db, message, namespace};

/// Returns messages of which some are flushed in batches and some are put, with and without times and names; some are
/// long, some equal.
fn stored() -> &'static (Db, Engine, BTreeMap<String, Message>) {
    static STORED: OnceLock<(Db, Engine, BTreeMap<String, Message>)> = OnceLock::new();
    STORED.get_or_init(|| {
        let db = Db::new();
        let engine = Engine::builder(&db.path).embedder(Arc::new(hashing(32, 40))).reranker(Arc::new(Terse));
        let engine = engine.open().unwrap();
        let mut messages = Vec::new();
        for i in 0..120 {
            let text = format!("word{} thing{} {}", i % 40, i % 7, "pad ".repeat(i % 9 * 3));
            let mut message = message(&format!("m{i}"), &text).in_session(["s", "t", "batched"][i % 3]);
            message.role = [Role::User, Role::Assistant][i / 3 % 2];
            message.name = (i % 11 == 0).then(|| "Ada".to_owned());
            let day = || format!("2023-05-{:02}T00:00:00Z", 1 + i % 28).parse().unwrap();
            message.created_at = (i % 5 > 0).then(day);
            messages.push(message);
        }
        let batched = messages.iter().filter(|message| message.session == "batched").cloned();
        let words = PerPartTokenCounter::new(|text: &str| text.split_whitespace().count());
        let memory = engine.memory(&namespace(SPACE), "batched").limits(BufferLimits::new(60, 1.0, 40).unwrap());
        let memory = memory.message_counter(words).open().unwrap();
        batched.for_each(|message| drop(memory.blocking().put(vec![message]).unwrap()));
        memory.blocking().flush().unwrap();
        let put = messages.iter().filter(|message| message.session != "batched").cloned().collect();
        engine.blocking().put(&namespace(SPACE), put).unwrap();
        engine.blocking().flush().unwrap();
        let stored = messages.into_iter().map(|message| (message.id.clone(), message)).collect();
        (db, engine, stored)
    })
}

#[derive(Clone, Debug)]
struct Asked {
    query: Query,
    k: usize,
    session: Option<&'static str>,
    role: Option<Role>,
    since: Option<Timestamp>,
    except: Vec<String>,
    may_find_fewer: bool,
    per_batch: Option<usize>,
}

fn asked() -> impl Strategy<Value = Asked> {
    let text = prop_oneof![
        4 => (0..45usize, 0..9usize).prop_map(|(word, thing)| format!("word{word} thing{thing}")),
        1 => Just("pad in May 2023, last week".to_owned()),
        1 => Just("the of Ada 👍".to_owned()),
        1 => "[a-z0-9 .'é漢]{1,60}".prop_filter("is not empty", |text| !text.trim().is_empty()),
    ];
    let ranking = prop_oneof![
        Just(Ranking::Hybrid),
        Just(Ranking::Dense),
        Just(Ranking::Lexical),
        Just(Ranking::ReciprocalRank),
        (0.0..=1.0f32).prop_map(Ranking::Weighted),
    ];
    let ids = || {
        let all: Vec<String> = (0..125).map(|i| format!("m{i}")).collect();
        prop_oneof![Just(Vec::new()), subsequence(all.clone(), 0..20), subsequence(all, 100..125)].prop_shuffle()
    };
    let since = prop::option::of(Just("2023-05-15T00:00:00Z".parse::<Timestamp>().unwrap()));
    let filter = (
        prop::option::of(prop::sample::select(vec!["s", "t", "batched"])),
        prop::option::of(prop::sample::select(vec![Role::User, Role::Assistant])),
        since,
        ids(),
    );
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(1..1000u64));
    let choice = (
        prop::option::of(0.0..=1.0f32),
        prop::option::of(1..4usize),
        prop::option::of(0.0..=1.0f32),
        prop::option::of(1..40usize),
        ids(),
    );
    let k = prop_oneof![1..20usize, Just(200), Just(mnemon::MAX_K)];
    (text, k, ranking, filter, switches, choice).prop_map(|(text, k, ranking, filter, switches, choice)| {
        let ((session, role, since, except), (neighbors, prior, keeps, half_life)) = (filter, switches);
        let (diversity, per_batch, answerable, rerank, previous) = choice;
        let now: mnemon::Timestamp = "2023-05-17T12:00:00Z".parse().unwrap();
        let mut query = Query::new(text).k(k).strategy(ranking).now(now).except(except.clone()).previous(previous);
        query = query.neighbors(neighbors).length_prior(prior).time(TimeUse::Boost);
        query = session.into_iter().fold(query, Query::session);
        query = role.into_iter().fold(query, Query::role);
        query = since.into_iter().fold(query, Query::since);
        query = half_life.map(Duration::from_secs).into_iter().fold(query, Query::half_life);
        query = diversity.into_iter().fold(query, Query::diversity);
        query = per_batch.into_iter().fold(query, Query::per_batch);
        query = rerank.into_iter().fold(query, Query::rerank);
        // Seldom: most answers should have something in them.
        let answerable = answerable.filter(|least| *least > 0.7);
        query = answerable.into_iter().fold(query, Query::answerable);
        if keeps {
            query = query.keep_duplicates();
        }
        let may_find_fewer = per_batch.is_some() || answerable.is_some();
        Asked { query, k, session, role, since, except, may_find_fewer, per_batch }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn hits_satisfy_every_combination_of_options(asked in asked()) {
        let (_, engine, stored) = stored();
        let hits = recall(engine, asked.query.clone());
        let is_allowed = |message: &Message| {
            asked.session.is_none_or(|session| message.session == session)
                && asked.role.is_none_or(|role| message.role == role)
                && asked.since.is_none_or(|since| message.created_at.is_some_and(|at| at >= since))
                && !asked.except.contains(&message.id)
        };
        let matching = stored.values().filter(|message| is_allowed(message)).count();
        prop_assert!(hits.len() <= asked.k.min(matching));
        prop_assert!(asked.may_find_fewer || hits.len() == asked.k.min(matching), "{} of {matching}", hits.len());
        let ids: BTreeSet<&str> = hits.iter().map(|hit| hit.message.id.as_str()).collect();
        prop_assert_eq!(ids.len(), hits.len(), "none twice");
        for (rank, hit) in (1..).zip(&hits) {
            prop_assert!(is_allowed(&hit.message), "{:?}", hit.message);
            prop_assert_eq!(&hit.message, &stored[&hit.message.id]);
            prop_assert_eq!(hit.rank, rank);
            let parts = &hit.breakdown;
            prop_assert!(hit.score.is_finite() && (-1.001..=1.001).contains(&hit.similarity));
            prop_assert!((0.0..=1.0).contains(&parts.coverage) && parts.bm25 >= 0.0);
            prop_assert!(hit.message.text().get(hit.passage.clone()).is_some_and(|passage| !passage.is_empty()));
            let boosted_by = parts.boosted_by.as_ref().map(|id| &stored[id]);
            prop_assert!(boosted_by.is_none_or(|boosted_by| boosted_by.session == hit.message.session && boosted_by.id != hit.message.id));
            prop_assert_eq!(boosted_by.is_some(), parts.neighbor > 0.0);
        }
        let originals: HashSet<&String> = hits.iter().filter_map(|hit| hit.breakdown.duplicate_of.as_ref()).collect();
        prop_assert!(originals.iter().all(|id| stored.contains_key(*id)));
        prop_assert!((0.0..=1.0).contains(&hits.answerability()) && !hits.cut_short());
        if let Some(most) = asked.per_batch {
            // About 40 words a batch.
            let of_batches = hits.iter().filter(|hit| hit.message.session == "batched").count();
            prop_assert!(of_batches <= most * 20, "{of_batches}");
        }
        prop_assert_eq!(&recall(engine, asked.query.clone()), &hits, "the same again");
    }

    /// More hits begin with the fewer.
    #[test]
    fn the_first_hits_are_the_same_for_any_k(word in 0..40usize, k in 1..100usize, more in 1..100usize) {
        let (_, engine, _) = stored();
        for ranking in [Ranking::Dense, Ranking::Lexical] {
            let ask = |k: usize| Query::new(format!("word{word} thing3")).strategy(ranking).keep_duplicates().k(k);
            let (few, many) = (recall(engine, ask(k)), recall(engine, ask(k + more)));
            let ids = |hits: &mnemon::Hits| hits.iter().map(|hit| hit.message.id.clone()).collect::<Vec<_>>();
            prop_assert_eq!(&ids(&few)[..], &ids(&many)[..few.len()]);
        }
    }
}
