//! Protocol buffers' wire format, as far as a message is taken apart and put together again without being understood.
//!
//! Source: <https://protobuf.dev/programming-guides/encoding/>.

/// Bytes of a length that is written when it is known: 2 GiB take so many, and less may.
const LENGTH: usize = 5;

pub(super) struct Field<'a> {
    pub(super) number: u64,
    pub(super) value: Value<'a>,
    /// Key and value as they are encoded.
    pub(super) encoded: &'a [u8],
}

pub(super) enum Value<'a> {
    Varint(u64),
    /// Text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// A number of 4 or 8 bytes.
    Fixed,
}

/// The fields of a message in order. `None`: it is damaged, or has one of the groups that were given up long ago.
pub(super) fn fields(message: &[u8]) -> Option<Vec<Field<'_>>> {
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

/// Packed numbers.
pub(super) fn varints(mut bytes: &[u8]) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        numbers.push(varint(&mut bytes)?);
    }
    Some(numbers)
}

pub(super) fn put_bytes(message: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put(message, number << 3 | 2);
    put(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

/// Begins a field of bytes, whose number [`end_bytes`] writes once they are there.
pub(super) fn begin_bytes(message: &mut Vec<u8>, number: u64) -> usize {
    put(message, number << 3 | 2);
    message.extend_from_slice(&[0; LENGTH]);
    message.len()
}

/// Ends what [`begin_bytes`] returned this of. Bytes of a length that no file may have are an error of its reader.
pub(super) fn end_bytes(message: &mut [u8], begin: usize) {
    let length = message.len() - begin;
    for (at, byte) in message[begin - LENGTH..begin].iter_mut().enumerate() {
        let more = if at + 1 < LENGTH { 0x80 } else { 0 };
        *byte = (length >> (7 * at)) as u8 & 0x7f | more;
    }
}

pub(super) fn put_varint(message: &mut Vec<u8>, number: u64, value: u64) {
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
        fn what_is_put_is_read(numbers in prop::collection::vec((1..1_u64 << 29, any::<u64>(), ".{0,300}"), 0..20)) {
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
        fn any_bytes_are_a_message_or_not(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let read = fields(&bytes).map(|fields| fields.iter().map(|field| field.encoded.len()).sum::<usize>());
            prop_assert!(read.is_none_or(|length| length == bytes.len()));
            varints(&bytes);
        }
    }
}
