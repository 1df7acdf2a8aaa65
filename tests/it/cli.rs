//! The command, as a shell would call it.

use std::{fs, path::Path};

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::{
    rerank,
    support::{Db, sample, vectors},
};

fn mnemon() -> Command {
    Command::cargo_bin("mnemon").unwrap()
}

struct Output {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    Output {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn ingest(db: &Db, arguments: &[&str], input: &str) -> Output {
    run(mnemon().args(["--format", "json", "ingest", "--db"]).arg(&db.path).args(arguments).arg("-").write_stdin(input))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn ingest_recall_stats_verify() {
    let db = Db::new();
    let output = run(mnemon().args(["ingest", "--db"]).arg(&db.path).arg(sample("messages.jsonl")));
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("stored, embedded, indexed"));

    let recall = |arguments: &[&str]| run(mnemon().args(["recall", "--db"]).arg(&db.path).args(arguments));
    let text = recall(&["--namespace", "friends/ines-tom", "-k", "3", "the canal boat"]);
    assert_eq!((text.code, text.stdout.lines().count()), (0, 4), "{}", text.stderr);
    assert!(text.stdout.lines().last().unwrap().starts_with("answerability 0."), "{}", text.stdout);
    assert!(text.stdout.to_lowercase().contains("boat"), "{}", text.stdout);

    let answer =
        json(&recall(&["--format", "json", "--namespace", "friends/ines-tom", "-k", "2", "the canal boat"]).stdout);
    let hit = &answer["hits"][0];
    let mut names: Vec<&str> = hit.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let wanted =
        ["content", "created_at", "id", "name", "parts", "passage", "rank", "role", "score", "session", "similarity"];
    assert_eq!(names, wanted);
    assert_eq!((&answer["query_id"], &answer["namespace"]), (&Value::Null, &json!("friends/ines-tom")));
    assert!(answer["latency_us"].as_u64().unwrap() > 0);
    assert!((0.0..=1.0).contains(&answer["answerability"].as_f64().unwrap()));

    let filtered = json(
        &recall(&[
            "--format",
            "json",
            "--namespace",
            "friends/ines-tom",
            "--session",
            "s2",
            "--role",
            "user",
            "--since",
            "2024-01-01",
            "--until",
            "2024-12-31T00:00:00Z",
            "-k",
            "50",
            "the boat",
        ])
        .stdout,
    );
    let hits = filtered["hits"].as_array().unwrap();
    assert!(!hits.is_empty() && hits.iter().all(|hit| hit["session"] == "s2" && hit["role"] == "user"));

    let questions = fs::read_to_string(sample("queries.jsonl")).unwrap();
    let answers =
        run(mnemon().args(["recall", "--db"]).arg(&db.path).args(["--queries", "-"]).write_stdin(questions.clone()));
    assert_eq!(answers.stdout.lines().count(), questions.lines().count());
    for (question, answer) in questions.lines().zip(answers.stdout.lines()) {
        let (question, answer) = (json(question), json(answer));
        assert_eq!((&question["id"], &question["namespace"]), (&answer["query_id"], &answer["namespace"]));
        assert_eq!(answer["hits"].as_array().unwrap().len(), 10);
    }

