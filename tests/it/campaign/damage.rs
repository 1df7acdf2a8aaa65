//! Damaged database files: an answer is right or an error, and nothing panics, ends the process or hangs.
//!
//! A child reads each file, because damage must not end its process. `MNEMON_DAMAGE` sets how many pages are damaged in
//! each of the four ways; `all` for every page.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Seek, SeekFrom, Write},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, mpsc},
    time::Duration,
};

use mnemon::{Config, Engine, Message};

use super::originals::{self, Reader};
use crate::support::{
    Hashing, below, children,
    tally::{tally, tally_problems},
};

const PAGE: usize = 4096;
/// The variable that tells a child the folder of the files and the number of the first.
const CHILD: &str = "MNEMON_DAMAGE_CHILD";
/// The longest time without a word from a child. A file takes a second at most.
const LONGEST: Duration = Duration::from_secs(120);

/// A damaged file.
struct Damage {
    what: String,
    file: Vec<u8>,
}

#[test]
fn no_damaged_page_gives_a_wrong_answer_or_a_panic() {
    let whole = whole();
    let pages = whole.len() / PAGE;
    let mut state = 17;
    let chosen: Vec<usize> = match std::env::var("MNEMON_DAMAGE") {
        Ok(all) if all == "all" => (0..pages).collect(),
        count => {
            let count = count.map_or(10, |count| count.parse().expect("`all` or a count"));
            (0..count).map(|_| below(&mut state, pages)).collect()
        }
    };
    let damages = chosen.into_iter().flat_map(|page| {
        let (begin, byte, bit) = (page * PAGE, page * PAGE + below(&mut state, PAGE), below(&mut state, 8));
        let other = below(&mut state, pages) * PAGE;
        let flipped = edited(&whole, |file| file[byte] ^= 1 << bit);
        let zeroed = edited(&whole, |file| file[begin..begin + PAGE].fill(0));
        let swapped = edited(&whole, |file| {
            for at in 0..PAGE {
                file.swap(begin + at, other + at);
            }
        });
        [
            Damage { what: format!("bit {bit} of byte {byte} flipped"), file: flipped },
            Damage { what: format!("page {page} zeroed"), file: zeroed },
            Damage { what: format!("pages {page} and {} swapped", other / PAGE), file: swapped },
            // Cut to nothing it is an empty file, which is a new database.
            Damage { what: format!("cut at page {page}"), file: whole[..begin.max(1)].to_vec() },
        ]
    });
    check(damages.collect());
}

/// Bytes of each kind of record are found in the file by what was stored.
#[test]
fn no_damaged_record_gives_a_wrong_answer_or_a_panic() {
    let whole = whole();
    let vector = mnemon::Embedder::embed_query(&crate::support::Hashing::new(32), "acme/ada topic3 word13").unwrap();
    let records: [(&str, Vec<u8>); 8] = [
        ("message", b"topic3 word13".to_vec()),
        ("term", b"word42".to_vec()),
        ("checkpoint", b"the first half".to_vec()),
        ("document", b"document7 about".to_vec()),
        ("audit", b"\"kind\":\"forget\"".to_vec()),
        ("hold", b"case 7".to_vec()),
        ("turn", b"turn 5 about".to_vec()),
        ("vector", vector[..4].iter().flat_map(|x| x.to_le_bytes()).collect()),
    ];
    let mut damages = Vec::new();
    for (what, bytes) in records {
        let places = whole.windows(bytes.len()).enumerate().filter(|(_, window)| *window == bytes);
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        assert!(!places.is_empty() || what == "vector", "no {what} in the file");
        for place in places {
            let file = edited(&whole, |file| file[place + bytes.len() / 2] ^= 1);
            damages.push(Damage { what: format!("{what} at {place}"), file });
        }
    }
    check(damages);
}

fn whole() -> Vec<u8> {
    let db = crate::support::Db::new();
    originals::fill(&db.path);
    db.assert_sound();
    assert_eq!(Reader::read(&db.path), (Vec::new(), Vec::new()), "the file is whole");
    originals_again()
}

/// The file as it was before the reader changed it.
fn originals_again() -> Vec<u8> {
    let db = crate::support::Db::new();
    originals::fill(&db.path);
    fs::read(&db.path).unwrap()
}

fn edited(whole: &[u8], edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut file = whole.to_vec();
    edit(&mut file);
    file
}

