//! Random operations beside a model.

use proptest::prelude::*;
use redb::StorageBackend;

use super::{Disk, create, open, seals};

#[derive(Clone, Debug)]
enum Operation {
    /// First page, number of pages, content.
    Write(u64, u64, u8),
    WriteHeader(usize, u8),
    SetLen(u64),
    Sync,
    Reopen,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (1u64..12, 1u64..4, any::<u8>()).prop_map(|(first, count, byte)| Operation::Write(first, count, byte)),
        3 => (0usize..192, any::<u8>()).prop_map(|(at, byte)| Operation::WriteHeader(at, byte)),
        2 => (0u64..14).prop_map(Operation::SetLen),
        1 => Just(Operation::Sync),
        1 => Just(Operation::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_page_file_is_a_list_of_pages(operations in prop::collection::vec(operation(), 1..40)) {
        for (_, seal) in seals() {
            let disk = Disk::default();
            let mut file = create(&disk, &seal);
            // Byte of each page; `None` if it was not written.
            let mut pages: Vec<Option<u8>> = Vec::new();
            let mut header = [0; 512];
            for operation in &operations {
                let len = pages.len() as u64;
                match *operation {
                    Operation::Write(first, count, byte) if first + count <= len => {
                        file.write(first * 4096, &vec![byte; count as usize * 4096]).unwrap();
                        pages[first as usize..(first + count) as usize].fill(Some(byte));
                    }
                    Operation::WriteHeader(at, byte) if len > 0 => {
                        file.write(at as u64, &[byte; 320]).unwrap();
                        header[at..at + 320].fill(byte);
                    }
                    Operation::SetLen(new) => {
                        file.set_len(new * 4096).unwrap();
                        pages.resize(new as usize, None);
                        if new == 0 {
                            header.fill(0);
                        }
                    }
                    Operation::Sync => file.sync_data().unwrap(),
                    Operation::Reopen => file = open(&disk, &seal).unwrap(),
                    _ => {}
                }
                let len = file.len().unwrap();
                prop_assert_eq!(len, pages.len() as u64 * 4096);
                let mut found = [0; 4096];
                if !pages.is_empty() {
                    file.read(0, &mut found).unwrap();
                    prop_assert_eq!(&found[..512], &header);
                }
                for (page, expected) in pages.iter().enumerate().skip(1) {
                    let read = file.read(page as u64 * 4096, &mut found);
                    prop_assert_eq!(read.is_ok().then_some(found), expected.map(|byte| [byte; 4096]));
                }
                let mut several = vec![0; 3 * 4096];
                let are_written = pages.get(2..5).is_some_and(|pages| pages.iter().all(Option::is_some));
                prop_assert_eq!(file.read(2 * 4096, &mut several).is_ok(), are_written);
            }
        }
    }
}
