//! Every form of graph and manifest gives the vectors that can be worked out by hand.

use mnemon::{Embedder, OnnxEmbedder};

use super::{WORDS, embedder, manifest};

const CLS: u32 = 101;
const SEP: u32 = 102;

/// Lines of a manifest.
type Changes = [(&'static str, &'static str)];

/// The rows of `encoder.onnx`: sixteen numbers of each token, and the text's mean of them.
fn rows(tokens: &[u32]) -> Vec<Vec<f64>> {
    let own = |id: u32, at: usize| (f64::from(id) * (0.193 + 0.17 * at as f64)).sin();
    let mean = |at: usize| tokens.iter().map(|&id| own(id, at)).sum::<f64>() / tokens.len() as f64;
    tokens.iter().map(|&id| (0..16).map(|at| own(id, at) + mean(at)).collect()).collect()
}

fn unit(row: &[f64]) -> Vec<f64> {
    let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
    row.iter().map(|x| x / norm).collect()
}

fn mean(rows: &[Vec<f64>]) -> Vec<f64> {
    (0..16).map(|at| rows.iter().map(|row| row[at]).sum()).collect()
}

/// "red dog tree", and its tokens.
fn example() -> (String, Vec<u32>) {
    let words = [WORDS[0], WORDS[3], WORDS[6]];
    let tokens = std::iter::once(CLS).chain(words.map(|(_, id)| id)).chain([SEP]);
    (words.map(|(word, _)| word).join(" "), tokens.collect())
}

fn check(embedder: &OnnxEmbedder, text: &str, expected: &[f64], tolerance: f64) {
    let expected = unit(expected);
    for vector in [embedder.embed_query(text).unwrap(), embedder.embed_documents(&[text]).unwrap().remove(0)] {
        assert_eq!(vector.len(), expected.len());
        let worst = vector.iter().zip(&expected).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max);
        assert!(worst < tolerance, "{vector:?} is not {expected:?}");
    }
}

#[test]
fn every_form_of_graph_and_of_pooling_gives_the_known_vector() {
    let (text, tokens) = example();
    let rows = rows(&tokens);
    // The sine of a large f32 is not that of the f64.
    let mean = mean(&rows);
    let none: &Changes = &[];
    let cases: &[(&str, &Changes, &[f64], f64)] = &[
        ("encoder", none, &mean, 5e-3),
        ("encoder_i32", none, &mean, 5e-3),
        ("encoder_f16", none, &mean, 1e-2),
        ("encoder_typed", none, &mean, 5e-3),
        ("encoder_dynamic", &[("quantization", "\"dynamic\"")], &mean, 3e-2),
        ("encoder", &[("pooling", "\"cls\"")], &rows[0], 5e-3),
        ("encoder", &[("pooling", "\"last_token\"")], &rows[4], 5e-3),
        ("encoder_pooled", &[("pooling", "\"none\"")], &mean, 5e-3),
        ("encoder_two", &[("output", "\"tokens\"")], &mean, 5e-3),
        ("encoder_two", &[("pooling", "\"none\""), ("output", "\"pooled\"")], &mean, 5e-3),
        // Only the first components, of unit length again.
        ("encoder", &[("dimension", "3"), ("model_dimension", "16")], &mean[..3], 5e-3),
        ("encoder_pooled", &[("pooling", "\"none\""), ("dimension", "3"), ("model_dimension", "16")], &mean[..3], 5e-3),
    ];
    for (graph, changes, expected, tolerance) in cases {
        check(&embedder(graph, &manifest(changes)), &text, expected, *tolerance);
    }
}

#[test]
fn prefixes_are_part_of_the_text() {
    let prefixed =
        embedder("encoder", &manifest(&[("query_prefix", "\"red \""), ("document_prefix", "\"blue dog \"")]));
    let plain = embedder("encoder", &manifest(&[]));
    let query = |embedder: &OnnxEmbedder, text| embedder.embed_query(text).unwrap();
    assert_eq!(query(&prefixed, "tree"), query(&plain, "red tree"));
    let document = prefixed.embed_documents(&["tree"]).unwrap();
    assert_eq!(document, plain.embed_documents(&["blue dog tree"]).unwrap());
    assert_eq!(prefixed.embed_passages(&["tree"]).unwrap()[0][0].vector, document[0]);
}

/// Weights that are taken out of the graph, and shared by its sessions, are those that were in it.
#[test]
fn large_weights_of_any_type_are_read() {
    let (text, tokens) = example();
    let value = |row: u32, at: u32| (f64::from(row * 16 + at) * 0.37).sin();
    let sum = |row: &dyn Fn(u32) -> u32| -> Vec<f64> {
        (0..16).map(|at| tokens.iter().map(|&id| value(row(id % 64), at)).sum()).collect()
    };
    let manifest = |rows| manifest(&[("dimension", "16"), ("padding_exact", rows)]);
    for padded in ["true", "false"] {
        check(&embedder("table", &manifest(padded)), &text, &sum(&|row| row), 1e-6);
        check(&embedder("table_f16", &manifest(padded)), &text, &sum(&|row| row / 2), 1e-3);
        check(&embedder("table_i8", &manifest(padded)), &text, &sum(&|row| row / 4), 2e-2);
    }
}
