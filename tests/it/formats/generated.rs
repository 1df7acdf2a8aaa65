//! Random files of other programs, made by `tests/formats/generate.py`, which was written from descriptions of the formats and
//! says what each file holds.
//!
//! MNEMON_FORMAT_FILES is the number of files of each format (default: 15).

use std::{fs, path::Path, process::Command};

use mnemon::{
    Message,
    format::{FileReader, Format, ReadOptions, Source},
};
use serde_json::Value;

/// Reads all files of a folder. Returns the formats that they were found to have, and the messages in their order.
fn read(folder: &Path) -> (Vec<&'static str>, Vec<Message>) {
    let mut reader = FileReader::new(ReadOptions::default());
    let mut source = Source::open(folder).unwrap();
    let (mut formats, mut messages) = (Vec::new(), Vec::new());
    while let Some(mut file) = source.next_file().unwrap() {
        let format = file.format().unwrap();
        let format: &'static Format = format.unwrap_or_else(|| panic!("{}: no format is known", file.name));
        formats.push(format.name);
        for found in reader.read(format, file) {
            messages.extend(found.unwrap().messages.into_iter().map(|line| line.unwrap().message));
        }
    }
    (formats, messages)
}

/// Compares what was read with what the generator says. The order of messages of one session must be that of the file.
fn check(folder: &Path, format: &str) {
    let truth: Vec<Value> = serde_json::from_str(&fs::read_to_string(folder.join("truth.json")).unwrap()).unwrap();
    let (formats, messages) = read(&folder.join("files"));
    let place = folder.display();
    assert!(formats.iter().all(|found| *found == format), "{place}: {format} was taken for {formats:?}");
    let texts = |message: &Message| message.text().split_whitespace().collect::<Vec<_>>().join(" ");
    let words = |text: &Value| text.as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let listed = || {
        let read: Vec<String> =
            messages.iter().map(|message| format!("{:?} {}", message.name, texts(message))).collect();
        format!("read:\n{}", read.join("\n"))
    };
    assert_eq!(messages.len(), truth.len(), "{place}: the number of messages; {}", listed());
    let mut left: Vec<&Message> = messages.iter().collect();
    for expected in &truth {
        let contains = expected["contains"].as_array();
        let is_expected = |message: &Message| {
            let text = texts(message);
            let is_text = match contains {
                Some(contains) => contains.iter().all(|part| text.contains(&words(part))),
                None => text == words(&expected["text"]),
            };
            let has_time = expected["time"].is_null()
                || message
                    .created_at
                    .is_some_and(|time| time.to_string().get(..19) == expected["time"].as_str().unwrap().get(..19));
            let has_session = expected["session"].is_null() || message.session == expected["session"].as_str().unwrap();
            is_text
                && has_time
                && has_session
                && message.role.as_str() == expected["role"]
                && (expected["name"].is_null() || message.name.as_deref() == expected["name"].as_str())
        };
        // Messages of different sessions may come in another order, but those of one may not.
        let at = left.iter().position(|message| is_expected(message));
        let at = at.unwrap_or_else(|| panic!("{place}: {expected} is missing or wrong; {}", listed()));
        assert!(
            left[..at].iter().all(|before| before.session != left[at].session
                || before.created_at.is_none()
                || before.created_at == left[at].created_at),
            "{place}: {expected} comes too late; {}",
            listed()
        );
        left.remove(at);
    }
    let mut ids: Vec<_> = messages.iter().map(|message| &message.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), messages.len(), "{place}: two messages have one id");
}

#[test]
fn files_hold_what_their_generator_says() {
    let files = std::env::var("MNEMON_FORMAT_FILES").unwrap_or_else(|_| "15".to_owned());
    let seed = std::env::var("MNEMON_FORMAT_SEED").unwrap_or_else(|_| "1".to_owned());
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats/generate.py");
    let made = Command::new("python3").arg(script).args([&seed, &files]).arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut checked = 0;
    for format in fs::read_dir(folder.path()).unwrap() {
        let format = format.unwrap();
        for file in fs::read_dir(format.path()).unwrap() {
            check(&file.unwrap().path(), format.file_name().to_str().unwrap());
            checked += 1;
        }
    }
    println!("{checked} files");
    assert!(checked >= 14, "the script made {checked} files");
}
