//! The file of a history and the file of the embedding cache, each read from a folder of this process.

use std::{fs, path::PathBuf, sync::OnceLock};

use mnemon::{FileHistory, HistoryStore, Message, cache_file_stats};
use sha2::{Digest, Sha256};

fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("mnemon-fuzz-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the system has a temporary folder");
        folder
    })
}

/// Adds checksums to the lines, unless the first byte is odd: without them no line would be read.
pub(crate) fn history(data: &[u8]) {
    static HISTORY: OnceLock<FileHistory> = OnceLock::new();
    let folder = folder().join("history");
    let history = HISTORY.get_or_init(|| FileHistory::open(&folder).expect("a new folder"));
    let Some((kind, data)) = data.split_first() else { return };
    let mut file = Vec::new();
    for line in data.split_inclusive(|&byte| byte == b'\n') {
        match line.strip_suffix(b"}\n") {
            Some(line) if kind % 2 == 0 => {
                file.extend(line);
                file.extend(format!(",\"crc32\":\"{:08x}\"}}\n", crc32fast::hash(line)).bytes());
            }
            _ => file.extend(line),
        }
    }
    let hash: String = Sha256::digest("s").iter().map(|byte| format!("{byte:02x}")).collect();
    let path = folder.join(hash).with_extension("jsonl");
    fs::write(&path, &file).expect("the folder can be written");
    let before = history.messages("s");
    let listed = history.sessions();
    let added = history.append("s", &[Message::user("new").with_id("new")]);
    if let Ok(mut messages) = before {
        assert_eq!(listed.expect("the file is sound"), if messages.is_empty() { vec![] } else { vec!["s"] });
        added.expect("the file is sound");
        messages.retain(|message| message.id != "new");
        let mut after = history.messages("s").expect("the file is sound");
        after.retain(|message| message.id != "new");
        assert_eq!(after, messages);
    } else if added.is_err() {
        assert_eq!(fs::read(&path).expect("the file is there"), file, "a refused append changes nothing");
    }
}

pub(crate) fn cache(data: &[u8]) {
    let path = folder().join("cache");
    fs::write(&path, data).expect("the folder can be written");
    let _ = cache_file_stats(&path);
    assert_eq!(fs::read(&path).expect("the file is there"), data, "statistics change nothing");
    let model = std::sync::Arc::new(crate::transfer::Model::new());
    if let Ok(cached) = mnemon::CachedEmbedder::builder(model).file(&path, 1 << 20).open() {
        let vector = mnemon::Embedder::embed_query(&cached, "x").expect("the model embeds");
        assert_eq!(vector, [1.0, 0.0]);
    }
}
