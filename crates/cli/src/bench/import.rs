//! `mnemon bench import`: how fast files of other programs are read, without being stored, and with how much memory.

use std::{path::PathBuf, time::Instant};

use mnemon::format::{FileReader, ReadOptions};
use serde_json::json;

use super::setup::peak_bytes;
use crate::{input, output};

#[derive(clap::Args)]
pub(super) struct Args {
    /// A file, a folder or a zip archive.
    path: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (mut formats, mut files, mut bytes, mut messages, mut errors) = (Vec::new(), 0_u64, 0, 0_u64, 0_u64);
    let started = Instant::now();
    let mut source = input::source(&args.path)?;
    let mut reader = FileReader::new(ReadOptions::default());
    while let Some(mut file) = source.next_file()? {
        let Some(format) = file.format()? else { continue };
        files += 1;
        bytes += file.size;
        if !formats.contains(&format.name) {
            formats.push(format.name);
        }
        for found in reader.read(format, file) {
            for message in found?.messages {
                *if message.is_ok() { &mut messages } else { &mut errors } += 1;
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    output::json(&json!({
        "formats": formats,
        "files": files,
        "bytes": bytes,
        "messages": messages,
        "errors": errors,
        "seconds": seconds,
        "megabytes_per_second": bytes as f64 / 1e6 / seconds,
        "peak_memory_bytes": peak_bytes(),
    }))
}
