//! `mnemon reindex`, and the texts that it does not embed again.

use std::fs;

use super::{ingest, json, mnemon, run};
use crate::support::{Db, root, sample};

/// A model folder that is changed under its name is another model; and what it must share with the old one, if it must.
#[test]
fn a_model_changed_on_disk_needs_a_reindex() {
    let db = Db::new();
    let folder = db.folder.path().join("models/own");
    fs::create_dir_all(&folder).unwrap();
    let bundled = root("models/static-en-256");
    for file in fs::read_dir(bundled).unwrap().map(|entry| entry.unwrap().path()) {
        fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
    }
    let manifest = folder.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap().replace("static-en-256", "own");
    fs::write(&manifest, &text).unwrap();
    let mnemon = |arguments: &[&str]| {
        let mut command = mnemon();
        command.args(arguments).arg("--db").arg(&db.path).env("MNEMON_MODELS", folder.parent().unwrap());
        command
    };
    let input = mnemon(&["ingest", "--model", "own"]).arg(sample("messages.jsonl")).output().unwrap();
    assert!(input.status.success(), "{}", String::from_utf8_lossy(&input.stderr));
    assert!(run(&mut mnemon(&["reindex"])).stdout.starts_with("nothing to do: own"));
    fs::write(&manifest, text.replace("max_tokens = 512", "max_tokens = 64")).unwrap();
    let refused = run(&mut mnemon(&["recall", "--namespace", "friends/ines-tom", "boat"]));
    assert!(refused.code == 1 && refused.stderr.contains("mnemon reindex"), "{}", refused.stderr);
    // The old one is nowhere any more.
    let strict = run(&mut mnemon(&["--format", "json", "reindex", "--min-overlap", "0.5"]));
    assert_eq!((strict.code, &json(&strict.stdout)["switched"]), (4, &json!(false)), "{}", strict.stderr);
    assert!(json(&strict.stdout)["gate"]["failed"].as_str().unwrap().contains("not available"));
    let moved = run(&mut mnemon(&["reindex"]));
    assert!(
        moved.code == 0 && moved.stdout.contains("serves") && moved.stdout.contains("recall@10"),
        "{}",
        moved.stderr
    );
    let found = run(&mut mnemon(&["recall", "--namespace", "friends/ines-tom", "boat"]));
    assert_eq!(found.code, 0, "{}", found.stderr);
    let back = run(&mut mnemon(&["reindex", "--rollback"]));
    assert!(back.code == 1 && back.stderr.contains("the previous generation was made with"), "{}", back.stderr);
}

