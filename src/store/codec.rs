//! The bytes of a stored value: the only place that knows bincode.
//!
//! A value is `M`, `n`, the codec's id, the value's version, then the payload. bincode is finished upstream; should it
//! have to go, a new codec id is read beside the old one, and written instead of it.

use bincode::{Decode, Encode, config};

use crate::error::{Error, Result};

/// The version of the database's layout that this release writes. A database with a higher one is refused, one with a lower
/// one is brought up to it when it is opened.
pub(super) const SCHEMA: u32 = 5;

/// The version of a value's layout.
const VALUE: u8 = 1;
const HEADER: [u8; 2] = *b"Mn";
pub(super) const HEADER_BYTES: usize = 4;

/// What a payload is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    /// bincode 2, standard configuration.
    Bincode = 1,
    /// Rows of vectors, little endian: see `rows`.
    Rows = 2,
    /// A part of a graph behind its checksum: see `graph`.
    Graph = 3,
    /// Rows whose vectors have 8 bits a component: see `rows`.
    Rows8 = 4,
}

/// The most that decoding allocates. No record comes near it: a message is at most 1 MiB as it is stored, which is
/// checked when it is put, and three ids.
const LIMIT: usize = 4 << 20;

fn configuration() -> impl config::Config {
    config::standard().with_limit::<LIMIT>()
}

pub(super) fn header(codec: Codec) -> [u8; HEADER_BYTES] {
    [HEADER[0], HEADER[1], codec as u8, VALUE]
}

/// Takes the header off.
pub(super) fn payload(codec: Codec, bytes: &[u8]) -> Result<&[u8]> {
    match bytes.split_first_chunk::<HEADER_BYTES>() {
        Some((found, payload)) if *found == header(codec) => Ok(payload),
        Some((found, _)) => {
            Err(Error::corrupted(format!("a value begins with {found:02x?}, not {:02x?}", header(codec))))
        }
        None => Err(Error::corrupted(format!("a value of {} bytes", bytes.len()))),
    }
}

pub(super) fn encode(value: &impl Encode) -> Vec<u8> {
    let mut bytes = header(Codec::Bincode).to_vec();
    bincode::encode_into_std_write(value, &mut bytes, configuration())
        .expect("records hold strings and numbers, which always encode");
    bytes
}

pub(super) fn decode<T: Decode<()>>(bytes: &[u8]) -> Result<T> {
    let payload = payload(Codec::Bincode, bytes)?;
    let (value, used) = bincode::decode_from_slice(payload, configuration())
        .map_err(|error| Error::corrupted(format!("a value does not decode: {error}")))?;
    if used != payload.len() {
        return Err(Error::corrupted(format!("a value has {} bytes too many", payload.len() - used)));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::schema::*;

    /// Stored databases outlive releases: these bytes may be added to, never changed.
    #[test]
    fn golden_bytes() {
        let message = MessageRecord {
            id: "m1".into(),
            session: "s".into(),
            role: 1,
            name: Some("Ada".into()),
            content: "hi".into(),
            is_json: false,
            created_at: Some(-2),
            metadata: None,
            revision: 300,
        };
        let namespace = NamespaceRecord { id: 7, next_seq: 2, next_session: 1, messages: 2 };
        let generation = GenerationRecord {
            name: "m".into(),
            dimension: 256,
            hash: "ab".into(),
            state: GenerationState::Serving,
            precision: 1,
        };
        let check = |bytes: Vec<u8>, golden: &str| {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, golden);
        };
        check(encode(&message.clone()), "4d6e0101026d31017301010341646102686900010300fb2c01");
        check(encode(&namespace), "4d6e010107020102");
        check(encode(&generation), "4d6e0101016dfb00010261620101");
        let states =
            [GenerationState::Building, GenerationState::Retired, GenerationState::Previous, GenerationState::Begun];
        for (state, golden) in states.into_iter().zip(["00", "02", "03", "04"]) {
            let generation = GenerationRecord { state, ..generation.clone() };
            check(encode(&generation), &format!("4d6e0101016dfb0001026162{golden}01"));
        }
        let old = [&header(Codec::Bincode)[..], b"\x01m\xfb\x00\x01\x02ab\x01"].concat();
        let old: OldGenerationRecord = decode(&old).unwrap();
        assert_eq!(GenerationRecord::from(old), GenerationRecord { precision: 0, ..generation });
        let block = BlockRecord { state: "{}".into(), revision: 3 };
        let cursor = CursorRecord { next: 2, failed: vec![(1, "no".into())], shared: true };
        let checkpoint = CheckpointRecord {
            label: "a".into(),
            created_at: 1,
            next_seq: 9,
            buffered: vec![(0, 0), (4, 8)],
            next_batch: 2,
            messages: 9,
        };
        let old = OldMessage { record: message, place: 5 };
        check(encode(&old), "4d6e0101026d31017301010341646102686900010300fb2c0105");
        check(encode(&block), "4d6e0101027b7d03");
        check(encode(&cursor), "4d6e0101020101026e6f01");
        check(encode(&checkpoint), "4d6e0101016102090200000408 0209".replace(' ', "").as_str());
        check(encode(&OldBlock { block: None, cursor: CursorRecord::default() }), "4d6e010100000000");
        check(encode(&GraphRecord { first_delta: 2, next_delta: 300 }), "4d6e010102fb2c01");
    }

    #[test]
    fn damaged_values_are_errors() {
        let good = encode(&NamespaceRecord { id: 7, next_seq: 2, next_session: 1, messages: 2 });
        assert!(decode::<NamespaceRecord>(&good).is_ok());
        for cut in 0..good.len() {
            assert!(decode::<NamespaceRecord>(&good[..cut]).is_err(), "cut at {cut}");
        }
        let mut long = good.clone();
        long.push(0);
        assert!(decode::<NamespaceRecord>(&long).is_err());
        let mut other = good;
        other[2] = Codec::Rows as u8;
        assert!(decode::<NamespaceRecord>(&other).is_err());
        // A length that would allocate gigabytes.
        let huge = [&header(Codec::Bincode)[..], &[0xfd; 9]].concat();
        assert!(decode::<MessageRecord>(&huge).is_err());
    }
}
