//! Claude's memory tool in a process: the wording of every answer, the paths, and what others do meanwhile. What the
//! server adds is in `server::memory_tool`.

use std::{collections::BTreeMap, sync::Barrier, thread};

use mnemon::{DocumentOptions, DocumentSearch, Engine, Error, Forget};
use mnemon_memory_tool::{Answer, run};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Db, namespace};

const SPACE: &str = "acme/ada";
const FILES: &str = "acme/ada/memories";

fn call(engine: &Engine, input: Value) -> Answer {
    let input = serde_json::from_value(input).unwrap();
    mnemon::block_on(run(engine, &namespace(SPACE), &input)).unwrap()
}

/// Runs a command that succeeds; returns its answer.
fn done(engine: &Engine, input: Value) -> String {
    let answer = call(engine, input.clone());
    assert!(!answer.is_error, "{input}: {}", answer.content);
    answer.content
}

/// Runs a command that fails; returns its answer.
fn refused(engine: &Engine, input: Value) -> String {
    let answer = call(engine, input.clone());
    assert!(answer.is_error, "{input}: {}", answer.content);
    answer.content
}

fn create(engine: &Engine, path: &str, text: &str) {
    let content = done(engine, json!({ "command": "create", "path": path, "file_text": text }));
    assert_eq!(content, format!("File created successfully at: {path}"));
}

fn view(path: &str) -> Value {
    json!({ "command": "view", "path": path })
}

fn replace(path: &str, old: &str, new: &str) -> Value {
    json!({ "command": "str_replace", "path": path, "old_str": old, "new_str": new })
}

fn insert(path: &str, line: i64, text: &str) -> Value {
    json!({ "command": "insert", "path": path, "insert_line": line, "insert_text": text })
}

fn delete(path: &str) -> Value {
    json!({ "command": "delete", "path": path })
}

fn rename(old: &str, new: &str) -> Value {
    json!({ "command": "rename", "old_path": old, "new_path": new })
}

/// The files by their keys.
fn files(engine: &Engine) -> BTreeMap<String, String> {
    let all = engine.documents(&namespace(FILES)).blocking().search(DocumentSearch::default().limit(100_000)).unwrap();
    all.into_iter().map(|file| (file.key, file.value["text"].as_str().unwrap().to_owned())).collect()
}

fn text(engine: &Engine, key: &str) -> String {
    files(engine)[key].clone()
}

#[test]
fn files_are_created_viewed_and_edited() {
    let db = Db::new();
    let engine = db.open();
    let head = "Here's the content of /memories/notes.txt with line numbers:\n";
    create(&engine, "/memories/notes.txt", "one\ntwo\r\nthree\n");
    assert_eq!(
        done(&engine, view("/memories/notes.txt")),
        format!("{head}     1\tone\n     2\ttwo\r\n     3\tthree\n     4\t")
    );
    let range = |first: i64, last: i64| json!({ "command": "view", "path": "/memories/notes.txt", "view_range": [first, last] });
    for (first, last, lines) in [
        (2, 3, "     2\ttwo\r\n     3\tthree"),
        (3, -1, "     3\tthree\n     4\t"),
        (0, 1, "     1\tone"),
        (4, 99, "     4\t"),
    ] {
        assert_eq!(done(&engine, range(first, last)), format!("{head}{lines}"), "{first} {last}");
    }
    for (first, last) in [(3, 2), (5, 9), (1, -2), (i64::MAX, -1), (1, 0)] {
        assert!(refused(&engine, range(first, last)).starts_with("Error: Invalid `view_range` parameter: ["));
    }

    for range in [json!([]), json!([1]), json!([1, 2, 3])] {
        let error = refused(&engine, json!({ "command": "view", "path": "/memories/notes.txt", "view_range": range }));
        assert!(
            error.starts_with(&format!("Error: Invalid `view_range` parameter: {range}. ").replace(',', ", ")),
            "{error}"
        );
    }

    let edited = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n";
    assert_eq!(
        done(&engine, replace("/memories/notes.txt", "two", "2\n2b")),
        format!("{edited}     1\tone\n     2\t2\n     3\t2b\r\n     4\tthree\n     5\t")
    );
    assert_eq!(text(&engine, "notes.txt"), "one\n2\n2b\r\nthree\n");
    assert_eq!(
        done(&engine, replace("/memories/notes.txt", "\n2b\r\nthree\n", "")),
        format!("{edited}     1\tone\n     2\t2")
    );

    for (line, inserted, expected) in [
        (0, "zero", "zero\none\n2\n"),
        (3, "3\n4\n", "zero\none\n2\n3\n4\n"),
        (1, "", "zero\n\none\n2\n3\n4\n"),
        (2, "a\n\n", "zero\n\na\n\none\n2\n3\n4\n"),
    ] {
        let content = done(&engine, insert("/memories/notes.txt", line, inserted));
        assert_eq!(content, "The file /memories/notes.txt has been edited.");
        assert_eq!(text(&engine, "notes.txt"), expected);
    }
    create(&engine, "/memories/empty", "");
    assert_eq!(
        done(&engine, view("/memories/empty")),
        "Here's the content of /memories/empty with line numbers:\n     1\t"
    );
    done(&engine, insert("/memories/empty", 0, "x"));
    assert_eq!(text(&engine, "empty"), "x\n");
}

