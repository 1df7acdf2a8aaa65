//! Streams that gzip or Zstandard may have compressed.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

/// Returns what gzip or Zstandard compressed, or else the stream as it is, without a byte order mark. The first bytes say
/// which it is.
///
/// # Errors
/// Those of the stream, and a text in UTF-16.
pub fn decompressed<'s>(stream: impl Read + 's) -> io::Result<Box<dyn Read + 's>> {
    let (first, stream) = begin(stream)?;
    let text: Box<dyn Read + 's> = match first[..] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(stream)),
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            Box::new(Zstandard { stream: BufReader::new(stream), decoder: FrameDecoder::new() })
        }
        _ => Box::new(stream),
    };
    let (first, mut text) = begin(text)?;
    match first[..] {
        [0xef, 0xbb, 0xbf, ..] => text.read_exact(&mut [0; 3])?,
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is in UTF-16; save it as UTF-8"));
        }
        _ => {}
    }
    Ok(Box::new(text))
}

/// Returns the first four bytes, or fewer if the stream has fewer, and a reader of the whole stream.
pub(super) fn begin<'s>(mut stream: impl Read + 's) -> io::Result<(Vec<u8>, impl Read + 's)> {
    let mut first = Vec::new();
    stream.by_ref().take(4).read_to_end(&mut first)?;
    Ok((first.clone(), Cursor::new(first).chain(stream)))
}

/// Reads the frames of a Zstandard stream one after the other. The decoder refuses windows of more than its default.
struct Zstandard<R> {
    stream: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Read for Zstandard<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Zstandard { stream, decoder } = self;
        while decoder.can_collect() == 0 {
            if !decoder.is_finished() {
                decoder.decode_blocks(&mut *stream, BlockDecodingStrategy::UptoBlocks(1)).map_err(io::Error::other)?;
                continue;
            }
            if decoder.get_checksum_from_data().is_some_and(|sum| decoder.get_calculated_checksum() != Some(sum)) {
                return Err(io::Error::other("the checksum of a Zstandard frame is wrong"));
            }
            if stream.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match decoder.init(&mut *stream) {
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut stream.by_ref().take(length.into()), &mut io::sink())?;
                }
                begun => begun.map_err(io::Error::other)?,
            }
        }
        decoder.read(out)
    }
}
