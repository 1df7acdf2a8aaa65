//! `mnemon embed` and `mnemon bench ann`: vectors in files.

use std::{fs, path::Path};

use super::{Output, json, mnemon, run};
use crate::support::{sample, vectors};

/// 300 x 16, 20 queries, and no true neighbours.
fn texmex(folder: &Path) {
    write_rows(&folder.join("base.fvecs"), 16, &vectors(300, 16, 1));
    write_rows(&folder.join("query.fvecs"), 16, &vectors(20, 16, 2));
}

fn write_rows(path: &Path, width: usize, values: &[f32]) {
    let row = |row: &[f32]| {
        let values = row.iter().flat_map(|value| value.to_le_bytes());
        (width as u32).to_le_bytes().into_iter().chain(values).collect::<Vec<u8>>()
    };
    fs::write(path, values.chunks_exact(width).flat_map(row).collect::<Vec<u8>>()).unwrap();
}

fn bench_ann(folder: &Path, arguments: &[&str]) -> Output {
    run(mnemon().args(["--format", "json", "bench", "ann", "--ef", "10,64", "--data"]).arg(folder).args(arguments))
}

#[test]
fn indexes_are_measured_beside_each_other_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    texmex(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let peers = r#"[{"peer": "<other>", "build_s": 1.5, "index_mb": 9,
        "points": [{"effort": 5, "recall": 0.9, "qps": 2000}, {"effort": 9, "recall": 1.0, "qps": 500}]}]"#;
    fs::write(path("peers.json"), peers).unwrap();
    let output =
        bench_ann(folder.path(), &["--engine", "--deletions", "--json", &path("a.json"), "--svg", &path("a.svg")]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let report = json(&output.stdout);
    assert_eq!(report, json(&fs::read_to_string(path("a.json")).unwrap()));
    assert_eq!(report["data"], json!({"n": 300, "dim": 16, "queries": 20}));
    let [exact, graph, hnsw_rs] = report["indexes"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((&exact["index"], &exact["points"][0]["recall"]), (&json!("exact"), &json!(1.0)));
    for (name, graph) in [("hnsw", graph), ("hnsw_rs", hnsw_rs)] {
        assert_eq!((&graph["index"], graph["points"].as_array().unwrap().len()), (&json!(name), 2));
        assert!(graph["points"][1]["recall"].as_f64().unwrap() > 0.9, "{graph}");
        assert!(graph["deletions"]["repaired"][1]["recall"].as_f64().unwrap() > 0.9, "{graph}");
    }
    for what in ["idle", "filtered", "deleted"] {
        assert_eq!(exact["engine"][what]["recall"], 1.0, "{what}");
    }

    // What was written is compared with, as what others wrote is.
    let limit = ["--limit", "200", "--index", "exact", "--threads", "2"];
    let compared = run(mnemon().args(["bench", "ann", "--data"]).arg(folder.path()).args(limit).args([
        "--svg",
        &path("b.svg"),
        "--peers",
        &path("peers.json"),
        &path("a.json"),
    ]));
    assert_eq!(compared.code, 0, "{}", compared.stderr);
    for part in ["200 x 16, 20 queries", "exact / <other>", "hnsw (a)", "hnsw_rs (a)", "recall@10 1.0000"] {
        assert!(compared.stdout.contains(part), "{part}: {}", compared.stdout);
    }
    assert!(compared.stderr.contains("other data: 300 x 16"), "{}", compared.stderr);
    for (name, legend) in [("a.svg", "hnsw_rs"), ("b.svg", "&lt;other&gt;")] {
        let svg = fs::read_to_string(path(name)).unwrap();
        assert!(svg.contains(legend), "{svg}");
        let mut reader = quick_xml::Reader::from_str(&svg);
        while reader.read_event().unwrap_or_else(|error| panic!("{error}: {svg}")) != quick_xml::events::Event::Eof {}
    }
}

#[test]
fn an_engine_is_measured_with_an_index_that_has_extras() {
    let folder = tempfile::tempdir().unwrap();
    texmex(folder.path());
    let names = ["hnsw+neighbors", "hnsw+f16", "hnsw+neighbors+f16"];
    let output = bench_ann(folder.path(), &["--engine", "--index", &names.join(",")]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let report = json(&output.stdout);
    for (i, name) in names.into_iter().enumerate() {
        assert_eq!(report["indexes"][i]["index"], name);
        assert!(report["indexes"][i]["engine"]["idle"]["recall"].as_f64().unwrap() > 0.9, "{report}");
    }
}

#[test]
fn vectors_that_cannot_be_measured_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |arguments: &[&str], says: &str| {
        let output = bench_ann(folder.path(), &[&["--index", "exact"], arguments].concat());
        assert!(output.code == 1 && output.stderr.contains(says), "{says}: {} {}", output.code, output.stderr);
    };
    let path = |name: &str| folder.path().join(name);
    fails(&[], "base.fvecs");
    texmex(folder.path());
    for unknown in ["best", "hnsw+best", "exact+f16"] {
        fails(&["--index", unknown], "not one of exact");
    }
    fails(&["--limit", "9"], "10 are needed at least");
    fails(&["--limit", "100", "--engine"], "--engine needs");
    fails(&["--peers", "Cargo.toml"], "neither a list");
    let good = fs::read(path("base.fvecs")).unwrap();
    fs::write(path("base.fvecs"), &good[..good.len() - 3]).unwrap();
    fails(&[], "cut off");
    fs::write(path("base.fvecs"), "no vectors, but a text").unwrap();
    fails(&[], "is it a TEXMEX file?");
    let mut broken = vectors(300, 16, 1);
    broken[7 * 16] = f32::NAN;
    write_rows(&path("base.fvecs"), 16, &broken);
    fails(&[], "row 7 has a component that is not finite");
    write_rows(&path("base.fvecs"), 8, &vectors(300, 8, 1));
    fails(&[], "8 dimensions");
    // Bits of floats as row numbers: far out of range.
    texmex(folder.path());
    write_rows(&path("groundtruth.ivecs"), 10, &vectors(20, 10, 3));
    fails(&[], "delete the file");
    write_rows(&path("groundtruth.ivecs"), 10, &vectors(19, 10, 3));
    fails(&[], "19 rows for 20 queries");

    // Other lengths than 1 are mended, and the neighbours in the file hold no more.
    let long: Vec<f32> = vectors(300, 16, 1).iter().map(|x| x * 3.0).collect();
    write_rows(&path("base.fvecs"), 16, &long);
    let output = bench_ann(folder.path(), &["--index", "exact"]);
    assert!(output.code == 0 && output.stderr.contains("300 vectors were not of length 1"), "{}", output.stderr);
    assert_eq!(json(&output.stdout)["indexes"][0]["points"][0]["recall"], 1.0);
}

#[test]
fn messages_become_files_of_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new/vectors");
    let embed = |arguments: &[&str]| {
        run(mnemon()
            .args(["--format", "json", "embed", "--messages"])
            .arg(sample("messages.jsonl"))
            .arg("--out")
            .arg(&out)
            .args(arguments))
    };
    let size = |name: &str| fs::metadata(out.join(name)).unwrap().len();
    let held = embed(&["--hold-out", "62"]);
    let report = json(&held.stdout);
    assert_eq!((&report["base"], &report["queries"], &report["dimension"]), (&json!(400), &json!(62), &json!(256)));
    assert_eq!(size("base.fvecs"), 400 * (1 + 256) * 4);
    assert_eq!(size("query.fvecs"), 62 * (1 + 256) * 4);
    assert_eq!(size("groundtruth.ivecs"), 62 * (1 + 100) * 4);
    // They can be measured, and what was held to be true is.
    let output = bench_ann(&out, &["--index", "exact"]);
    assert_eq!(json(&output.stdout)["indexes"][0]["points"][0]["recall"], 1.0, "{}", output.stderr);

    let questions = sample("queries.jsonl");
    let refused = embed(&["--queries", questions.to_str().unwrap()]);
    assert!(refused.code == 1 && refused.stderr.contains("add --force to replace it"), "{}", refused.stderr);
    let asked = json(&embed(&["--force", "--queries", questions.to_str().unwrap()]).stdout);
    let count = fs::read_to_string(&questions).unwrap().lines().count() as u64;
    assert_eq!((&asked["base"], asked["queries"].as_u64()), (&json!(462), Some(count)));

    let line = |text: &str| format!("{{\"role\":\"user\",\"namespace\":\"a\",\"content\":\"{text}\"}}\n");
    let lines = folder.path().join("lines.jsonl");
    fs::write(&lines, ["one", "two", "one", "three", "two"].map(line).concat()).unwrap();
    let few = |arguments: &[&str]| {
        let command = &mut mnemon();
        let command =
            command.args(["--format", "json", "embed", "--messages"]).arg(&lines).arg("--force").arg("--out").arg(&out);
        run(command.args(arguments))
    };
    let unique = json(&few(&["--unique", "--hold-out", "1"]).stdout);
    assert_eq!((&unique["base"], &unique["queries"], &unique["neighbors"]), (&json!(2), &json!(1), &json!(2)));
    let too_few = few(&[]);
    assert!(too_few.code == 2 && too_few.stderr.contains("--hold-out 1000"), "{}", too_few.stderr);
}
