//! Encrypted databases and caches: what is in their files, and with which keys they open.

use std::{fs, sync::Arc};

use mnemon::{Config, Embedder, EncryptionKey, Engine, Error, Message, Query, Result};

use crate::support::{Db, Hashing, chain, message, namespace, recall::recalled_ids};

const TEXT: &str = "the purple xylophone rehearsal";
/// Bytes of a sealed page in the file.
const SEALED_PAGE: usize = 4096 + 40;
const FIRST_PAGE: usize = 16384;

fn key(byte: u8) -> EncryptionKey {
    EncryptionKey::from_bytes([byte; 32])
}

fn open(db: &Db, key: Option<EncryptionKey>) -> Result<Engine> {
    let mut config = Config::default().flush_size(100_000).embedding_cache_file(db.folder.path().join("cache"));
    config.idle_flush = None;
    config.encryption_key = key;
    Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open()
}

/// Creates a database with a message, and returns what must not be in its files.
fn filled(key: Option<EncryptionKey>) -> (Db, Vec<Vec<u8>>) {
    let db = Db::new();
    let engine = open(&db, key).unwrap();
    let messages: Vec<Message> = (0..40).map(|i| message(&format!("secret-id-{i}"), &format!("{TEXT} {i}"))).collect();
    engine.blocking().put(&namespace("hidden-tenant"), messages).unwrap();
    engine.blocking().flush().unwrap();
    assert_eq!(recalled(&engine), "secret-id-7");
    let vector = &Hashing::new(32).embed_documents(&[&format!("{TEXT} 7")]).unwrap()[0];
    let vector: Vec<u8> = vector[..4].iter().flat_map(|x| x.to_le_bytes()).collect();
    (db, vec![b"xylophone".to_vec(), b"secret-id".to_vec(), b"hidden-tenant".to_vec(), vector])
}

fn recalled(engine: &Engine) -> String {
    recalled_ids(engine, &namespace("hidden-tenant"), Query::new(format!("{TEXT} 7")).k(1)).remove(0)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn nothing_can_be_read_in_the_files_of_an_encrypted_database() {
    for encrypted in [false, true] {
        let (db, secrets) = filled(encrypted.then(|| key(1)));
        let (file, cache) = (fs::read(&db.path).unwrap(), fs::read(db.folder.path().join("cache")).unwrap());
        assert!(cache.len() > 40 * 32 * 4);
        for secret in &secrets {
            assert_eq!(contains(&file, secret), !encrypted, "{secret:02x?} in the database");
        }
        // The cache has no texts.
        assert_eq!(contains(&cache, &secrets[3]), !encrypted, "a vector in the cache");
        assert_eq!(recalled(&open(&db, encrypted.then(|| key(1))).unwrap()), "secret-id-7");
    }
}

#[test]
fn a_database_opens_with_its_own_key_alone() {
    let (encrypted, _) = filled(Some(key(1)));
    let (plain, _) = filled(None);
    let before = fs::read(&encrypted.path).unwrap();
    assert!(matches!(open(&encrypted, Some(key(2))), Err(Error::WrongKey { .. })));
    assert!(matches!(open(&encrypted, None), Err(Error::KeyNeeded { .. })));
    assert!(matches!(mnemon::stats(&encrypted.path), Err(Error::KeyNeeded { .. })));
    assert!(matches!(open(&plain, Some(key(1))), Err(Error::NotEncrypted { .. })));
    let refused = open(&encrypted, Some(EncryptionKey::from_callback(|| Err("the key service is down".into()))));
    assert!(chain(&refused.err().unwrap()).ends_with("the key service is down"));
    assert_eq!(fs::read(&encrypted.path).unwrap(), before);
    let engine = open(&encrypted, Some(EncryptionKey::from_callback(|| Ok([1; 32])))).unwrap();
    assert_eq!(recalled(&engine), "secret-id-7");
}

/// The file of the cache begins anew with another key.
#[test]
fn a_cache_of_another_key_is_empty() {
    let (db, _) = filled(Some(key(1)));
    fs::remove_file(&db.path).unwrap();
    let entries = |key| open(&db, key).unwrap().blocking().cache_stats().unwrap().file.unwrap().entries;
    let kept = entries(Some(key(1)));
    assert!(kept >= 40, "{kept}");
    fs::remove_file(&db.path).unwrap();
    assert_eq!(entries(Some(key(2))), 0);
    fs::remove_file(&db.path).unwrap();
    assert_eq!(entries(None), 0);
}

/// Changed and swapped pages, in a closed database: every text that is returned is one that was put.
#[test]
fn damage_is_never_another_text() {
    let (db, _) = filled(Some(key(1)));
    let sound = fs::read(&db.path).unwrap();
    let pages: Vec<usize> = (FIRST_PAGE..sound.len() - SEALED_PAGE)
        .step_by(SEALED_PAGE)
        .filter(|&at| sound[at..at + SEALED_PAGE].iter().any(|&byte| byte != 0))
        .collect();
    let mut errors = 0;
    for (i, &at) in pages.iter().enumerate() {
        let mut damaged = sound.clone();
        if i % 2 == 0 {
            damaged[at + i * 97 % SEALED_PAGE] ^= 1;
        } else {
            let (first, second) = damaged.split_at_mut(at);
            let other = pages[i - 1];
            first[other..other + SEALED_PAGE].swap_with_slice(&mut second[..SEALED_PAGE]);
        }
        fs::write(&db.path, damaged).unwrap();
        let read =
            |engine: &Engine, i: usize| engine.blocking().get(&namespace("hidden-tenant"), &format!("secret-id-{i}"));
        let Ok(engine) = open(&db, Some(key(1))) else {
            errors += 1;
            continue;
        };
        for i in 0..40 {
            match read(&engine, i) {
                Err(_) => errors += 1,
                Ok(message) => assert_eq!(message.unwrap().text(), format!("{TEXT} {i}"), "page at {at}"),
            }
        }
    }
    assert!(errors > 0, "of {} pages", pages.len());
}