    let stats = json(&run(mnemon().args(["--format", "json", "stats", "--db"]).arg(&db.path)).stdout);
    assert_eq!(stats["namespaces"].as_array().unwrap().len(), 3);
    assert_eq!(stats["generations"][0]["model"]["name"], "static-en-256");
    let verify = run(mnemon().args(["verify", "--db"]).arg(&db.path));
    assert!(verify.code == 0 && verify.stdout.ends_with("sound\n"));
}

#[test]
fn recall_does_as_its_options_say() {
    let db = Db::new();
    run(mnemon().args(["ingest", "--db"]).arg(&db.path).arg(sample("messages.jsonl")));
    let question = "What did Tom pay when he bought his narrowboat?";
    let recall = |arguments: &[&str]| {
        let common = ["recall", "--namespace", "friends/ines-tom", "-k", "5", question, "--db"];
        let output = run(mnemon().args(common).arg(&db.path).args(arguments));
        assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
        output.stdout
    };
    let hits = |arguments: &[&str]| json(&recall(&[&["--format", "json"], arguments].concat()))["hits"].clone();
    let ids = |arguments: &[&str]| -> Vec<String> {
        hits(arguments).as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
    };
    let plain = ids(&[]);
    for name in ["dense", "lexical", "rrf", "weighted:0.5"] {
        let other = hits(&["--strategy", name]);
        assert!(other[0]["parts"]["dense_rank"].as_u64() > Some(0) && other[0]["parts"]["dense"] == 0.0, "{other}");
    }
    assert!(hits(&[])[0]["parts"]["neighbor"].as_f64() > Some(0.0));
    for (without, part) in [("--no-neighbors", "neighbor"), ("--no-length-prior", "length")] {
        assert!(hits(&[without]).as_array().unwrap().iter().all(|hit| hit["parts"][part] == 0.0), "{without}");
    }
    let except = ids(&["--except", &plain[..2].join(",")]);
    assert!(except.len() == 5 && plain[..2].iter().all(|id| !except.contains(id)), "{except:?}");
    // The first of the other hits has its old place, the second.
    let previous = ids(&["--previous", &format!("nothing,{}", plain[2])]);
    assert_eq!((&previous[0], &previous[1]), (&plain[0], &plain[2]));
    let aged = hits(&["--half-life", "30d", "--now", "2024-03-01"]);
    assert!(aged.as_array().unwrap().iter().all(|hit| hit["parts"]["recency"].as_f64() > Some(0.0)), "{aged}");
    let february = |how: &str| {
        let common = ["--format", "json", "recall", "--namespace", "friends/ines-tom", "What broke in February 2024?"];
        json(&run(mnemon().args(common).args(["--time", how, "--db"]).arg(&db.path)).stdout)["hits"].clone()
    };
    let boosted = |hits: &Value| hits.as_array().unwrap().iter().filter(|hit| hit["parts"]["time"] != 0.0).count();
    assert!(boosted(&february("ignore")) == 0 && boosted(&february("boost")) > 0);
    let only = february("filter");
    let of_february = |hit: &Value| hit["created_at"].as_str().unwrap().starts_with("2024-02");
    assert!(boosted(&only) > 0 && only.as_array().unwrap().iter().all(of_february), "{only}");
    for more in [&["--per-batch", "1"][..], &["--diversity", "0.5"], &["--keep-duplicates"]] {
        assert!(!ids(more).is_empty(), "{more:?}");
    }
    assert_eq!(ids(&["--per-batch", "1"]).len(), 5, "what was not put by a session is no batch");
    assert_eq!(ids(&["--diversity", "1"])[0], plain[0]);

    let explained = recall(&["--explain", "--half-life", "30d"]);
    for part in
        ["cosine 0.", "BM25 ", "coverage 0.", "dense +", "lexical +", "neighbor +", " of ft-s", "length ", "(rank 1)"]
    {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let refused = recall(&["--answerable", "1"]);
    let lines: Vec<&str> = refused.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "nothing found in friends/ines-tom"));
    assert!(lines[1].starts_with("answerability 0.") && lines[1].ends_with(", at least 1 asked for"), "{refused}");
}

/// By the graph of the tests' own, whose score is the share of the question's words that a passage has.
#[test]
fn recall_reranks() {
    let db = Db::new();
    let texts = ["red dog", "red dog sleeps", "the river sings", "a green tree"];
    let lines: Vec<String> =
        texts.iter().map(|text| format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n")).collect();
    ingest(&db, &["--namespace", "a"], &lines.concat());
    let encoder = rerank::folder(&rerank::graph("overlap"), "none");
    let recall = |arguments: &[&str]| {
        let common = ["recall", "--namespace", "a", "tree green tree", "--explain", "--rerank"];
        run(mnemon().args(common).arg(encoder.path()).args(arguments).arg("--db").arg(&db.path))
    };
    let output = recall(&[]);
    assert!(output.code == 0 && output.stdout.contains("user: a green tree"), "{}", output.stderr);
    assert_eq!(output.stdout.matches("reranked ").count(), 4, "{}", output.stdout);
    assert_eq!(recall(&["-k", "1", "--rerank-depth", "2"]).stdout.matches("reranked ").count(), 1);
    let missing = run(mnemon().args(["recall", "--namespace", "a", "x", "--rerank", "nowhere", "--db"]).arg(&db.path));
    assert!(missing.code == 1 && missing.stderr.contains("nowhere"), "{}", missing.stderr);
}

#[test]
fn a_language_is_said_when_messages_come_in() {
    let line = r#"{"role":"user","content":"Wir haben zwei alte Häuser gekauft."}"#;
    for (language, finds) in [("german", true), ("english", false)] {
        let db = Db::new();
        let output = ingest(&db, &["--namespace", "a", "--language", language], line);
        assert_eq!((output.code, &json(&output.stdout)["new"]), (0, &json!(1)), "{}", output.stderr);
        // It is kept.
        ingest(&db, &["--namespace", "a"], r#"{"role":"user","content":"Die Häuser sind trocken."}"#);
        let recall = ["--format", "json", "recall", "--namespace", "a", "Haus", "--db"];
        let hits = json(&run(mnemon().args(recall).arg(&db.path)).stdout)["hits"].clone();
        let found = hits.as_array().unwrap().iter().filter(|hit| hit["parts"]["bm25"].as_f64() > Some(0.0));
        assert_eq!(found.count(), if finds { 2 } else { 0 }, "{language}: {hits}");
        db.assert_sound();
    }
    let unknown = ingest(&Db::new(), &["--namespace", "a", "--language", "klingon"], line);
    assert!(unknown.code == 2 && unknown.stderr.contains("klingon"), "{}", unknown.stderr);
}

fn eval(arguments: &[&str]) -> Output {
    let sample = |name: &str| sample(name).to_str().unwrap().to_owned();
    let set = [sample("messages.jsonl"), sample("queries.jsonl")];
    run(mnemon().args(["eval", "--messages", &set[0], "--queries", &set[1]]).args(arguments))
}

fn assert_interval(interval: &Value) {
    let [low, mean, high] = ["low", "mean", "high"].map(|name| interval[name].as_f64().unwrap());
    assert!(low <= mean && mean <= high && low < high && high - low < 0.5, "{interval}");
}

#[test]
fn sets_and_variants_are_measured_side_by_side_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let message = |id: &str, text: &str| {
        format!(
            "{{\"id\":\"{id}\",\"namespace\":\"n\",\"session\":\"{id}\",\"role\":\"user\",\"content\":\"{text}\"}}\n"
        )
    };
    let query = |id: &str, text: &str| {
        format!("{{\"id\":\"{id}\",\"namespace\":\"n\",\"query\":\"{text}\",\"relevant\":[\"{id}\"]}}\n")
    };
    let [bees, glass] = ["My bees swarmed on Sunday.", "The glass kiln cracked."];
    fs::write(path("m.jsonl"), message("a", bees) + &message("b", glass)).unwrap();
    fs::write(path("q.jsonl"), query("a", "When did the bees swarm?") + &query("b", "What cracked?")).unwrap();
    let two = format!("two={},{}", path("m.jsonl"), path("q.jsonl"));
    let common =
        ["--set", &two, "--recall", "hybrid,dense,hybrid-neighbors", "--by-namespace", "--svg", &path("a.svg")];
    let output = eval(&[&common[..], &["--format", "json", "--answerability"]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let reports: Vec<Value> = output.stdout.lines().map(json).collect();
    let [sample, two] = reports.as_slice() else { panic!("{}", output.stdout) };
    assert_eq!((&sample["set"], &two["set"], &sample["questions"]), (&json!("sample"), &json!("two"), &json!(85)));
    assert_eq!((&sample["recall"], &sample["others"][1]["recall"]), (&json!("hybrid"), &json!("hybrid-neighbors")));
    for variant in [sample, &sample["others"][0]] {
        let scores = &variant["scores"]["all but adversarial"];
        assert_eq!(scores["questions"], 70);
        assert_eq!(scores["recall_at"]["10"], scores["intervals"]["recall_at_10"]["mean"]);
        for name in ["recall_at_5", "recall_at_10", "ndcg_at_10", "session_hit_at_1"] {
            assert_interval(&scores["intervals"][name]);
        }
        // The first session is the first hit's: no less often right than the message.
        assert!(scores["session_hit_at_1"].as_f64() >= scores["hit_at"]["1"].as_f64(), "{scores}");
        assert!(variant["latency_p50_us"].as_f64() > Some(0.0));
        assert_eq!(variant["by_namespace"]["namespaces"].as_object().unwrap().len(), 3);
        let namespaces = variant["by_namespace"]["namespaces"].as_object().unwrap().values();
        let mean = namespaces.map(|one| one["recall_at_10"].as_f64().unwrap()).sum::<f64>() / 3.0;
        assert!((variant["by_namespace"]["mean"]["recall_at_10"].as_f64().unwrap() - mean).abs() < 1e-9);
    }
    let mean = |variant: &Value| variant["scores"]["all but adversarial"]["recall_at"]["10"].as_f64().unwrap();
    let difference = &sample["others"][0]["difference"]["recall_at_10"];
    assert!((difference["mean"].as_f64().unwrap() - (mean(&sample["others"][0]) - mean(sample))).abs() < 1e-9);
    assert_interval(difference);
    assert_eq!(sample["difference"], Value::Null);

    let negatives = sample["answerability"]["negatives"].as_object().unwrap();
    let counts: Vec<_> = negatives.iter().map(|(kind, one)| (kind.as_str(), one["questions"].as_u64())).collect();
    assert_eq!(counts, [("adversarial", Some(15)), ("other namespace", Some(70)), ("other sets", Some(2))]);
    assert!(negatives["other namespace"]["auc"].as_f64() > Some(0.6), "{negatives:?}");
    let thresholds = sample["answerability"]["thresholds"].as_array().unwrap();
    assert_eq!(thresholds.len(), 9);
    for pair in thresholds.windows(2) {
        let refused = |threshold: &Value| threshold["refused"]["other namespace"].as_f64();
        assert!(pair[0]["answered"].as_f64() >= pair[1]["answered"].as_f64() && refused(&pair[0]) <= refused(&pair[1]));
    }
    assert_eq!(sample["answerability"]["calibration"].as_array().unwrap().len(), 10);
    // One namespace: its questions have nowhere else to be asked.
    assert_eq!(two["answerability"]["negatives"].as_object().unwrap().keys().collect::<Vec<_>>(), ["other sets"]);
    assert_eq!(two["scores"]["no category"]["recall_at"]["1"], 1.0);

    let svg = fs::read_to_string(path("a.svg")).unwrap();
    assert_eq!(svg.matches("static-en-256").count(), 2, "{svg}");
    assert_eq!(svg.matches("#0072b2").count(), 3, "two bars and the legend: {svg}");
    assert!(svg.contains("hybrid-neighbors") && !svg.contains("NaN"));
    let mut reader = quick_xml::Reader::from_str(&svg);
    while reader.read_event().unwrap_or_else(|error| panic!("{error}: {svg}")) != quick_xml::events::Event::Eof {}
}

#[test]
fn conversations_are_replayed() {
    let replay = |arguments: &[&str]| eval(&[&["--replay"], arguments].concat());
    let output = replay(&["--format", "json"]);
    let report = json(&output.stdout);
    let replayed = &report["replay"];
    let figure = |how: &str, name: &str| replayed[how][name].as_f64().unwrap();
    assert_eq!(replayed["sessions"], 27);
    assert!(replayed["turns"].as_u64() > Some(200), "{replayed}");
    for name in ["same_places", "prefix_hits", "prefix_bytes"] {
        assert!(figure("previous", name) > figure("plain", name), "{name}: {replayed}");
    }
    assert!(figure("previous", "score") <= figure("plain", "score"), "{replayed}");
    assert!((0.5..1.0).contains(&replayed["overlap"].as_f64().unwrap()), "{replayed}");
    assert_eq!(replayed["rephrased"]["questions"], 70);
    // Asked twice, the same is found.
    let again = json(&eval(&["--format", "json", "--answerability"]).stdout);
    assert_eq!(again["scores"], report["scores"]);

    let text = eval(&["--answerability", "--categories", "-k", "3"]).stdout;
    for part in ["sample: model static-en-256", "all but adversarial", "session hit@1", "R@3", "single-hop", "AUC"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains(" [0."), "{text}");
}

/// A model folder that is changed under its name is another model; and what it must share with the old one, if it must.
#[test]
fn a_model_that_was_changed_on_disk_is_moved_to() {
    let db = Db::new();
    let folder = db.folder.path().join("models/own");
    fs::create_dir_all(&folder).unwrap();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/static-en-256");
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
    assert!(json(&strict.stdout)["gate"]["failed"].as_str().unwrap().contains("not at hand"));
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
    assert!(moved.code == 0 && moved.stdout.contains("1 messages embedded"), "{}{}", moved.stdout, moved.stderr);
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
fn ingesting_again_doubles_nothing_with_or_without_ids() {
    let db = Db::new();
    let lines = r#"{"role":"user","content":"one"}
{"role":"user","content":"one"}

{"role":"user","content":"two","id":"2"}
"#;
    let first = json(&ingest(&db, &["--namespace", "a"], lines).stdout);
    assert_eq!((&first["new"], &first["unchanged"]), (&json!(3), &json!(0)), "two alike are two");
    let again = json(&ingest(&db, &["--namespace", "a"], lines).stdout);
    assert_eq!((&again["new"], &again["unchanged"]), (&json!(0), &json!(3)));
    // The override is a namespace of its own, also for lines that name another.
    let other = ingest(&db, &["--namespace", "b"], r#"{"role":"user","content":"x","namespace":"a"}"#);
    assert_eq!(json(&other.stdout)["new"], 1);
    let stats = mnemon::stats(&db.path).unwrap();
    let counts: Vec<_> = stats.namespaces.iter().map(|space| (space.namespace.as_str(), space.messages)).collect();
    assert_eq!(counts, [("a", 3), ("b", 1)]);
}

#[test]
fn a_bad_line_stops_and_says_how_to_go_on() {
    let good = |i: usize| format!("{{\"role\":\"user\",\"content\":\"line {i}\",\"id\":\"{i}\"}}\n");
    let lines: String = (1..=700).map(good).collect::<String>() + "{\"role\":\"user\"}\n" + &good(702);
    let db = Db::new();
    let stopped = ingest(&db, &["--namespace", "a"], &lines);
    assert_eq!(stopped.code, 1);
    for part in ["-:701", "missing field `content`", "all lines before it are stored", "--skip-bad"] {
        assert!(stopped.stderr.contains(part), "{}", stopped.stderr);
    }
    let report = db.assert_sound();
    assert_eq!((report.messages, report.pending), (700, 0));
    let skipped = ingest(&db, &["--namespace", "a", "--skip-bad"], &lines);
    assert_eq!(skipped.code, 0);
    assert!(skipped.stderr.contains("skipped -:701"), "{}", skipped.stderr);
    let report = json(&skipped.stdout);
    assert_eq!((&report["new"], &report["unchanged"], &report["skipped"]), (&json!(1), &json!(700), &json!(1)));
    // Bytes that are no text are a bad line as well.
    let output = run(mnemon()
        .args(["ingest", "--namespace", "a", "--db"])
        .arg(&db.path)
        .arg("-")
        .write_stdin(&b"\xff\xfe\n"[..]));
    assert!(output.code == 1 && output.stderr.contains("-:1: not UTF-8"), "{}", output.stderr);
}

#[test]
fn errors_name_the_remedy_and_exit_with_1() {
    let db = Db::new();
    let missing = run(mnemon().args(["recall", "--namespace", "a", "hi", "--db"]).arg(&db.path));
    assert!(missing.code == 1 && missing.stderr.contains("mnemon ingest"), "{}", missing.stderr);
    let no_space = ingest(&db, &[], r#"{"role":"user","content":"x"}"#);
    assert!(no_space.code == 1 && no_space.stderr.contains("--namespace"), "{}", no_space.stderr);
    ingest(&db, &["--namespace", "a"], r#"{"role":"user","content":"x"}"#);
    let zero = run(mnemon().args(["recall", "--namespace", "a", "-k", "0", "hi", "--db"]).arg(&db.path));
    assert!(zero.code == 1 && zero.stderr.contains("k is 0"), "{}", zero.stderr);
    let model = run(mnemon().args(["reindex", "--model", "nothing", "--db"]).arg(&db.path));
    assert!(model.code == 1 && model.stderr.contains("make model-minilm"), "{}", model.stderr);
    // Wrong usage is 2.
    for arguments in [
        &["recall", "--db", "x", "--namespace", "a//b", "hi"][..],
        &["recall", "--db", "x", "--namespace", "a", "--since", "soon", "hi"],
        &["recall", "--db", "x", "--namespace", "a", "--role", "human", "hi"],
        &["recall", "--db", "x", "--namespace", "a", "--strategy", "best", "hi"],
        &["recall", "--db", "x", "--namespace", "a", "--half-life", "1mo", "hi"],
        &["recall", "--db", "x", "--namespace", "a", "--rerank-depth", "5", "hi"],
        &["recall", "--db", "x", "hi"],
        &["eval", "--messages", "x"],
        &["eval", "--set", "x"],
        &["eval", "--set", "x=a,b", "--recall", "dense-time"],
        &["ingest", "--db", "x"],
        &["ingest", "--db", "x", "--precision", "f16", "y"],
        &["reindex", "--db", "x", "--rollback", "--drop-previous"],
        &["reindex", "--db", "x", "--rollback", "--precision", "i8"],
        &["nonsense"],
    ] {
        assert_eq!(run(mnemon().args(arguments)).code, 2, "{arguments:?}");
    }
}

#[test]
fn every_command_has_help() {
    for command in ["ingest", "recall", "eval", "embed", "reindex", "stats", "verify", "bench"] {
        let output = run(mnemon().args([command, "--help"]));
        assert!(output.code == 0 && output.stdout.len() > 100, "{command}");
    }
    let help = run(mnemon().arg("--help")).stdout;
    assert!(help.contains("Exit status") && help.contains("ORT_DYLIB_PATH"), "{help}");
}

#[test]
fn the_harness_prints_json() {
    for what in ["flush", "recall"] {
        let output =
            run(mnemon().args(["bench", what, "--messages"]).arg(sample("messages.jsonl")).args(if what == "recall" {
                vec!["--queries".into(), sample("queries.jsonl").into_os_string()]
            } else {
                vec![]
            }));
        let report = json(&output.stdout);
        assert_eq!((&report["bench"], &report["messages"]), (&json!(what), &json!(462)));
    }
}

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
fn vectors_that_cannot_be_measured_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |arguments: &[&str], says: &str| {
        let output = bench_ann(folder.path(), &[&["--index", "exact"], arguments].concat());
        assert!(output.code == 1 && output.stderr.contains(says), "{says}: {} {}", output.code, output.stderr);
    };
    let path = |name: &str| folder.path().join(name);
    fails(&[], "base.fvecs");
    texmex(folder.path());
    fails(&["--index", "best"], "not one of exact");
    fails(&["--ef", "0"], "--ef takes");
    fails(&["--threads", "0"], "--threads takes");
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
    let asked = json(&embed(&["--queries", questions.to_str().unwrap()]).stdout);
    let count = fs::read_to_string(&questions).unwrap().lines().count() as u64;
    assert_eq!((&asked["base"], asked["queries"].as_u64()), (&json!(462), Some(count)));

    let line = |text: &str| format!("{{\"role\":\"user\",\"namespace\":\"a\",\"content\":\"{text}\"}}\n");
    let lines = folder.path().join("lines.jsonl");
    fs::write(&lines, ["one", "two", "one", "three", "two"].map(line).concat()).unwrap();
    let few = |arguments: &[&str]| {
        let command = &mut mnemon();
        let command = command.args(["--format", "json", "embed", "--messages"]).arg(&lines).arg("--out").arg(&out);
        run(command.args(arguments))
    };
    let unique = json(&few(&["--unique", "--hold-out", "1"]).stdout);
    assert_eq!((&unique["base"], &unique["queries"], &unique["neighbors"]), (&json!(2), &json!(1), &json!(2)));
    let too_few = few(&[]);
    assert!(too_few.code == 1 && too_few.stderr.contains("--hold-out 1000"), "{}", too_few.stderr);
}