/// Reads the files in children, and asserts that nothing was wrong.
fn check(damages: Vec<Damage>) {
    let (count, mut problems) = (damages.len(), BTreeSet::new());
    for damages in damages.chunks(64) {
        let folder = tempfile::tempdir().unwrap();
        for (number, damage) in damages.iter().enumerate() {
            fs::write(folder.path().join(number.to_string()), &damage.file).unwrap();
        }
        let mut next = 0;
        while next < damages.len() {
            next = child_of(folder.path(), next, damages, &mut problems);
        }
        for (number, damage) in damages.iter().enumerate() {
            fs::write(folder.path().join("verified"), &damage.file).unwrap();
            let output = assert_cmd::Command::cargo_bin("mnemon")
                .unwrap()
                .args(["verify", "--db"])
                .arg(folder.path().join("verified"))
                .timeout(LONGEST)
                .output()
                .unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            let is_sound = fs::exists(folder.path().join(format!("{number}.sound"))).unwrap();
            let expected = if is_sound { 0 } else { 3 };
            if output.status.code() != Some(expected) || stderr.contains("panicked") {
                problems.insert(format!("{}: `verify` ends with {}: {stderr:.300}", damage.what, output.status));
            }
        }
    }
    tally("pages", count as u64);
    let problems = tally_problems(problems.into_iter().collect());
    assert!(
        problems.is_empty(),
        "{} problems in {count} files:\n{}",
        problems.len(),
        problems[..40.min(problems.len())].join("\n")
    );
}

/// Lets a child read the files from `first` on. Returns the file to go on with.
fn child_of(folder: &Path, first: usize, damages: &[Damage], problems: &mut BTreeSet<String>) -> usize {
    let test = children::command(module_path!(), "child");
    let mut command = Command::new("sh");
    // 8 GiB of addresses: a length that damage made huge is an error, and no allocation.
    command.args(["-c", "ulimit -v 8388608; exec \"$0\" \"$@\""]).arg(test.get_program()).args(test.get_args());
    let stderr = fs::File::create(folder.join("stderr")).unwrap();
    let mut child = command
        .env(CHILD, format!("{first}#{}", folder.display()))
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .unwrap();
    let (sender, lines) = mpsc::channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || stdout.lines().map_while(|line| line.ok()).all(|line| sender.send(line).is_ok()));
    let mut at = first;
    let ended = loop {
        match lines.recv_timeout(LONGEST) {
            Ok(line) => {
                if let Some(number) = line.strip_prefix("file ") {
                    at = number.parse().unwrap();
                } else if let Some(problem) = line.strip_prefix("problem ") {
                    problems.insert(format!("{}: {problem}", damages[at].what));
                } else if line == "all read" {
                    at = damages.len();
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break true,
            Err(mpsc::RecvTimeoutError::Timeout) => break false,
        }
    };
    if !ended {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    if at < damages.len() {
        let how = if ended { format!("ended with {status}") } else { "hung".into() };
        problems.insert(format!("{}: the process {how}", damages[at].what));
        return at + 1;
    }
    let said = fs::read_to_string(folder.join("stderr")).unwrap();
    let panics = said.lines().filter(|line| line.contains("panicked at"));
    problems.extend(panics.map(|line| format!("on stderr: {line}")));
    at
}

#[test]
#[ignore = "the process that reads damaged files"]
fn child() {
    let argument = std::env::var(CHILD).expect("a test of damage starts this process");
    let (first, folder) = argument.split_once('#').unwrap();
    let (first, folder): (usize, &Path) = (first.parse().unwrap(), Path::new(folder));
    for number in first.. {
        let path = folder.join(number.to_string());
        if !path.exists() {
            break;
        }
        println!("\nfile {number}");
        let is_sound = match mnemon::verify(&path) {
            Ok(report) => report.problems.is_empty(),
            Err(mnemon::Error::Panicked { .. }) => {
                println!("problem verify panicked");
                false
            }
            Err(_) => false,
        };
        if is_sound {
            fs::write(folder.join(format!("{number}.sound")), "").unwrap();
        }
        let (problems, errors) = Reader::read(&path);
        for problem in problems {
            println!("problem {}", problem.replace('\n', " "));
        }
        for error in errors.iter().filter(|_| is_sound) {
            println!("problem `verify` found nothing, but {}", error.replace('\n', " "));
        }
    }
    println!("all read");
}

#[test]
fn damage_is_reported_with_its_namespace_and_record() {
    let db = crate::support::Db::new();
    let (acme, text) = (crate::support::namespace("acme/ada"), "the ferry leaves at nine ".repeat(1000));
    let messages = vec![Message::user(text).with_id("m1"), Message::user("short").with_id("m2")];
    db.open().blocking().put(&acme, messages).unwrap();
    let config = Config::default().cache_bytes(0).drain_on_open(false);
    let engine = Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap();
    // Damaged while it is open: a debug build of redb reads every page when it opens a file.
    let file = fs::read(&db.path).unwrap();
    let place = 12_000 + file.windows(9).position(|bytes| bytes == b"the ferry").unwrap();
    let mut open = fs::OpenOptions::new().write(true).open(&db.path).unwrap();
    open.seek(SeekFrom::Start(place as u64)).unwrap();
    open.write_all(&[file[place] ^ 1]).unwrap();
    let error = engine.blocking().get(&acme, "m1").unwrap_err().to_string();
    assert!(error.starts_with("damaged database: namespace acme/ada: message \"m1\": message 0: page "), "{error}");
    assert_eq!(engine.blocking().get(&acme, "m2").unwrap().unwrap().text(), "short");
}