#[test]
fn directories_are_listed_two_levels_deep() {
    let db = Db::new();
    let engine = db.open();
    let listing = |path: &str, lines: &str| {
        let head = "Here're the files and directories up to 2 levels deep in";
        format!("{head} {path}, excluding hidden items and node_modules:\n{lines}")
    };
    assert_eq!(done(&engine, view("/memories")), listing("/memories", "0B\t/memories"));
    for (path, bytes) in [
        ("/memories/a.txt", 1),
        ("/memories/a/notes.txt", 1536),
        ("/memories/a/deep/er/x", 2 << 10),
        ("/memories/.hidden", 1),
        ("/memories/.git/config", 1),
        ("/memories/b/.hidden", 1),
        ("/memories/b/node_modules/x", 1),
        ("/memories/ünïcode/日本", 1023),
    ] {
        create(&engine, path, &"x".repeat(bytes));
    }
    let lines = "4.5K\t/memories\n3.5K\t/memories/a/\n2K\t/memories/a/deep/\n1.5K\t/memories/a/notes.txt\n1B\t/memories/a.txt\n\
                 2B\t/memories/b/\n1023B\t/memories/ünïcode/\n1023B\t/memories/ünïcode/日本";
    assert_eq!(done(&engine, view("/memories")), listing("/memories", lines));
    assert_eq!(done(&engine, view("/memories/")), listing("/memories", lines));
    // A view of a directory ignores a range.
    let ranged = json!({ "command": "view", "path": "/memories/a/", "view_range": [1, 10] });
    let lines = "3.5K\t/memories/a\n2K\t/memories/a/deep/\n2K\t/memories/a/deep/er/\n1.5K\t/memories/a/notes.txt";
    assert_eq!(done(&engine, ranged), listing("/memories/a", lines));
    assert_eq!(
        done(&engine, view("/memories/.git")),
        listing("/memories/.git", "1B\t/memories/.git\n1B\t/memories/.git/config")
    );

    assert_eq!(
        done(&engine, rename("/memories/a", "/memories/c/d")),
        "Successfully renamed /memories/a to /memories/c/d"
    );
    assert_eq!(done(&engine, delete("/memories/b/")), "Successfully deleted /memories/b");
    let left = [".git/config", ".hidden", "a.txt", "c/d/deep/er/x", "c/d/notes.txt", "ünïcode/日本"];
    assert_eq!(files(&engine).keys().collect::<Vec<_>>(), left);
    assert_eq!(done(&engine, delete("/memories/c/d/notes.txt")), "Successfully deleted /memories/c/d/notes.txt");
    done(&engine, delete("/memories/c"));
    assert!(refused(&engine, view("/memories/c")).contains("does not exist"), "a directory goes with its last file");
}

