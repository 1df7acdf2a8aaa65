//! Reads and checks the answer to a request for vectors.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};
use serde_json::Value;

use super::super::openai_server::error_message;

/// The usable contents of an answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// One vector for each input, in the order of the inputs, of unit length or all zero.
    pub(super) rows: Vec<Vec<f32>>,
    /// The number of tokens of the inputs, if the server states it.
    pub(super) tokens: Option<u64>,
}

/// The reason why an answer is unusable.
#[derive(Debug, PartialEq)]
pub(super) enum Unusable {
    /// The answer does not have one vector for each input. The same request may get a better answer.
    Broken(String),
    /// A vector has a component that is not finite.
    Vector(String),
    /// The vectors have this number of components instead of the expected one.
    Dimension(usize),
}

#[derive(Deserialize)]
struct ResponseBody {
    data: Vec<ResponseVector>,
    usage: Option<ResponseUsage>,
}

#[derive(Deserialize)]
struct ResponseVector {
    embedding: Components,
    index: Option<usize>,
}

#[derive(Deserialize)]
struct ResponseUsage {
    prompt_tokens: Option<u64>,
}

/// Reads the vectors of an answer to a request with this number of inputs. A vector without an `index` belongs to the
/// input at its own position.
pub(super) fn read(answer: &[u8], inputs: usize, dimension: usize) -> Result<Answer, Unusable> {
    let ResponseBody { data, usage } = serde_json::from_slice(answer).map_err(|error| {
        let json: Result<Value, _> = serde_json::from_slice(answer);
        Unusable::Broken(match json {
            Err(error) => format!("text that is not JSON: {error}"),
            Ok(json) => match error_message(&json) {
                Some(said) => format!("no vectors: {said}"),
                None => format!("JSON that is not a list of vectors: {error}"),
            },
        })
    })?;
    if data.len() != inputs {
        return Err(Unusable::Broken(format!("{} vectors for {inputs} inputs", data.len())));
    }
    let mut rows: Vec<Option<Vec<f32>>> = vec![None; inputs];
    for (position, ResponseVector { embedding: Components(mut row), index }) in data.into_iter().enumerate() {
        let input = index.unwrap_or(position);
        if row.len() != dimension {
            return Err(Unusable::Dimension(row.len()));
        }
        normalize(&mut row).map_err(|component| {
            Unusable::Vector(format!("vector {input} with {component} in it, which is not a finite number"))
        })?;
        match rows.get_mut(input) {
            Some(slot @ None) => *slot = Some(row),
            Some(Some(_)) => return Err(Unusable::Broken(format!("two vectors for input {input}"))),
            None => return Err(Unusable::Broken(format!("a vector for input {input} of {inputs}, counted from 0"))),
        }
    }
    Ok(Answer {
        rows: rows
            .into_iter()
            .map(|row| row.expect("there are as many vectors as inputs, and no two for one input"))
            .collect(),
        tokens: usage.and_then(|usage| usage.prompt_tokens),
    })
}

/// Normalizes a vector to unit length, unless it is all zero. The error is a component that is not finite.
fn normalize(row: &mut [f32]) -> Result<(), f32> {
    if let Some(component) = row.iter().find(|component| !component.is_finite()) {
        return Err(*component);
    }
    // In 64 bits the square of a 32-bit number neither overflows nor underflows.
    let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    if norm > 0.0 {
        row.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
    }
    Ok(())
}

/// The components of a vector, read from a list of numbers or from the base64 of little-endian 32-bit floats.
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
                    return Err(E::custom(format!("{} bytes are not a list of 32-bit floats", bytes.len())));
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
    fn both_formats_are_read_in_any_order() {
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
    fn unusable_answers_are_explained() {
        let check = |answer: String, wanted: &str| {
            let shown = format!("{:?}", read(&answer, 2, 2).unwrap_err());
            assert!(shown.contains(wanted), "{wanted}: {shown}");
        };
        let rows = |second: Value| json!({"data": [{"index": 0, "embedding": [1, 0]}, second]}).to_string();
        let row = |embedding: Value| rows(json!({"index": 1, "embedding": embedding}));
        check("{".into(), "Broken(\"text that is not JSON");
        check("{\"data\": [{\"embedding\": [NaN, 1]}]}".into(), "text that is not JSON");
        check("[]".into(), "JSON that is not a list of vectors");
        check(json!({"error": {"message": "loading"}}).to_string(), "Broken(\"no vectors: loading");
        check(json!({"data": [{"embedding": [1, 0]}]}).to_string(), "Broken(\"1 vectors for 2 inputs");
        check(rows(json!({"index": 0, "embedding": [1, 0]})), "Broken(\"two vectors for input 0");
        check(rows(json!({"index": 2, "embedding": [1, 0]})), "Broken(\"a vector for input 2 of 2");
        check(rows(json!({"index": -1, "embedding": [1, 0]})), "JSON that is not a list of vectors: invalid value");
        check(rows(json!({"index": 1})), "missing field `embedding`");
        check(row(json!([1])), "Dimension(1)");
        check(row(json!([1, 2, 3])), "Dimension(3)");
        check(row(json!([])), "Dimension(0)");
        check(row(json!([1, null])), "JSON that is not a list of vectors: invalid type: null");
        check(row(json!([[1, 2]])), "JSON that is not a list of vectors: invalid type: sequence");
        check(row(json!([1, 1e39])), "JSON that is not a list of vectors: number out of range");
        check(row(json!(base64(&[f32::INFINITY, 1.0]))), "Vector(\"vector 1 with inf in it");
        check(row(json!(base64(&[1.0, f32::NAN]))), "Vector(\"vector 1 with NaN in it");
        check(row(json!("AAAA")), "3 bytes are not a list of 32-bit floats");
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
                    // The same vector written as decimal numbers has the same components.
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
