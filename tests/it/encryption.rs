//! Encrypted databases and caches: what is in their files, and with which keys they open.

use std::{fs, sync::Arc};

use mnemon::{Config, DatabaseFile, Embedder, EncryptionKey, Engine, Error, Message, Precision, Query, Result};

use crate::support::{Db, Hashing, chain, go_on, message, namespace, open_tables, recall::recalled_ids};

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
    // A vector has the same bytes in the database and in the cache.
    config.precision = Precision::F32;
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

/// An older copy of a page is sealed as it should be. `verify` finds it where it finds damage: in each page that is in
/// use. No call panics.
#[test]
fn verify_finds_an_older_page_that_was_put_back() {
    for given in [None, Some(key(1))] {
        let page = if given.is_some() { SEALED_PAGE } else { 4096 + 8 };
        let (db, _) = filled(given.clone());
        let older = fs::read(&db.path).unwrap();
        let engine = open(&db, given.clone()).unwrap();
        for i in 0..5 {
            let new = message(&format!("new-{i}"), "a new text");
            engine.blocking().put(&namespace("hidden-tenant"), vec![new]).unwrap();
            engine.blocking().flush().unwrap();
        }
        drop(engine);
        let newer = fs::read(&db.path).unwrap();
        let mut database = DatabaseFile::new(&db.path);
        if let Some(key) = &given {
            database = database.encryption_key(key.clone());
        }
        let is_sound = |bytes: &[u8]| {
            fs::write(&db.path, bytes).unwrap();
            match mnemon::verify(&database) {
                Ok(report) => report.problems.is_empty(),
                Err(Error::NotADatabase { .. }) => false,
                Err(error) => panic!("{error}"),
            }
        };
        assert!(is_sound(&newer));
        let mut found = 0;
        for at in (FIRST_PAGE..=older.len().min(newer.len()) - page).step_by(page) {
            let range = at..at + page;
            if older[range.clone()] == newer[range.clone()] {
                continue;
            }
            let [mut replaced, mut damaged] = [newer.clone(), newer.clone()];
            damaged[at] ^= 1;
            replaced[range.clone()].copy_from_slice(&older[range]);
            let is_used = !is_sound(&damaged);
            assert_eq!(!is_sound(&replaced), is_used, "the page at {at}");
            if let Ok(engine) = open(&db, given.clone()) {
                let _ = engine.blocking().history(&namespace("hidden-tenant"), "default");
            }
            let _ = mnemon::stats(&database);
            found += usize::from(is_used);
        }
        assert!(found >= 10, "{found}");
    }
}

/// The functions that open a database by themselves.
#[test]
fn functions_take_a_database_with_its_key() {
    let ((encrypted, _), (plain, _), old) = (filled(Some(key(1))), filled(None), Db::new());
    fs::copy(&plain.path, &old.path).unwrap();
    // As an older version wrote it.
    drop(open_tables(&old.path));
    let new = encrypted.folder.path().join("new");
    let embedder = || Arc::new(Hashing::new(32));
    type Call<'a> = &'a dyn Fn(DatabaseFile) -> Result<()>;
    let calls: &[(&str, Call<'_>)] = &[
        ("stats", &|database| mnemon::stats(database).map(drop)),
        ("namespaces", &|database| mnemon::namespaces(database, None, None, 1).map(drop)),
        ("audit", &|database| mnemon::audit(database).map(drop)),
        ("serving_model", &|database| mnemon::serving_model(database).map(drop)),
        ("verify", &|database| mnemon::verify(database).map(drop)),
        ("backup", &|database| mnemon::backup(database, &new)),
        ("backup_with_key", &|database| mnemon::backup_with_key(database, &new, Some(key(2)))),
        ("salvage", &|database| mnemon::salvage(database, &new).map(drop)),
        ("purge", &|database| mnemon::purge(database).map(drop)),
        ("reindex", &|database| mnemon::reindex(database, embedder(), Default::default(), go_on).map(drop)),
        ("drop_previous", &|database| mnemon::drop_previous(database).map(drop)),
    ];
    let with = |db: &Db, byte: u8| DatabaseFile::new(&db.path).encryption_key(key(byte));
    for (name, call) in calls {
        let before = [&encrypted, &plain, &old].map(|db| fs::read(&db.path).unwrap());
        assert!(matches!(call(encrypted.path.as_path().into()), Err(Error::KeyNeeded { .. })), "{name}");
        assert!(matches!(call(with(&encrypted, 2)), Err(Error::WrongKey { .. })), "{name}");
        assert!(matches!(call(with(&plain, 1)), Err(Error::NotEncrypted { .. })), "{name}");
        // Salvage reads no file of an older version at all.
        let refused = call(with(&old, 1));
        assert!(matches!(refused, Err(Error::NotEncrypted { .. } | Error::NotADatabase { .. })), "{name}: {refused:?}");
        assert!(!new.exists() && before == [&encrypted, &plain, &old].map(|db| fs::read(&db.path).unwrap()), "{name}");
        call(with(&encrypted, 1)).unwrap_or_else(|error| panic!("{name}: {error}"));
        if new.exists() {
            let same = DatabaseFile::new(&new).encryption_key(key(if *name == "backup_with_key" { 2 } else { 1 }));
            assert_eq!(mnemon::verify(same).unwrap().messages, 40, "{name}");
            fs::remove_file(&new).unwrap();
        }
    }
    assert!(!format!("{:?}", with(&plain, 77)).contains("77"));
}