#[test]
fn every_error_has_the_documented_wording() {
    let db = Db::new();
    let engine = db.open();
    create(&engine, "/memories/notes.txt", "Hello\nMiddle Hello Hello\nHello");
    create(&engine, "/memories/dir/file", "x");
    let before = files(&engine);
    for (input, expected) in [
        (view("/memories/none"), "The path /memories/none does not exist. Please provide a valid path."),
        (
            json!({ "command": "create", "path": "/memories/notes.txt", "file_text": "" }),
            "Error: File /memories/notes.txt already exists",
        ),
        (
            json!({ "command": "create", "path": "/memories/dir", "file_text": "" }),
            "Error: /memories/dir is a directory. Give the file another name.",
        ),
        (
            json!({ "command": "create", "path": "/memories/notes.txt/a/b", "file_text": "" }),
            "Error: /memories/notes.txt is a file, so nothing can be below it. Give /memories/notes.txt/a/b another path.",
        ),
        (
            json!({ "command": "create", "path": "/memories/", "file_text": "" }),
            "Error: /memories is a directory. Give the file another name.",
        ),
        (
            replace("/memories/none", "a", "b"),
            "Error: The path /memories/none does not exist. Please provide a valid path.",
        ),
        (
            replace("/memories/dir", "a", "b"),
            "Error: The path /memories/dir does not exist. Please provide a valid path.",
        ),
        (
            replace("/memories/notes.txt", "Bye", "b"),
            "No replacement was performed, old_str `Bye` did not appear verbatim in /memories/notes.txt.",
        ),
        (
            replace("/memories/notes.txt", "Hello", "b"),
            "No replacement was performed. Multiple occurrences of old_str `Hello` in lines: 1, 2, 3. Please ensure it is unique",
        ),
        (insert("/memories/none", 0, "x"), "Error: The path /memories/none does not exist"),
        (insert("/memories/dir", 0, "x"), "Error: The path /memories/dir does not exist"),
        (
            insert("/memories/notes.txt", 4, "x"),
            "Error: Invalid `insert_line` parameter: 4. It should be within the range of lines of the file: [0, 3]",
        ),
        (
            insert("/memories/notes.txt", -1, "x"),
            "Error: Invalid `insert_line` parameter: -1. It should be within the range of lines of the file: [0, 3]",
        ),
        (delete("/memories/none"), "Error: The path /memories/none does not exist"),
        (delete("/memories/"), "Error: Cannot delete the /memories directory itself"),
        (rename("/memories/none", "/memories/x"), "Error: The path /memories/none does not exist"),
        (rename("/memories", "/memories/x"), "Error: Cannot rename the /memories directory itself"),
        (
            rename("/memories/dir/file", "/memories/notes.txt"),
            "Error: The destination /memories/notes.txt already exists",
        ),
        (rename("/memories/notes.txt", "/memories/dir"), "Error: The destination /memories/dir already exists"),
        (rename("/memories/notes.txt", "/memories"), "Error: The destination /memories already exists"),
        (rename("/memories/dir", "/memories/dir"), "Error: The destination /memories/dir already exists"),
        (
            rename("/memories/dir", "/memories/dir/in/it"),
            "Error: Cannot move /memories/dir to /memories/dir/in/it, which is below it",
        ),
        (
            rename("/memories/dir", "/memories/notes.txt/dir"),
            "Error: /memories/notes.txt is a file, so nothing can be below it. Give /memories/notes.txt/dir another path.",
        ),
        (json!({ "command": "view" }), "Error: The parameter `path` is missing"),
        (json!({ "command": "create", "path": "/memories/x" }), "Error: The parameter `file_text` is missing"),
        (json!({ "command": "rename", "old_path": "/memories/x" }), "Error: The parameter `new_path` is missing"),
    ] {
        assert_eq!(refused(&engine, input.clone()), expected, "{input}");
    }
    let large = "x".repeat(1 << 20);
    let error = refused(&engine, json!({ "command": "create", "path": "/memories/large", "file_text": large }));
    assert!(error.starts_with("Error: The file cannot be stored: the value has 10485"), "{error}");
    let error = refused(&engine, insert("/memories/notes.txt", 0, &large));
    assert!(error.starts_with("Error: The file cannot be stored: "), "{error}");
    assert_eq!(files(&engine), before, "an error changes nothing");
    let many = "a\n".repeat(300);
    create(&engine, "/memories/many", &many);
    let error = refused(&engine, replace("/memories/many", "a", "b"));
    assert!(error.contains("in lines: 1, 2, 3, ") && error.contains(", 99, 100, .... Please"), "{error}");
}

