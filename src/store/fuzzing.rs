//! Decodes records of any kind, for the fuzz targets.

use super::{
    codec::{self, Codec},
    message_record::{MessageRecord, OldMessage},
    schema::*,
};

/// Decodes bytes as the payload of each kind of record. A record that decodes is written as it was read, or shorter.
pub(crate) fn decode_records(data: &[u8]) {
    let bytes = [&codec::header(Codec::Bincode)[..], data].concat();
    macro_rules! decode {
        ($($record:ty),+) => {
            $(if let Ok(record) = codec::decode::<$record>(&bytes) {
                let written = codec::encode(&record);
                codec::decode::<$record>(&written).expect("a record that was written can be read");
            })+
        };
    }
    decode!(
        NamespaceRecord,
        GenerationRecord,
        BlockRecord,
        CursorRecord,
        GraphRecord,
        OldBlock,
        CheckpointRecord,
        DocumentRecord,
        DocumentNamespaceRecord,
        OldMessage
    );
    if let Ok(record) = codec::decode::<MessageRecord>(&bytes)
        && let Ok(message) = record.message()
    {
        // A damaged record may hold what `put` refuses.
        let _ = message.check();
    }
}
