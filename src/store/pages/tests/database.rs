//! redb on page files: killed processes, power failures, damage.

use std::ops::Range;

use redb::{ConcurrencyMode, Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::{Disk, create, open, seals};
use crate::store::pages::{Seal, Syncs};

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
        // The cipher is slow in a build without optimization.
        let records = if name == "checksum" { 300 } else { 30 };
        for first in (0..records).step_by(10) {
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
        assert_eq!(recovered(disk.bytes(), &seal), records, "{name}: closed");
    }
}

/// A commit in which the power fails is there as a whole or not at all, and so is the one before it. Commits have one phase,
/// two, or two of which the sync of the first is left out.
#[test]
fn a_commit_is_whole_or_absent_after_a_power_failure() {
    use ConcurrencyMode::{ExclusiveWriter, SingleWriter};
    for (name, seal) in seals() {
        let commits = if name == "checksum" { 10 } else { 4 };
        for (mode, syncs, per_commit) in [
            (ExclusiveWriter, Syncs::LastOfCommit, 1),
            (SingleWriter, Syncs::All, 2),
            (SingleWriter, Syncs::LastOfCommit, 1),
        ] {
            let (disk, mut random) = (Disk::default(), 1);
            let file = create(&disk, &seal);
            let state = file.state();
            let database = Database::builder().set_concurrency_mode(mode).create_with_backend(file).unwrap();
            state.set_syncs(syncs);
            let (mut absent, mut whole) = (0, 0);
            for first in (0..commits).map(|commit| 10 * commit) {
                let disks = disk.before_syncs(|| put(&database, first));
                assert_eq!(disks.len(), per_commit, "{name}: {mode:?}, {syncs:?}");
                let mut left = |disk: &Disk, odds| {
                    recovered(disk.after_power_failure(|_, data| torn(&mut random, odds, data)), &seal)
                };
                for (disk, odds) in disks.iter().flat_map(|disk| [2, 2, 8, 8, 30, 30].map(|odds| (disk, odds))) {
                    match left(disk, odds) {
                        count if count == first => absent += 1,
                        count if count == first + 10 => whole += 1,
                        other => panic!("{name}: {other} records after {first} and {}", first + 10),
                    }
                }
                assert_eq!(left(&disk, 2), first + 10, "{name}: {mode:?}, {syncs:?}: it was committed");
            }
            assert!(absent > 2 && whole > 2, "{name}: {mode:?}, {syncs:?}: {absent} absent, {whole} whole");
            state.set_syncs(Syncs::All);
        }
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