#[test]
fn no_path_leads_out_of_the_files() {
    let db = Db::new();
    let engine = db.open();
    engine
        .documents(&namespace(SPACE))
        .blocking()
        .put("secret", json!({ "text": "s" }), DocumentOptions::default())
        .unwrap();
    create(&engine, "/memories/notes.txt", "x");
    let before = files(&engine);
    let (deep, long) = (format!("/memories{}", "/a".repeat(2000)), format!("/memories/{}", "x".repeat(513)));
    for (path, reason) in [
        ("/memories/../secret", "would escape /memories directory"),
        ("/memories/../../../etc/passwd", "would escape /memories directory"),
        ("/memories/a/..", "would escape /memories directory"),
        ("/memories/..\\secret", "would escape /memories directory"),
        ("/memories/a\\b", "would escape /memories directory"),
        ("/memories/%2e%2e/secret", "would escape /memories directory"),
        ("/memories/%2E%2E%2Fsecret", "would escape /memories directory"),
        ("/memories/./notes.txt", "is not valid"),
        ("/memories/.", "is not valid"),
        ("/memories//notes.txt", "is not valid"),
        ("/memories/a//", "is not valid"),
        ("/memories/a\0b", "is not valid"),
        ("/memories/a\nb", "is not valid"),
        ("/memories/\u{85}", "is not valid"),
        ("/etc/passwd", "Path must start with /memories, got: /etc/passwd"),
        ("/memoriesx", "Path must start with /memories"),
        ("/Memories/x", "Path must start with /memories"),
        ("memories/x", "Path must start with /memories"),
        ("\u{2215}memories/x", "Path must start with /memories"),
        ("", "Path must start with /memories"),
        (&deep, "more than 512"),
        (&long, "more than 512"),
    ] {
        for input in [
            view(path),
            json!({ "command": "create", "path": path, "file_text": "" }),
            replace(path, "x", "y"),
            insert(path, 0, "y"),
            delete(path),
            rename(path, "/memories/y"),
            rename("/memories/notes.txt", path),
        ] {
            let error = refused(&engine, input.clone());
            assert!(error.starts_with("Error: ") && error.contains(reason), "{input}: {error}");
        }
    }
    assert!(refused(&engine, view(&"x".repeat(100_000))).len() < 1000);
    assert_eq!(files(&engine), before);
    // Names that only look like a way out are names.
    for path in ["/memories/．．/x", "/memories/...", "/memories/~", "/memories/a b", "/memories/C:"] {
        create(&engine, path, "x");
    }
    let name = format!("/memories/{}", "x".repeat(512));
    create(&engine, &name, "x");
    done(&engine, json!({ "command": "create", "path": "/memories/short/y", "file_text": "" }));
    assert!(refused(&engine, rename("/memories/short", &name.replace("xx", "ab"))).contains("more than 512"));
}

/// Documents that other routes put among the files.
#[test]
fn other_documents_are_no_files() {
    let db = Db::new();
    let engine = db.open();
    let documents = engine.documents(&namespace(FILES));
    let put = |key: &str, value: Value| documents.blocking().put(key, value, DocumentOptions::default()).unwrap();
    put("number", json!(5));
    put("../up", json!({ "text": "x" }));
    put("both", json!({ "text": "x", "tag": 7 }));
    put("both/below", json!({ "text": "y" }));
    assert_eq!(
        refused(&engine, view("/memories/number")),
        "The path /memories/number does not exist. Please provide a valid path."
    );
    assert!(
        refused(&engine, json!({ "command": "create", "path": "/memories/number", "file_text": "" }))
            .contains("already exists")
    );
    assert!(refused(&engine, rename("/memories/both", "/memories/number")).contains("already exists"));
    assert!(!done(&engine, view("/memories")).contains("/up"));
    // A file and a directory of one name: the file is seen, and both are moved and deleted. Other fields stay.
    assert!(done(&engine, view("/memories/both")).ends_with("     1\tx"));
    done(&engine, replace("/memories/both", "x", "z"));
    done(&engine, rename("/memories/both", "/memories/moved"));
    assert_eq!(documents.blocking().get("moved").unwrap().unwrap().value, json!({ "text": "z", "tag": 7 }));
    assert_eq!(documents.blocking().get("moved/below").unwrap().unwrap().value, json!({ "text": "y" }));
    done(&engine, delete("/memories/moved"));
    assert_eq!(documents.blocking().search(DocumentSearch::default()).unwrap().len(), 2);
}

