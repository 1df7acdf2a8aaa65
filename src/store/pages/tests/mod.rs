//! Tests of page files on a disk in memory.

mod database;
mod disk;
mod header;
mod model;
mod page_file;

use disk::Disk;

use super::*;

/// The seals that a file may have, with a name for messages.
fn seals() -> Vec<(&'static str, Seal)> {
    vec![("checksum", Seal::Checksum)]
}

fn create(disk: &Disk, seal: &Seal) -> PageFile {
    PageFile::create(Box::new(disk.clone()), seal).unwrap()
}

fn open(disk: &Disk, seal: &Seal) -> Result<PageFile, OpenPagesError> {
    PageFile::open(Box::new(disk.clone()), seal)
}

/// The bytes of a page that differ from those of every other number.
fn page(number: u64) -> Vec<u8> {
    (0..4096u64).map(|i| (number * 31 + i * 7 + i / 256 + 1) as u8).collect()
}
