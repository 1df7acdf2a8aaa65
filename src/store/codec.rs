//! The encoding of stored values. This is the only file that calls bincode.
//!
//! A value consists of `M`, `n`, the codec's id, the value's version, and the payload. bincode is no longer developed;
//! if it has to be replaced, a new codec id will be written, and both ids will be read.

use bincode::{Decode, Encode, config};

use crate::error::{Error, Result};

/// The schema version that this release writes. Opening refuses a database with a higher version and upgrades one with
/// a lower version.
pub(super) const SCHEMA: u32 = 12;

/// The version of the layout of values.
const VALUE: u8 = 1;
const HEADER: [u8; 2] = *b"Mn";
pub(super) const HEADER_BYTES: usize = 4;

/// The encoding of a payload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    /// bincode 2 with its standard configuration.
    Bincode = 1,
    /// Rows of 32-bit vectors, little endian, see `row_layout`.
    Rows = 2,
    /// A part of a graph behind its checksum, see `graphs`.
    Graph = 3,
    /// Rows of vectors with 8 bits a component, see `row_layout`.
    Rows8 = 4,
    /// Rows of vectors with 16 bits a component, see `row_layout`.
    Rows16 = 5,
}

/// The maximum number of bytes that decoding one value allocates, so that a damaged length is an error. Every record
/// stays far below: the largest is a message, of at most 1 MiB of content and 16 MiB of metadata, which `put` checks.
const LIMIT: usize = 64 << 20;

fn configuration() -> impl config::Config {
    config::standard().with_limit::<LIMIT>()
}

pub(super) fn header(codec: Codec) -> [u8; HEADER_BYTES] {
    [HEADER[0], HEADER[1], codec as u8, VALUE]
}

/// Checks the header of a value and returns its payload.
pub(super) fn payload(codec: Codec, bytes: &[u8]) -> Result<&[u8]> {
    match bytes.split_first_chunk::<HEADER_BYTES>() {
        Some((found, payload)) if *found == header(codec) => Ok(payload),
        Some((found, _)) => {
            Err(Error::corrupted(format!("a value begins with {found:02x?}, expected {:02x?}", header(codec))))
        }
        None => Err(Error::corrupted(format!("a value of {} bytes is too short for its header", bytes.len()))),
    }
}

pub(super) fn encode(value: &impl Encode) -> Vec<u8> {
    let mut bytes = header(Codec::Bincode).to_vec();
    bincode::encode_into_std_write(value, &mut bytes, configuration())
        .expect("records hold strings and numbers, which always encode");
    bytes
}

pub(super) fn decode<T: Decode<()>>(bytes: &[u8]) -> Result<T> {
    let (value, rest) = decode_first(bytes)?;
    match rest {
        0 => Ok(value),
        rest => Err(Error::corrupted(format!("a value has {rest} bytes too many"))),
    }
}

/// Decodes the first fields of a value. Returns the number of bytes after them, too.
pub(super) fn decode_first<T: Decode<()>>(bytes: &[u8]) -> Result<(T, usize)> {
    let payload = payload(Codec::Bincode, bytes)?;
    let (value, used) = bincode::decode_from_slice(payload, configuration())
        .map_err(|error| Error::corrupted(format!("a value does not decode: {error}")))?;
    Ok((value, payload.len() - used))
}