#[test]
fn answers_are_bounded() {
    let db = Db::new();
    let engine = db.open();
    let documents = engine.documents(&namespace(FILES));
    let operations = (0..3000).map(|number| mnemon::DocumentOperation::Put {
        namespace: documents.namespace().clone(),
        key: format!("topic-{}/{number:04}.txt", number % 7),
        value: json!({ "text": format!("note {number}") }),
        options: DocumentOptions::default().not_indexed(),
    });
    engine.blocking().document_batch(operations.collect()).unwrap();
    let listing = done(&engine, view("/memories"));
    assert!(
        listing.len() < 61_000 && listing.ends_with(" more are not shown: view a directory to see what is in it.)")
    );
    let shown = listing.lines().count() - 3;
    assert!(listing.contains(&format!("\n({} more are", 3007 - shown)), "{shown}");
    let one = done(&engine, view("/memories/topic-6"));
    assert_eq!(one.lines().count(), 2 + 428, "every file of 3,000 is found, page by page");
    assert!(refused(&engine, rename("/memories/topic-6", "/memories/topic-5")).contains("already exists"));
    done(&engine, rename("/memories/topic-6", "/memories/moved"));
    done(&engine, rename("/memories/moved/0006.txt", "/memories/0006.txt"));
    done(&engine, delete("/memories/topic-5"));
    assert_eq!(files(&engine).len(), 3000 - 428);
    for key in ["topic-0", "topic-1", "topic-2"] {
        done(&engine, rename(&format!("/memories/{key}"), &format!("/memories/all/{key}")));
    }
    let error = refused(&engine, rename("/memories/all", "/memories/none"));
    assert!(
        error.contains("more than 1000 files or 32M. Rename the files and directories in it one by one."),
        "{error}"
    );

    let lines: String = (1..=20_000).map(|line| format!("line {line}\n")).collect();
    create(&engine, "/memories/long.txt", &lines);
    let (mut next, mut read) = (1, String::new());
    loop {
        let input = json!({ "command": "view", "path": "/memories/long.txt", "view_range": [next, -1] });
        let part = done(&engine, input);
        assert!(part.len() < 61_000);
        let (part, more) =
            part.split_once("\n(Lines ").map_or((&*part, None), |(part, more)| (part, Some(more.to_owned())));
        read += &(part.split_once('\n').unwrap().1.to_owned() + "\n");
        let Some(more) = more else { break };
        next = more.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(more, format!("{next} to 20001 are not shown: view_range [{next}, 20001] shows them.)"));
    }
    let texts: String = read.lines().map(|line| line.split_once('\t').unwrap().1.to_owned() + "\n").collect();
    assert_eq!(texts, lines + "\n", "the parts are the whole file");
    create(&engine, "/memories/line", &format!("{}\nshort", "é".repeat(100_000)));
    let cut = done(&engine, view("/memories/line"));
    assert!(
        cut.len() < 61_000
            && cut.contains("(Line 1 has 200000 bytes and is cut here: str_replace can divide it by a new line.)")
    );
    assert!(
        cut.ends_with("\n(Lines 2 to 2 are not shown: view_range [2, 2] shows them.)"),
        "{}",
        &cut[cut.len() - 100..]
    );
}

