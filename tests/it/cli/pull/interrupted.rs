//! Pulls that break, wait, or run at the same time.

use std::{
    fs,
    io::Write,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use mnemon::Model;

use super::{Home, NAME, Repository, of_graph};
use crate::support::servers::{End, LlmServer, Reply};

#[test]
fn pulls_at_the_same_time_download_once() {
    let repository = Repository::new();
    let (begun, free) = (AtomicBool::new(false), std::sync::Arc::new(AtomicBool::new(false)));
    let server = LlmServer::new({
        let free = free.clone();
        move |request| {
            while request.path.ends_with("/model.onnx") && !free.load(Ordering::SeqCst) {
                begun.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
            }
            repository.answer(request)
        }
    });
    let home = Home::new();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| home.pull(&server, NAME));
        let begin = Instant::now();
        while of_graph(&server).is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(60) && !first.is_finished());
            std::thread::sleep(Duration::from_millis(5));
        }
        let second = home.pull(&server, NAME);
        assert!(second.code == 1 && second.stderr.contains("another call is downloading into"), "{}", second.stderr);
        free.store(true, Ordering::SeqCst);
        let first = first.join().unwrap();
        assert_eq!(first.code, 0, "{}", first.stderr);
    });
    assert_eq!((of_graph(&server).len(), home.left()), (1, 1));
    assert_eq!(home.pull(&server, NAME).code, 0);
}

/// The checksum is computed from the file, not from the bytes received: another process may have written to the file.
#[test]
fn the_bytes_on_disk_are_the_bytes_that_were_checked() {
    let repository = Repository::new();
    let home = Home::new();
    let part = home.part();
    let server = LlmServer::new(move |request| {
        let reply = repository.answer(request);
        match (request.path.ends_with("/model.onnx"), request.headers.contains_key("range")) {
            (true, false) => reply.end(End::Half),
            (true, true) => {
                fs::OpenOptions::new().write(true).open(&part).unwrap().write_all(b"others").unwrap();
                reply
            }
            _ => reply,
        }
    });
    let output = home.pull(&server, NAME);
    assert!(output.code == 1 && output.stderr.contains("model.onnx has the wrong contents"), "{}", output.stderr);
    assert!(!home.model().exists() && !home.part().exists());
}

#[test]
fn the_wait_that_a_hub_asks_for_is_kept() {
    let repository = Repository::new();
    let refused = AtomicUsize::new(0);
    let server = LlmServer::new(move |request| match refused.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::new(429, "slow down").header("Retry-After", "2"),
        _ => repository.answer(request),
    });
    let begin = Instant::now();
    let home = Home::new();
    let output = home.pull(&server, NAME);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(begin.elapsed() >= Duration::from_secs(2));
}

#[test]
fn a_broken_download_is_continued() {
    for ranges in [true, false] {
        let repository = Repository::new();
        let bytes = repository.bytes("model.onnx").len();
        let broken = std::sync::atomic::AtomicBool::new(false);
        let server = LlmServer::new(move |request| {
            let mut request = request.clone();
            if !ranges {
                request.headers.remove("range");
            }
            let reply = repository.answer(&request);
            let first =
                request.path.ends_with("/model.onnx") && !broken.swap(true, std::sync::atomic::Ordering::SeqCst);
            reply.end(if first { End::Half } else { End::Whole })
        });
        let home = Home::new();
        let output = home.pull(&server, NAME);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let asked: Vec<Option<String>> =
            of_graph(&server).iter().map(|request| request.headers.get("range").cloned()).collect();
        assert_eq!(asked, [None, Some(format!("bytes={}-", bytes / 2))], "with ranges: {ranges}");
        assert_eq!(Model::open(home.model()).unwrap().verify().unwrap(), [""; 0]);
    }
}

#[test]
fn an_interrupted_pull_goes_on_with_the_next_call() {
    let repository = Repository::new();
    let bytes = repository.bytes("model.onnx").len();
    let breaking = LlmServer::new({
        let repository = repository.clone();
        move |request| match (request.path.ends_with("/model.onnx"), request.headers.contains_key("range")) {
            (true, false) => repository.answer(request).end(End::Half),
            (true, true) => Reply::new(503, "busy"),
            _ => repository.answer(request),
        }
    });
    let home = Home::new();
    let output = home.pull(&breaking, NAME);
    assert!(output.code == 1 && output.stderr.contains("model.onnx answered 503"), "{}", output.stderr);
    assert_eq!(of_graph(&breaking).len(), 4, "three times in vain after what was half a success");
    assert_eq!(fs::metadata(home.part()).unwrap().len() as usize, bytes / 2);
    assert!(!home.model().exists());

    let server = LlmServer::new(move |request| repository.answer(request));
    let output = home.pull(&server, NAME);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(of_graph(&server)[0].headers["range"], format!("bytes={}-", bytes / 2));
    assert_eq!(Model::open(home.model()).unwrap().verify().unwrap(), [""; 0]);
    assert_eq!(home.left(), 1);
}
