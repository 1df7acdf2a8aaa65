//! redb's header through power failures.

use redb::StorageBackend;

use super::{Disk, create, open, seals};

/// What is left of an unsynced write: nothing, either sector of 512 bytes, or all.
fn left(choice: usize, data: &[u8]) -> std::ops::Range<usize> {
    let sector = data.len().min(512);
    [0..0, 0..sector, sector..data.len(), 0..data.len()][choice].clone()
}

/// After each step, every combination of lost and torn writes since the last sync opens with a header that was written
/// since then, or with that of the sync.
#[test]
fn a_torn_header_is_the_old_one_or_the_new_one() {
    for (name, seal) in seals() {
        let disk = Disk::default();
        let mut file = create(&disk, &seal);
        file.set_len(2 * 4096).unwrap();
        // redb gives a new file its magic number after the first sync.
        file.write(0, &[100; 512]).unwrap();
        file.sync_data().unwrap();
        let mut acceptable = vec![100];
        let mut images = 0;
        // Numbers are headers to write; 0 is a sync, and 255 a killed process and a new one.
        for step in [1, 2, 0, 3, 0, 4, 5, 0, 0, 6, 255, 7, 0, 8, 255, 9, 10, 255, 255, 0, 11] {
            match step {
                0 => file.sync_data().unwrap(),
                255 => file = open(&disk, &seal).unwrap(),
                header => file.write(0, &[header; 512]).unwrap(),
            }
            match step {
                0 => acceptable.drain(..acceptable.len() - 1).for_each(drop),
                255 => {}
                header => acceptable.push(header),
            }
            let unsynced = disk.unsynced();
            for image in 0..4usize.pow(unsynced as u32) {
                let bytes = disk.after_power_failure(|i, data| left(image >> (2 * i) & 3, data));
                let found = open(&Disk::new(bytes), &seal).unwrap();
                let mut header = [0; 512];
                found.read(0, &mut header).unwrap_or_else(|error| panic!("{name}: step {step}: {error}"));
                assert!(acceptable.contains(&header[0]), "{name}: step {step}: {} of {acceptable:?}", header[0]);
                assert_eq!(header, [header[0]; 512]);
                images += 1;
            }
        }
        assert!(images > 200, "{images}");
    }
}

#[test]
fn a_damaged_slot_loses_nothing_after_a_sync() {
    for (name, seal) in seals() {
        let disk = Disk::default();
        let file = create(&disk, &seal);
        file.set_len(2 * 4096).unwrap();
        for header in 1..=2 {
            file.write(0, &[header; 320]).unwrap();
            file.sync_data().unwrap();
            for slot in [8192, 12288] {
                let mut bytes = disk.bytes();
                bytes[slot..slot + 4096].fill(0xAA);
                let mut found = [0; 320];
                open(&Disk::new(bytes), &seal).unwrap().read(0, &mut found).unwrap();
                assert_eq!(found, [header; 320], "{name}");
            }
        }
        disk.change(|bytes| bytes[8192..16384].fill(0xAA));
        let error = open(&disk, &seal).unwrap().read(0, &mut [0; 320]).unwrap_err();
        assert_eq!(error.to_string(), "page 0 of the file is damaged: both copies of its header are damaged");
    }
}
