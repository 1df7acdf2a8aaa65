//! Reads text files that gzip or zstd may have compressed, as streams: the memory that they take does not grow with them.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use anyhow::bail;
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

/// Reads the text of a file without its byte order mark. The first bytes say whether the file is compressed.
pub(crate) fn text_of(file: impl Read + 'static) -> anyhow::Result<Box<dyn Read>> {
    let (first, file) = begin(file)?;
    let text: Box<dyn Read> = match first[..] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            Box::new(Zstandard { file: BufReader::new(file), decoder: FrameDecoder::new() })
        }
        _ => Box::new(file),
    };
    let (first, mut text) = begin(text)?;
    match first[..] {
        [0xef, 0xbb, 0xbf, ..] => text.read_exact(&mut [0; 3])?,
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => bail!("the file is in UTF-16; save it as UTF-8"),
        _ => {}
    }
    Ok(Box::new(text))
}

/// Returns the first four bytes, or all if there are fewer, and the whole file with them.
fn begin(mut file: impl Read) -> io::Result<(Vec<u8>, impl Read)> {
    let mut first = Vec::new();
    file.by_ref().take(4).read_to_end(&mut first)?;
    Ok((first.clone(), Cursor::new(first).chain(file)))
}

/// Reads the frames of a Zstandard file one after the other. The decoder refuses windows of more than its default.
struct Zstandard<R> {
    file: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Read for Zstandard<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Zstandard { file, decoder } = self;
        while decoder.can_collect() == 0 {
            if !decoder.is_finished() {
                decoder.decode_blocks(&mut *file, BlockDecodingStrategy::UptoBlocks(1)).map_err(io::Error::other)?;
                continue;
            }
            if decoder.get_checksum_from_data().is_some_and(|sum| decoder.get_calculated_checksum() != Some(sum)) {
                return Err(io::Error::other("the checksum of a Zstandard frame is wrong"));
            }
            if file.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match decoder.init(&mut *file) {
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut file.by_ref().take(length.into()), &mut io::sink())?;
                }
                begun => begun.map_err(io::Error::other)?,
            }
        }
        decoder.read(out)
    }
}
