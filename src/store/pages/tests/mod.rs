//! Tests of page files on a disk in memory.

mod database;
mod disk;
mod header;
mod model;
mod page_file;

use disk::Disk;

use super::*;
#[cfg(feature = "encryption")]
use crate::encryption::{Cipher, EncryptionKey};

/// The seals that a file may have, with a name for messages.
fn seals() -> Vec<(&'static str, Seal)> {
    let mut seals = vec![("checksum", Seal::Checksum)];
    #[cfg(feature = "encryption")]
    seals.push(("key", key(1)));
    seals
}

#[cfg(feature = "encryption")]
fn key(byte: u8) -> Seal {
    Seal::Key(Cipher::new(&EncryptionKey::from_bytes([byte; 32])).unwrap())
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
