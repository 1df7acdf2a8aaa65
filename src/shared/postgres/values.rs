//! Cells as values of Postgres.

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::store::{Cell, Column, Kind};

type BoxError = Box<dyn std::error::Error + Sync + Send>;

/// The microseconds between 1970, where ours begin, and 2000, where those of Postgres begin.
const YEARS_1970_TO_2000: i64 = 946_684_800_000_000;
/// The first moment of Postgres, in its microseconds: 4714-11-24 BC.
const FIRST_MOMENT: i64 = -211_813_488_000_000_000;

/// A `timestamptz`, in microseconds since 1970; `i64::MAX` is infinity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) i64);

impl ToSql for Time {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        let micros = if self.0 == i64::MAX { i64::MAX } else { self.0.saturating_sub(YEARS_1970_TO_2000) };
        if micros < FIRST_MOMENT {
            return Err("a time before the year -4713, which Postgres cannot store".into());
        }
        out.extend_from_slice(&micros.to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Time {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, BoxError> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Time(if micros == i64::MAX { i64::MAX } else { micros.saturating_add(YEARS_1970_TO_2000) }))
    }

    accepts!(TIMESTAMPTZ);
}

/// Text of Postgres has no U+0000. It is written as U+0001 and `0`, and U+0001 as itself and `1`; all other texts are
/// as they are.
pub(super) fn escape(text: &str) -> String {
    match text.contains(['\0', '\u{1}']) {
        false => text.to_owned(),
        true => text.replace('\u{1}', "\u{1}1").replace('\0', "\u{1}0"),
    }
}

pub(super) fn unescape(text: String) -> String {
    match text.contains('\u{1}') {
        false => text,
        true => text.replace("\u{1}0", "\0").replace("\u{1}1", "\u{1}"),
    }
}

/// A parameter of a statement: the values of one column.
pub(super) type Parameter = Box<dyn ToSql + Sync + Send>;

/// The values of a column as an array.
pub(super) fn array<'c>(kind: Kind, cells: impl Iterator<Item = &'c Cell>) -> Parameter {
    match kind {
        Kind::Bool => Box::new(
            cells.map(|cell| if let Cell::Bool(value) = cell { Some(*value) } else { None }).collect::<Vec<_>>(),
        ),
        Kind::Int => Box::new(
            cells.map(|cell| if let Cell::Int(value) = cell { Some(*value) } else { None }).collect::<Vec<_>>(),
        ),
        Kind::Time => Box::new(
            cells.map(|cell| if let Cell::Time(value) = cell { Some(Time(*value)) } else { None }).collect::<Vec<_>>(),
        ),
        Kind::Text => Box::new(
            cells.map(|cell| if let Cell::Text(value) = cell { Some(escape(value)) } else { None }).collect::<Vec<_>>(),
        ),
        // JSON has no U+0000 but as an escape.
        Kind::Json => Box::new(
            cells.map(|cell| if let Cell::Text(value) = cell { Some(value.clone()) } else { None }).collect::<Vec<_>>(),
        ),
    }
}

/// Reads the columns of a row from `first` on.
pub(super) fn cells(
    row: &tokio_postgres::Row,
    first: usize,
    columns: &[Column],
) -> Result<Vec<Cell>, tokio_postgres::Error> {
    let cell = |(at, (_, kind)): (usize, &Column)| {
        let at = first + at;
        let cell = match kind {
            Kind::Bool => row.try_get::<_, Option<bool>>(at)?.map(Cell::Bool),
            Kind::Int => row.try_get::<_, Option<i64>>(at)?.map(Cell::Int),
            Kind::Time => row.try_get::<_, Option<Time>>(at)?.map(|time| Cell::Time(time.0)),
            Kind::Text => row.try_get::<_, Option<String>>(at)?.map(|text| Cell::Text(unescape(text))),
            Kind::Json => row.try_get::<_, Option<String>>(at)?.map(Cell::Text),
        };
        Ok(cell.unwrap_or(Cell::Null))
    };
    columns.iter().enumerate().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_comes_back_and_has_no_zero(text in "[\u{0}\u{1}01a]{0,12}|.*") {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains('\0'));
            prop_assert_eq!(unescape(escaped), text);
        }
    }
}
