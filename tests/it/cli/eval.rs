//! `mnemon eval`.

use std::fs;

use serde_json::Value;

use super::{Output, json, mnemon, run};
use crate::support::{root, sample};

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
fn all_sets_of_a_folder_are_measured_and_a_folder_without_any_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let evaluate = || run(mnemon().args(["--format", "json", "eval", "--folder"]).arg(folder.path()));
    assert_eq!(evaluate().code, 2);
    for name in ["b", "a"] {
        for kind in ["messages", "queries"] {
            fs::copy(sample(&format!("{kind}.jsonl")), path(&format!("{name}.{kind}.jsonl"))).unwrap();
        }
    }
    // Neither is a set.
    fs::write(path("notes.messages.txt"), "not JSON").unwrap();
    fs::write(path("a.messages.jsonl~"), "not JSON").unwrap();
    let output = evaluate();
    assert_eq!(output.code, 0, "{}", output.stderr);
    let names: Vec<Value> = output.stdout.lines().map(|line| json(line)["set"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
    fs::remove_file(path("b.queries.jsonl")).unwrap();
    let output = evaluate();
    assert!(output.code == 1 && output.stderr.contains("b.queries.jsonl"), "{}", output.stderr);
}

#[test]
fn an_unknown_variant_is_an_error_that_lists_all() {
    let output = eval(&["--recall", "foo"]);
    assert_eq!(output.code, 2);
    for variant in ["lexical", "rrf", "weighted:0.5", "hybrid-neighbors", "hybrid-prior", "hybrid-time"] {
        assert!(output.stderr.contains(variant), "{variant}: {}", output.stderr);
    }
}

/// The committed charts fit a page, and the one of `mnemon eval` is drawn from the committed results.
#[test]
fn committed_charts_are_legible_at_the_width_of_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let drawn = folder.path().join("recall.svg");
    let results = root("benches/results/recall.json");
    let output = run(mnemon().args(["eval", "--draw"]).arg(results).arg("--svg").arg(&drawn));
    assert_eq!(output.code, 0, "{}", output.stderr);
    let committed = root("benches/results");
    assert!(fs::read(drawn).unwrap() == fs::read(committed.join("recall.svg")).unwrap(), "draw recall.svg again");
    let files = committed.read_dir().unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "svg")) {
        let svg = fs::read_to_string(&file).unwrap();
        let width = svg.split_once(" width=\"").unwrap().1.split('"').next().unwrap();
        assert!(width.parse::<f64>().unwrap() <= 900.0, "{}: {width}", file.display());
    }
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

/// Measures the prompts of committed sets. `found` has, for 0, 2 and 5 general sentences before the question, the share of
/// the questions with evidence in the prompt.
fn measured_prompts(sets: &[&str]) -> Vec<(Value, [f64; 3])> {
    let set = |name: &&str| {
        let path = |kind: &str| root(&format!("datasets/{name}/{kind}.jsonl")).to_str().unwrap().to_owned();
        format!("{name}={},{}", path("messages"), path("queries"))
    };
    let sets: Vec<String> = sets.iter().map(set).collect();
    let arguments = sets.iter().flat_map(|set| ["--set", set.as_str()]);
    let output = run(mnemon().args(["--format", "json", "eval", "--prompt"]).args(arguments));
    assert_eq!(output.code, 0, "{}", output.stderr);
    let found = |report: &Value| -> [f64; 3] {
        std::array::from_fn(|at| report["prompts"][at]["found"]["mean"].as_f64().unwrap())
    };
    output.stdout.lines().map(json).map(|report| (report.clone(), found(&report))).collect()
}

#[test]
fn general_sentences_before_a_question_do_not_keep_its_evidence_out_of_the_prompt() {
    for (report, [alone, after_two, after_five]) in measured_prompts(&["long-answers", "sample"]) {
        let set = &report["set"];
        assert!(after_two >= 0.9 * alone && after_five >= 0.8 * alone, "{set}: {alone}, {after_two}, {after_five}");
    }
}

#[test]
fn the_right_one_of_alike_facts_is_in_the_prompt_and_corrections_come_first() {
    let measured = measured_prompts(&["alike-facts", "corrections"]);
    let [(alike, in_prompts), (corrections, _)] = &measured[..] else { panic!("{measured:?}") };
    assert_eq!(in_prompts[0], 1.0);
    let first = |report: &Value| report["scores"]["all"]["recall_at"]["1"].as_f64().unwrap();
    assert!(first(alike) >= 0.98 && first(corrections) >= 0.75, "{} and {}", first(alike), first(corrections));
}
