//! What a server answers to a request for vectors, checked.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};
use serde_json::Value;

use crate::http::error_message;

/// What is of use in an answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// One an input, in order, of unit length or all zero.
    pub(super) rows: Vec<Vec<f32>>,
    /// How many tokens the inputs had, if the server says so.
    pub(super) tokens: Option<u64>,
}

/// What is wrong with an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Unusable {
    /// It is no list of as many vectors: the same request may get a better one.
    Broken(String),
    /// A vector has something else than finite numbers.
    Vector(String),
    /// The vectors have this many components.
    Dimension(usize),
}

#[derive(Deserialize)]
struct Embeddings {
    data: Vec<Embedding>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Embedding {
    embedding: Components,
    index: Option<usize>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
}

/// The vectors of an answer to so many inputs.
///
/// Each goes where its `index` says, or where it is if it says nothing.
pub(super) fn read(answer: &[u8], inputs: usize, dimension: usize) -> Result<Answer, Unusable> {
    let Embeddings { data, usage } = serde_json::from_slice(answer).map_err(|error| {
        let json: Result<Value, _> = serde_json::from_slice(answer);
        Unusable::Broken(match json {
            Err(error) => format!("what is no JSON: {error}"),
            Ok(json) => match error_message(&json) {
                Some(said) => format!("without vectors: {said}"),
                None => format!("what are no vectors: {error}"),
            },
        })
    })?;
    if data.len() != inputs {
        return Err(Unusable::Broken(format!("{} vectors for {inputs} inputs", data.len())));
    }
    let mut rows: Vec<Option<Vec<f32>>> = vec![None; inputs];
    for (place, Embedding { embedding: Components(mut row), index }) in data.into_iter().enumerate() {
        let place = index.unwrap_or(place);
        if row.len() != dimension {
            return Err(Unusable::Dimension(row.len()));
        }
        normalize(&mut row).map_err(|component| {
            Unusable::Vector(format!("vector {place} with {component} in it, which is no finite number"))
        })?;
        match rows.get_mut(place) {
            Some(slot @ None) => *slot = Some(row),
            Some(Some(_)) => return Err(Unusable::Broken(format!("two vectors for input {place}"))),
            None => return Err(Unusable::Broken(format!("a vector for input {place} of {inputs}, from 0"))),
        }
    }
    Ok(Answer {
        rows: rows.into_iter().map(|row| row.expect("as many as there are places, no two in one")).collect(),
        tokens: usage.and_then(|usage| usage.prompt_tokens),
    })
}

/// To unit length, unless all is zero; or the component that is not finite.
fn normalize(row: &mut [f32]) -> Result<(), f32> {
    if let Some(component) = row.iter().find(|component| !component.is_finite()) {
        return Err(*component);
    }
    // In 64 bits no square of 32 overflows or vanishes.
    let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    if norm > 0.0 {
        row.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
    }
    Ok(())
}

/// A list of numbers, or base64 of 32 bit floats, the low byte first.
struct Components(Vec<f32>);

impl<'de> Deserialize<'de> for Components {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Components;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of numbers, or base64")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Components, E> {
                let bytes = STANDARD.decode(text).map_err(|error| E::custom(format!("no base64: {error}")))?;
                let (floats, []) = bytes.as_chunks() else {
                    return Err(E::custom(format!("{} bytes are no 32 bit floats", bytes.len())));
                };
                Ok(Components(floats.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Components, A::Error> {
                let mut components = Vec::new();
                while let Some(component) = list.next_element()? {
                    if components.len() == u16::MAX as usize {
                        return Err(A::Error::custom("more components than a vector can have"));
                    }
                    components.push(component);
                }
                Ok(Components(components))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn base64(row: &[f32]) -> String {
        STANDARD.encode(row.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
    }

    fn read(answer: impl ToString, inputs: usize, dimension: usize) -> Result<Vec<Vec<f32>>, Unusable> {
        super::read(answer.to_string().as_bytes(), inputs, dimension).map(|answer| answer.rows)
    }

    #[test]
    fn either_format_in_any_order() {
        let rows = read(
            json!({"data": [
                {"index": 1, "embedding": base64(&[0.0, 3.0, 4.0])},
                {"index": 0, "embedding": [2, 0.0, 0]},
                {"embedding": [0, 0, 0]},
            ]}),
            3,
            3,
        );
        assert_eq!(rows.unwrap(), [[1.0, 0.0, 0.0], [0.0, 0.6, 0.8], [0.0; 3]]);
        assert_eq!(read(json!({"data": []}), 0, 3).unwrap(), [[0.0; 0]; 0]);
    }

    #[test]
    fn faults() {
        let check = |answer: String, wanted: &str| {
            let shown = format!("{:?}", read(&answer, 2, 2).unwrap_err());
            assert!(shown.contains(wanted), "{wanted}: {shown}");
        };
        let rows = |second: Value| json!({"data": [{"index": 0, "embedding": [1, 0]}, second]}).to_string();
        let row = |embedding: Value| rows(json!({"index": 1, "embedding": embedding}));
        check("{".into(), "Broken(\"what is no JSON");
        check("{\"data\": [{\"embedding\": [NaN, 1]}]}".into(), "what is no JSON");
        check("[]".into(), "what are no vectors");
        check(json!({"error": {"message": "loading"}}).to_string(), "Broken(\"without vectors: loading");
        check(json!({"data": [{"embedding": [1, 0]}]}).to_string(), "Broken(\"1 vectors for 2 inputs");
        check(rows(json!({"index": 0, "embedding": [1, 0]})), "Broken(\"two vectors for input 0");
        check(rows(json!({"index": 2, "embedding": [1, 0]})), "Broken(\"a vector for input 2 of 2");
        check(rows(json!({"index": -1, "embedding": [1, 0]})), "what are no vectors: invalid value");
        check(rows(json!({"index": 1})), "missing field `embedding`");
        check(row(json!([1])), "Dimension(1)");
        check(row(json!([1, 2, 3])), "Dimension(3)");
        check(row(json!([])), "Dimension(0)");
        check(row(json!([1, null])), "what are no vectors: invalid type: null");
        check(row(json!([[1, 2]])), "what are no vectors: invalid type: sequence");
        check(row(json!([1, 1e39])), "what are no vectors: number out of range");
        check(row(json!(base64(&[f32::INFINITY, 1.0]))), "Vector(\"vector 1 with inf in it");
        check(row(json!(base64(&[1.0, f32::NAN]))), "Vector(\"vector 1 with NaN in it");
        check(row(json!("AAAA")), "3 bytes are no 32 bit floats");
        check(row(json!("not base64")), "no base64");
    }

    proptest! {
        #[test]
        fn all_rows_have_unit_length(bits in prop::collection::vec(any::<u32>(), 1..50)) {
            let row: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
            let text = json!({"data": [{"embedding": base64(&row)}]});
            match read(text, 1, row.len()) {
                Ok(rows) => {
                    let norm = rows[0].iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
                    prop_assert!((norm - 1.0).abs() < 1e-5 || row.iter().all(|&x| x == 0.0), "{}", norm);
                    // In text it is the same, whatever the digits.
                    let text = json!({"data": [{"embedding": row}]});
                    prop_assert_eq!(rows, read(text, 1, row.len()).unwrap());
                }
                Err(fault) => {
                    prop_assert!(matches!(fault, Unusable::Vector(_)));
                    prop_assert!(row.iter().any(|x| !x.is_finite()));
                }
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), inputs in 0usize..4) {
            let _ = super::read(&bytes, inputs, 3);
        }
    }
}
