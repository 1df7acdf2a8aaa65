//! redb on page files: killed processes, power failures, damage.

use std::ops::Range;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::{Disk, create, open, seals};
use crate::store::pages::Seal;

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("records");

fn value(key: u64) -> Vec<u8> {
    vec![key as u8 ^ 0x5A; (key as usize * 37) % 9000]
}

/// Writes ten records in one transaction.
fn put(database: &Database, first: u64) {
    let transaction = database.begin_write().unwrap();
    let mut table = transaction.open_table(TABLE).unwrap();
    (first..first + 10).for_each(|key| drop(table.insert(key, value(key).as_slice()).unwrap()));
    drop(table);
    transaction.commit().unwrap();
}

/// Opens a disk as after a crash and returns the number of records, of which all have their values.
fn recovered(bytes: Vec<u8>, seal: &Seal) -> u64 {
    let file = open(&Disk::new(bytes), seal).unwrap();
    let state = file.state();
    state.set_repairing(true);
    let mut database = Database::builder().create_with_backend(file).unwrap();
    state.set_repairing(false);
    assert_eq!(state.first_damage(), None);
    database.check_integrity().unwrap();
    let transaction = database.begin_read().unwrap();
    let Ok(table) = transaction.open_table(TABLE) else { return 0 };
    table
        .iter()
        .unwrap()
        .zip(0..)
        .map(|(entry, expected)| {
            let (key, found) = entry.unwrap();
            assert_eq!((key.value(), found.value()), (expected, value(expected).as_slice()));
        })
        .count() as u64
}

#[test]
fn a_database_survives_kills_and_power_failures() {
    for (name, seal) in seals() {
        let disk = Disk::default();
        let database = Database::builder().create_with_backend(create(&disk, &seal)).unwrap();
        let mut random = 1;
        for first in (0..300).step_by(10) {
            put(&database, first);
            assert_eq!(recovered(disk.bytes(), &seal), first + 10, "{name}: killed");
            // An uncommitted transaction, whose pages are partly in the file.
            let transaction = database.begin_write().unwrap();
            let mut table = transaction.open_table(TABLE).unwrap();
            table.insert(1000, vec![1; 200_000].as_slice()).unwrap();
            drop(table);
            for _ in 0..3 {
                let bytes = disk.after_power_failure(|_, data| torn(&mut random, 2, data));
                assert_eq!(recovered(bytes, &seal), first + 10, "{name}: power failure");
            }
            transaction.abort().unwrap();
        }
        drop(database);
        assert_eq!(recovered(disk.bytes(), &seal), 300, "{name}: closed");
    }
}

/// A commit in which the power fails is there as a whole or not at all, and so is the one before it.
#[test]
fn a_commit_is_whole_or_absent_after_a_power_failure() {
    for (name, seal) in seals() {
        let disk = Disk::default();
        let database = Database::builder().create_with_backend(create(&disk, &seal)).unwrap();
        let mut random = 1;
        let (mut absent, mut whole) = (0, 0);
        for first in (0..100).step_by(10) {
            for disk in disk.before_syncs(|| put(&database, first)) {
                for odds in [2, 8, 30] {
                    let bytes = disk.after_power_failure(|_, data| torn(&mut random, odds, data));
                    match recovered(bytes, &seal) {
                        count if count == first => absent += 1,
                        count if count == first + 10 => whole += 1,
                        other => panic!("{name}: {other} records after {first} and {}", first + 10),
                    }
                }
            }
        }
        assert!(absent > 5 && whole > 5, "{name}: {absent} absent, {whole} whole");
    }
}

/// What is left of an unsynced write: all of it, or, once in `odds`, some of its sectors.
fn torn(random: &mut u64, odds: u64, data: &[u8]) -> Range<usize> {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    let choice = *random >> 33;
    let cut = data.len().min(512 * (1 + (choice / odds / 3) as usize % 12));
    match (choice % odds, choice / odds % 3) {
        (1.., _) => 0..data.len(),
        (0, 0) => 0..0,
        (0, 1) => 0..cut,
        (0, _) => cut..data.len(),
    }
}

#[test]
fn damage_to_a_database_is_an_error_that_names_the_page() {
    let seal = Seal::Checksum;
    let disk = Disk::default();
    let database = Database::builder().create_with_backend(create(&disk, &seal)).unwrap();
    (0..100).step_by(10).for_each(|first| put(&database, first));
    drop(database);
    let sound = disk.bytes();
    let mut found = 0;
    for page in 0..(sound.len() - 16384) / 4104 {
        let mut bytes = sound.clone();
        bytes[16384 + page * 4104 + 5] ^= 4;
        let file = open(&Disk::new(bytes), &seal).unwrap();
        let state = file.state();
        let read = || -> Result<usize, redb::Error> {
            let database = Database::builder().create_with_backend(file)?;
            let transaction = database.begin_read()?;
            let table = transaction.open_table(TABLE)?;
            let mut count = 0;
            for entry in table.iter()? {
                let (key, found) = entry?;
                assert_eq!(found.value(), value(key.value()));
                count += 1;
            }
            Ok(count)
        };
        match read() {
            Ok(count) => assert_eq!(count, 100),
            Err(_) => {
                assert_eq!(state.first_damage().unwrap().page, page as u64 + 1);
                found += 1;
            }
        }
    }
    assert!(found > 50, "{found}");
}