/// Whoever is first: the other is told.
#[test]
fn no_name_is_a_file_and_a_directory() {
    let db = Db::new();
    let engine = db.open();
    let create = |path: &str| json!({ "command": "create", "path": path, "file_text": "x" });
    for round in 0..60 {
        let path = |rest: &str| format!("/memories/{round}{rest}");
        for name in ["/from", "/dir/a", "/dir/b"] {
            done(&engine, create(&path(name)));
        }
        for (at, [file, below]) in [
            [create(&path("/0")), create(&path("/0/sub"))],
            [create(&path("/1")), create(&path("/1/deep/er/sub"))],
            [rename(&path("/from"), &path("/2")), create(&path("/2/sub"))],
            [create(&path("/3")), rename(&path("/dir"), &path("/3"))],
            [create(&path("/4")), rename(&path("/3"), &path("/4/sub"))],
        ]
        .into_iter()
        .enumerate()
        {
            let barrier = Barrier::new(2);
            let [file, below] = [file, below].map(|input| (input.clone(), &barrier));
            let run = |(input, barrier): (Value, &Barrier)| {
                barrier.wait();
                call(&engine, input)
            };
            let (file, below) = thread::scope(|scope| {
                let file = scope.spawn(|| run(file));
                (run(below), file.join().unwrap())
            });
            let files = files(&engine);
            let name = format!("{round}/{at}");
            let is_directory = files.keys().any(|key| key.starts_with(&format!("{name}/")));
            assert!(!(files.contains_key(&name) && is_directory), "{name}: {file:?} {below:?}");
            assert!(file.is_error || below.is_error, "{name}: {file:?} {below:?}");
        }
    }
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let db = Db::new();
    let engine = db.open();
    create(&engine, "/memories/log", "start\n");
    let repeat = |input: Value| while call(&engine, input.clone()).is_error {};
    thread::scope(|scope| {
        for writer in 0..4 {
            let (engine, repeat) = (&engine, &repeat);
            scope.spawn(move || {
                for number in 0..15 {
                    repeat(insert("/memories/log", 1, &format!("{writer} {number}")));
                    create(engine, &format!("/memories/dir/{writer}-{number}"), "x");
                }
            });
        }
    });
    let log = text(&engine, "log");
    assert_eq!(log.lines().count(), 61, "{log}");
    for writer in 0..4 {
        let own: Vec<&str> = log.lines().filter(|line| line.starts_with(&format!("{writer} "))).collect();
        assert_eq!(own, (0..15).rev().map(|number| format!("{writer} {number}")).collect::<Vec<_>>());
    }
    // One of the writers who create, and of those who move to, the same path is told that it exists.
    let answers: Vec<Answer> = thread::scope(|scope| {
        let calls: Vec<_> = (0..4)
            .map(|writer| {
                let from = format!("/memories/dir/{writer}-0");
                let input = match writer {
                    0 => json!({ "command": "create", "path": "/memories/one", "file_text": "created" }),
                    _ => rename(&from, "/memories/one"),
                };
                scope.spawn(|| call(&engine, input))
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|answer| !answer.is_error).count(), 1, "{answers:?}");
    let told = |answer: &&Answer| answer.is_error && answer.content.contains("/memories/one already exists");
    assert_eq!(answers.iter().filter(told).count(), 3, "{answers:?}");
    assert_eq!(files(&engine).len(), 62 - usize::from(answers[0].is_error), "nothing was replaced");
}

#[test]
fn files_are_found_forgotten_and_held() {
    let db = Db::new();
    let engine = db.open();
    create(&engine, "/memories/sport.md", "Ada rows on Thursdays.");
    create(&engine, "/memories/food.md", "Ada is allergic to peanuts.");
    let find = |space: &str, below: bool| {
        let search = DocumentSearch::default().query("allergic to peanuts").below(below).limit(1);
        let found = engine.documents(&namespace(space)).blocking().search(search).unwrap();
        found.into_iter().map(|document| document.key).collect::<Vec<_>>()
    };
    assert_eq!(find(FILES, false), ["food.md"]);
    assert_eq!((find(SPACE, true), find(SPACE, false)), (vec!["food.md".to_owned()], vec![]));

    engine.blocking().hold(&namespace(SPACE), "a case").unwrap();
    let run_held = |input: Value| {
        mnemon::block_on(run(&engine, &namespace(SPACE), &serde_json::from_value(input).unwrap())).unwrap_err()
    };
    for input in [delete("/memories/food.md"), rename("/memories/food.md", "/memories/x")] {
        assert!(matches!(run_held(input), Error::LegalHold { .. }));
    }
    engine.blocking().release(&namespace(SPACE)).unwrap();
    assert_eq!(files(&engine).len(), 2);
    engine.blocking().forget(Forget::documents(&namespace(FILES), ["food.md"])).unwrap();
    assert!(!done(&engine, view("/memories")).contains("food"));
    engine.blocking().forget(Forget::prefix(&namespace(SPACE))).unwrap();
    assert_eq!((files(&engine).len(), find(SPACE, true)), (0, vec![]));
    assert!(done(&engine, view("/memories")).ends_with("0B\t/memories"));
    drop(engine);
    db.assert_sound();
}

#[derive(Clone, Debug)]
enum Step {
    Create(String, String),
    Replace(String, String),
    Insert(String, i64, String),
    Delete(String),
    Rename(String, String),
}

fn step() -> impl Strategy<Value = Step> {
    let path = || "/memories(/[ab]){0,3}";
    prop_oneof![
        4 => (path(), "[xy\n]{0,4}").prop_map(|(path, text)| Step::Create(path, text)),
        2 => (path(), "[xy\n]{0,2}").prop_map(|(path, old)| Step::Replace(path, old)),
        2 => (path(), -1..4_i64, "[xy\n]{0,3}").prop_map(|(path, line, text)| Step::Insert(path, line, text)),
        1 => path().prop_map(Step::Delete),
        2 => (path(), path()).prop_map(|(old, new)| Step::Rename(old, new)),
    ]
}

/// A naive model: texts by paths. Returns whether the step succeeds.
fn apply(model: &mut BTreeMap<String, String>, step: &Step) -> bool {
    let is_below = |path: &str, above: &str| path.starts_with(&format!("{above}/"));
    let exists = |model: &BTreeMap<String, String>, path: &str| {
        path == "/memories" || model.keys().any(|file| file == path || is_below(file, path))
    };
    let is_free = |model: &BTreeMap<String, String>, path: &str| {
        !exists(model, path) && !model.keys().any(|file| is_below(path, file))
    };
    match step {
        Step::Create(path, text) => {
            let is_free = is_free(model, path);
            if is_free {
                model.insert(path.clone(), text.clone());
            }
            is_free
        }
        Step::Replace(path, old) => {
            let Some(text) = model.get_mut(path) else { return false };
            let is_unique = text.matches(old.as_str()).count() == 1;
            if is_unique {
                *text = text.replacen(old.as_str(), "<new>", 1);
            }
            is_unique
        }
        Step::Insert(path, line, inserted) => {
            let Some(text) = model.get_mut(path) else { return false };
            let mut lines: Vec<&str> = text.split('\n').collect();
            if lines.last() == Some(&"") {
                lines.pop();
            }
            let is_valid = (0..=lines.len() as i64).contains(line);
            if is_valid {
                lines.insert(*line as usize, inserted.strip_suffix('\n').unwrap_or(inserted));
                *text = lines.join("\n") + "\n";
            }
            is_valid
        }
        Step::Delete(path) => {
            let before = model.len();
            if path != "/memories" {
                model.retain(|file, _| file != path && !is_below(file, path));
            }
            model.len() < before
        }
        Step::Rename(old, new) => {
            let moves = |file: &str| file == old || is_below(file, old);
            let may = old != "/memories" && exists(model, old) && !is_below(new, old) && is_free(model, new);
            if may {
                let moved = |(file, text): (String, String)| match moves(&file) {
                    true => (format!("{new}{}", &file[old.len()..]), text),
                    false => (file, text),
                };
                *model = std::mem::take(model).into_iter().map(moved).collect();
            }
            may
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn files_are_those_of_a_naive_model(steps in prop::collection::vec(step(), 1..40)) {
        let db = Db::new();
        let (engine, mut model) = (db.open(), BTreeMap::new());
        for step in steps {
            let succeeds = apply(&mut model, &step);
            let answer = call(&engine, match step.clone() {
                Step::Create(path, text) => json!({ "command": "create", "path": path, "file_text": text }),
                Step::Replace(path, old) => replace(&path, &old, "<new>"),
                Step::Insert(path, line, text) => insert(&path, line, &text),
                Step::Delete(path) => delete(&path),
                Step::Rename(old, new) => rename(&old, &new),
            });
            prop_assert_eq!(!answer.is_error, succeeds, "{:?}: {}", step, answer.content);
            let stored: BTreeMap<String, String> =
                files(&engine).into_iter().map(|(key, text)| (format!("/memories/{key}"), text)).collect();
            prop_assert_eq!(&stored, &model, "{:?}", step);
        }
        for (path, text) in &model {
            let lines = text.split('\n').enumerate().map(|(at, line)| format!("\n{:>6}\t{line}", at + 1));
            prop_assert!(done(&engine, view(path)).ends_with(&lines.collect::<String>()));
        }
    }
}
