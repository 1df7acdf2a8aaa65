//! Embedding jobs, which run while the caller does something else.

use std::time::Instant;

use mnemon::{Embedder, EmbeddingJob};

use super::{WORDS, embedder, manifest};

fn texts(many: usize) -> Vec<String> {
    (0..many).map(|i| (0..=i % 40).map(|at| WORDS[(i + at) % 8].0).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn rows_come_in_order_wherever_they_are_waited_for() {
    let embedder = embedder("encoder", &manifest(&[]));
    let texts = texts(300);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let expected = embedder.embed_documents(&texts).unwrap();
    let submitted: Vec<EmbeddingJob> = texts.chunks(7).map(|some| embedder.submit(some).unwrap()).collect();
    assert!(embedder.submit(&[]).unwrap().wait().unwrap().is_empty());
    // It borrows nothing.
    let waiting =
        std::thread::spawn(|| submitted.into_iter().flat_map(|some| some.wait().unwrap()).collect::<Vec<_>>());
    assert_eq!(waiting.join().unwrap(), expected);
}

#[test]
fn a_dropped_job_is_not_embedded() {
    let embedder = embedder("encoder", &manifest(&[]));
    let texts = texts(6000);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let started = Instant::now();
    let last = embedder.submit(&texts).unwrap().wait().unwrap().pop().unwrap();
    let all = started.elapsed();
    let started = Instant::now();
    (0..20).for_each(|_| drop(embedder.submit(&texts).unwrap()));
    assert_eq!(embedder.submit(&texts[5999..]).unwrap().wait().unwrap(), [last]);
    assert!(started.elapsed() < 10 * all, "{:?}, and {all:?} for all", started.elapsed());
}

#[test]
fn a_job_whose_embedder_is_gone_is_an_error() {
    let embedder = embedder("encoder", &manifest(&[]));
    let texts = texts(6000);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let submitted = embedder.submit(&texts).unwrap();
    drop(embedder);
    let error = submitted.wait().unwrap_err().to_string();
    assert!(error.contains("keep it until `wait` has returned"), "{error}");
}
