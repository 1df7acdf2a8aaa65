//! The wire format of protocol buffers: splitting a message into fields and writing fields, without knowing the
//! message's type.
//!
//! Source: <https://protobuf.dev/programming-guides/encoding/>.

/// Bytes reserved for a length that is written later: enough for 2 GiB; shorter lengths are padded.
const LENGTH: usize = 5;

pub(crate) struct Field<'a> {
    pub(crate) number: u64,
    pub(crate) value: Value<'a>,
    /// The encoded key and value.
    pub(crate) encoded: &'a [u8],
}

pub(crate) enum Value<'a> {
    Varint(u64),
    /// Text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// A fixed-size number of 4 or 8 bytes.
    Fixed,
}

/// Splits a message into its fields, in order. `None`: the message is damaged, or has a group, which protocol buffers
/// no longer use.
pub(crate) fn fields(message: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let start = rest;
        let key = varint(&mut rest)?;
        if key >> 3 == 0 {
            return None;
        }
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut rest)?),
            1 => take(&mut rest, 8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Value::Bytes(take(&mut rest, length)?)
            }
            5 => take(&mut rest, 4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        fields.push(Field { number: key >> 3, value, encoded: &start[..start.len() - rest.len()] });
    }
    Some(fields)
}

/// Decodes packed numbers. `None`: they are damaged.
pub(crate) fn varints(mut bytes: &[u8]) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        numbers.push(varint(&mut bytes)?);
    }
    Some(numbers)
}

pub(crate) fn put_bytes(message: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put(message, number << 3 | 2);
    put(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

/// Begins a field of bytes, whose length [`end_bytes`] writes once the bytes are there. Returns the position for
/// `end_bytes`.
pub(crate) fn begin_bytes(message: &mut Vec<u8>, number: u64) -> usize {
    put(message, number << 3 | 2);
    message.extend_from_slice(&[0; LENGTH]);
    message.len()
}

/// Ends a field that [`begin_bytes`] began. A reader of the file rejects a length of 2 GiB or more.
pub(crate) fn end_bytes(message: &mut [u8], begin: usize) {
    let length = message.len() - begin;
    for (at, byte) in message[begin - LENGTH..begin].iter_mut().enumerate() {
        let more = if at + 1 < LENGTH { 0x80 } else { 0 };
        *byte = (length >> (7 * at)) as u8 & 0x7f | more;
    }
}

pub(crate) fn put_varint(message: &mut Vec<u8>, number: u64, value: u64) {
    put(message, number << 3);
    put(message, value);
}

fn put(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn written_fields_are_read(numbers in prop::collection::vec((1..1_u64 << 29, any::<u64>(), ".{0,300}"), 0..20)) {
            let mut message = Vec::new();
            for (number, value, text) in &numbers {
                put_varint(&mut message, *number, *value);
                put_bytes(&mut message, *number, text.as_bytes());
                let begin = begin_bytes(&mut message, *number);
                message.extend_from_slice(text.as_bytes());
                end_bytes(&mut message, begin);
            }
            let read = fields(&message).unwrap();
            prop_assert_eq!(read.iter().flat_map(|field| field.encoded).collect::<Vec<_>>(), message.iter().collect::<Vec<_>>());
            for (three, (number, value, text)) in read.chunks(3).zip(&numbers) {
                prop_assert!(three.iter().all(|field| field.number == *number));
                prop_assert!(matches!(three[0].value, Value::Varint(found) if found == *value));
                for field in &three[1..] {
                    prop_assert!(matches!(field.value, Value::Bytes(found) if found == text.as_bytes()));
                }
            }
        }

        #[test]
        fn any_bytes_are_parsed_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let read = fields(&bytes).map(|fields| fields.iter().map(|field| field.encoded.len()).sum::<usize>());
            prop_assert!(read.is_none_or(|length| length == bytes.len()));
            varints(&bytes);
        }
    }
}
