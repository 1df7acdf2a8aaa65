//! Reads a JSON list element by element, so that a large file is never in memory as a whole.

use std::{
    fmt,
    io::{BufReader, Read},
    marker::PhantomData,
    path::Path,
};

use anyhow::Context;
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

use crate::input;

/// Passes the elements of a file's list to `take`. Errors name the file, the line and the column; for those of `take` it
/// is the line up to which the file was read, which is that of the next element.
pub(super) fn each<T: for<'de> Deserialize<'de>>(
    path: &Path,
    take: impl FnMut(T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    each_of(input::open(path)?, take).with_context(|| path.display().to_string())
}

fn each_of<T: for<'de> Deserialize<'de>>(
    reader: impl Read,
    take: impl FnMut(T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 20, reader));
    deserializer.deserialize_seq(Each { take, element: PhantomData })?;
    Ok(deserializer.end()?)
}

struct Each<T, F> {
    take: F,
    element: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> anyhow::Result<()>> Visitor<'de> for Each<T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            (self.take)(element).map_err(|error| A::Error::custom(format!("{error:#}")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    #[test]
    fn errors_name_the_line() {
        let check = |text: &str, part: &str| {
            let mut seen = Vec::new();
            let take = |number: u32| {
                ensure!(number < 9, "{number} is too large");
                seen.push(number);
                Ok(())
            };
            match each_of(text.as_bytes(), take) {
                Ok(()) => assert_eq!(format!("{seen:?}"), part),
                Err(error) => assert!(format!("{error:#}").contains(part), "{error:#}"),
            }
        };
        check("[1,\n 2]", "[1, 2]");
        // The error is found when the element was read: its position is that of the next.
        check("[1,\n 10,\n 2]", "10 is too large at line 3");
        check("[1,\n\"x\"]", "at line 2");
        check("{}", "expected a list at line 1");
        check("[1] 2", "trailing characters");
        check("[1", "line 1");
    }
}
