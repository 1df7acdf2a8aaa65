//! Pages: what is read is what was written, or an error that names the page.

use redb::StorageBackend;

use super::{super::*, Disk, create, open, page, seals};

type Change<'a> = &'a dyn Fn(&mut Vec<u8>);

/// A file with a header and two pages, synced.
fn small(seal: &Seal) -> Disk {
    let disk = Disk::default();
    let file = create(&disk, seal);
    file.set_len(3 * 4096).unwrap();
    file.write(0, &[7; 320]).unwrap();
    file.write(4096, &[page(1), page(2)].concat()).unwrap();
    file.sync_data().unwrap();
    disk
}

fn read(file: &PageFile, offset: u64, len: usize) -> std::io::Result<Vec<u8>> {
    let mut out = vec![0; len];
    file.read(offset, &mut out).map(|()| out)
}

#[test]
fn every_flipped_bit_is_an_error_or_changes_nothing() {
    for (name, seal) in seals() {
        let disk = small(&seal);
        let mut errors = 0;
        // The cipher is slow in a build without optimization.
        let step = if name == "checksum" { 1 } else { 37 };
        let positions = (0..disk.bytes().len()).step_by(step);
        for at in positions.clone() {
            disk.change(|bytes| bytes[at] ^= 1 << (at % 8));
            let file = open(&disk, &seal).unwrap_or_else(|error| panic!("{name}: byte {at}: {error}"));
            for (offset, expected) in [(0, vec![7; 320]), (4096, page(1)), (8192, page(2))] {
                match read(&file, offset, expected.len()) {
                    Ok(found) => assert_eq!(found, expected, "{name}: byte {at}"),
                    Err(_) => errors += 1,
                }
            }
            disk.change(|bytes| bytes[at] ^= 1 << (at % 8));
        }
        // Each byte of the two pages and their trailers; descriptions and headers are there twice.
        assert_eq!(errors, positions.filter(|&at| at >= 16384).count(), "{name}");
    }
}

#[test]
fn the_error_names_the_damaged_page() {
    for (name, seal) in seals() {
        let disk = small(&seal);
        let end = disk.bytes().len();
        let sealed = (end - 16384) / 2;
        let damage: [(&str, Change<'_>); 4] = [
            ("changed", &|bytes| bytes[end - 100] ^= 1),
            ("zeroed", &|bytes| bytes[end - sealed..].fill(0)),
            ("replaced", &|bytes| bytes.copy_within(16384..16384 + sealed, 16384 + sealed)),
            ("stale trailer", &|bytes| bytes[end - sealed..end - sealed + 4096].fill(1)),
        ];
        let sound = disk.bytes();
        for (what, damage) in damage {
            disk.change(|bytes| damage(bytes));
            let file = open(&disk, &seal).unwrap();
            let state = file.state();
            assert_eq!(read(&file, 4096, 4096).unwrap(), page(1));
            assert_eq!(state.first_failure(), None);
            let error = read(&file, 4096, 8192).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
            let message = error.to_string();
            assert!(message.starts_with("page 2 of the file is damaged: "), "{name}, {what}: {message}");
            assert_eq!(state.first_damage().unwrap().page, 2);
            assert_eq!(state.first_failure().unwrap(), format!("reading page 1: {message}"));
            // redb's own check rejects an empty leaf.
            state.set_repairing(true);
            assert_eq!(read(&file, 8192, 4096).unwrap(), [vec![1], vec![0; 4095]].concat());
            state.set_repairing(false);
            assert!(read(&file, 8192, 4096).is_err());
            disk.change(|bytes| bytes.clone_from(&sound));
        }
    }
}

#[test]
fn a_page_that_was_never_written_is_damaged() {
    let disk = small(&Seal::Checksum);
    let file = open(&disk, &Seal::Checksum).unwrap();
    file.set_len(5 * 4096).unwrap();
    assert_eq!(read(&file, 3 * 4096, 4096).unwrap_err().to_string(), "page 3 of the file is damaged: it is zero");
    // Cut off and lengthened again: the old page is not there.
    file.set_len(2 * 4096).unwrap();
    file.set_len(3 * 4096).unwrap();
    assert!(read(&file, 8192, 4096).is_err());
    assert_eq!(read(&file, 3 * 4096, 4096).unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn the_first_failure_is_kept_with_its_operation() {
    let disk = small(&Seal::Checksum);
    let file = open(&disk, &Seal::Checksum).unwrap();
    disk.fail();
    assert!(file.sync_data().is_err());
    assert!(file.write(8192, &page(2)).is_err());
    assert_eq!(file.state().first_failure().unwrap(), "syncing the file: no space left on device");
    assert_eq!(file.state().first_damage(), None);
}

#[test]
fn other_files_are_told_apart() {
    let check = |bytes: Vec<u8>, expected: FileKind, error: &str| {
        assert_eq!(kind(&bytes[..bytes.len().min(KIND_BYTES)]), expected);
        match open(&Disk::new(bytes), &Seal::Checksum) {
            Ok(_) => assert_eq!(error, ""),
            Err(found) => assert_eq!(found.to_string(), error),
        }
    };
    let sound = small(&Seal::Checksum).bytes();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = sound.clone();
        change(&mut bytes);
        bytes
    };
    check(Vec::new(), FileKind::Empty, "it is not a page file");
    check(b"redb\x1A\x0A\xA9\x0D\x0A and more".to_vec(), FileKind::Redb, "it is not a page file");
    check(vec![b'x'; 20_000], FileKind::Other, "it is not a page file");
    check(sound.clone(), FileKind::Pages, "");
    check(changed(&|bytes| bytes[..4096].fill(0)), FileKind::Pages, "");
    check(changed(&|bytes| bytes[4096..8192].fill(0)), FileKind::Pages, "");
    let damaged = changed(&|bytes| [30, 4096 + 30].into_iter().for_each(|at| bytes[at] ^= 1));
    check(damaged, FileKind::Pages, "both copies of its description are damaged");
    let newer = changed(&|bytes| {
        for at in [0, 4096] {
            bytes[at + 16] = 9;
            let checksum = crc32fast::hash(&bytes[at..at + 80]);
            bytes[at + 80..at + 84].copy_from_slice(&checksum.to_le_bytes());
        }
    });
    check(newer, FileKind::Pages, "it is of a newer version of mnemon (version 9 of its pages)");
}

#[test]
fn ranges_that_are_not_whole_pages_are_refused() {
    let file = open(&small(&Seal::Checksum), &Seal::Checksum).unwrap();
    for (offset, len) in [(4095, 1), (4097, 4096), (4096, 100), (0, 8192), (4000, 200)] {
        if (offset, len) != (4095, 1) {
            assert_eq!(read(&file, offset, len).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
        }
        assert_eq!(file.write(offset, &vec![1; len]).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    }
    assert_eq!(file.set_len(5000).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(read(&file, 500, 100).unwrap(), [0; 100]);
}

#[cfg(feature = "encryption")]
#[test]
fn a_key_is_checked_when_the_file_is_opened() {
    use super::key;
    let check = |written: &Seal, given: &Seal, expected: &str| {
        let opened = open(&small(written), given);
        assert_eq!(opened.map_or_else(|error| error.to_string(), |_| String::new()), expected);
    };
    check(&key(1), &key(1), "");
    check(&key(1), &key(2), "it is encrypted with another key");
    check(&key(1), &Seal::Checksum, "it is encrypted");
    check(&Seal::Checksum, &key(1), "it is not encrypted");
    let bytes = small(&key(1)).bytes();
    assert!(!bytes.windows(8).any(|window| page(1).starts_with(window) || window == [7; 8]));
}