#[test]
fn a_database_is_made_in_a_precision_and_moved_to_another() {
    let db = Db::new();
    let line = r#"{"role":"user","content":"x","id":"1"}"#;
    let ingest = |arguments: &[&str]| ingest(&db, &[&["--namespace", "a"], arguments].concat(), line);
    let precision = || {
        let stats = json(&run(mnemon().args(["--format", "json", "stats", "--db"]).arg(&db.path)).stdout);
        stats["generations"].as_array().unwrap().iter().map(|one| one["precision"].clone()).collect::<Vec<_>>()
    };
    let reindex = |arguments: &[&str]| run(mnemon().args(["reindex", "--db"]).arg(&db.path).args(arguments));
    assert_eq!(ingest(&["--precision", "i8"]).code, 0);
    assert_eq!((ingest(&[]).code, ingest(&["--precision", "i8"]).code, precision()), (0, 0, vec![json!("i8")]));
    let refused = ingest(&["--precision", "f32"]);
    assert_eq!(refused.code, 1);
    for part in ["vectors in i8", "--precision f32 was given", "mnemon reindex --precision f32"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    let moved = reindex(&["--precision", "f32"]);
    assert!(moved.code == 0 && moved.stdout.contains("1 message embedded"), "{}{}", moved.stdout, moved.stderr);
    assert_eq!((ingest(&["--precision", "f32"]).code, precision()), (0, vec![json!("i8"), json!("f32")]));
    // There and back, until it is not kept.
    for serves in ["i8", "f32"] {
        let back = reindex(&["--rollback"]);
        assert!(
            back.code == 0 && back.stdout.contains(&format!(" in {serves} serves")),
            "{}{}",
            back.stdout,
            back.stderr
        );
    }
    let stats = run(mnemon().args(["stats", "--db"]).arg(&db.path)).stdout;
    assert!(stats.contains("kept for a rollback: static-en-256"), "{stats}");
    assert!(reindex(&["--drop-previous"]).stdout.contains("are deleted"));
    assert!(reindex(&["--drop-previous"]).stdout.contains("nothing to do"));
    assert!(reindex(&["--rollback"]).stderr.contains("no previous vectors are kept"));
    assert_eq!(precision(), [json!("f32")]);
    // Without a precision it stays as it is.
    let again = reindex(&["--model", "static-en-256"]);
    assert!(
        again.stdout.starts_with("nothing to do: static-en-256") && again.stdout.contains(" in f32 "),
        "{}",
        again.stdout
    );
    let stats = run(mnemon().args(["stats", "--db"]).arg(&db.path)).stdout;
    assert!(
        stats.lines().any(|line| line.starts_with("serving: static-en-256") && line.contains(" in f32, ")),
        "{stats}"
    );
}

#[test]
fn an_embedding_cache_outlives_the_database() {
    let db = Db::new();
    let cache = db.folder.path().join("cache");
    let path = cache.to_str().unwrap();
    let lines = r#"{"id":"1","role":"user","content":"my bike"}
{"id":"2","role":"user","content":"is in the cellar"}
{"id":"3","role":"user","content":"my bike"}"#;
    let run_on = |db: &Db| {
        let report = json(&ingest(db, &["--namespace", "a", "--embedding-cache", path], lines).stdout);
        (report["cache_hits"].clone(), report["cache_misses"].clone())
    };
    assert_eq!(run_on(&db), (json!(1), json!(2)));
    assert_eq!(run_on(&Db::new()), (json!(3), json!(0)));
    let reindexed =
        run(mnemon().args(["reindex", "--precision", "i8", "--embedding-cache", path, "--db"]).arg(&db.path));
    // Vectors of the model that serves are copied: the cache is not asked for them.
    assert!(reindexed.stdout.contains("(3 copied"), "{}", reindexed.stdout);
    assert!(reindexed.stdout.contains("texts: 0 embedded"), "{}", reindexed.stdout);

    let stats = json(&run(mnemon().args(["--format", "json", "stats", "--embedding-cache", path])).stdout);
    assert_eq!((&stats["embedding_cache"]["entries"], &stats["embedding_cache"]["misses"]), (&json!(2), &json!(2)));
    assert!(stats["namespaces"].is_null());
    let both = run(mnemon().args(["stats", "--embedding-cache", path, "--db"]).arg(&db.path));
    assert!(
        both.stdout.contains("serving: static-en-256") && both.stdout.contains("vectors of 2 texts"),
        "{}",
        both.stdout
    );
    let text = run(mnemon().args(["ingest", "--namespace", "a", "--db"]).arg(&db.path).arg("-").write_stdin(lines));
    assert!(text.stdout.contains("texts: 0 embedded, 0 found"), "{}", text.stdout);
    let wrong = ingest(&Db::new(), &["--namespace", "a", "--embedding-cache", db.path.to_str().unwrap()], lines);
    assert!(wrong.code == 1 && wrong.stderr.contains("embedding cache"), "{}", wrong.stderr);
}

#[test]
fn a_bench_of_a_reindex_to_the_same_model_is_wrong_usage() {
    for more in [&[][..], &["--to-precision", "f16"]] {
        let output = run(mnemon().args(["bench", "reindex", "--to", "static-en-256"]).args(more));
        assert_eq!(output.code, 2, "{}", output.stderr);
        for part in ["are ingested with static-en-256", "--to-precision"] {
            assert!(output.stderr.contains(part), "{}", output.stderr);
        }
    }
}
