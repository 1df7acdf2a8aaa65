//! `mnemon eval` on published layouts, described layouts and run files.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Output, json as parsed, mnemon, run};
use crate::support::sample;

/// A folder with made files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = PathBuf::from(self.path(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        self.path(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

fn eval(arguments: &[&str]) -> Output {
    run(mnemon().arg("eval").args(arguments))
}

fn report(arguments: &[&str]) -> Value {
    let output = eval(&[arguments, &["--format", "json"]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    parsed(&output.stdout)
}

fn fails(arguments: &[&str], code: i32, parts: &[&str]) {
    let output = eval(arguments);
    assert_eq!(output.code, code, "{}", output.stderr);
    for part in parts {
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
}

fn locomo() -> Value {
    let turn = |speaker: &str, id: &str, text: &str| json!({"speaker": speaker, "dia_id": id, "text": text});
    json!([{
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann", "speaker_b": "Bo",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [turn("Ann", "D1:1", "My bees swarmed on Sunday."), turn("Bo", "D1:2", "Did you catch them?")],
            "session_2_date_time": "10:00 am on 9 May, 2023",
            "session_2": [
                {"speaker": "Bo", "dia_id": "D2:1", "text": "Look!", "img_url": ["x"], "blip_caption": "a cracked glass kiln"},
                turn("Ann", "D2:2", "Oh no."),
            ],
        },
        "qa": [
            {"question": "When did the bees swarm?", "answer": "Sunday", "evidence": ["D1:1"], "category": 2},
            {"question": "What happened to the kiln?", "answer": "It cracked.", "evidence": ["D:2:1; D9:9"], "category": 4},
            {"question": "Who danced?", "adversarial_answer": "Bo", "evidence": [], "category": 5},
        ],
    }])
}

#[test]
fn locomo_is_read_as_it_is_published() {
    let folder = Folder::new();
    let file = folder.write("locomo10.json", &locomo().to_string());
    let report = report(&["--locomo", &file, "--quiet", "-k", "1"]);
    assert_eq!((&report["set"], &report["messages"], &report["questions"]), (&json!("locomo10"), &json!(4), &json!(3)));
    assert_eq!((&report["unlabelled"], &report["scores"]["single-hop"]["recall_at"]["1"]), (&json!(1), &json!(1.0)));
    assert_eq!(report["scores"]["temporal"]["recall_at"]["1"], 1.0);

    let text = eval(&["--locomo", &file]);
    assert!(
        text.stderr.contains("ignored 1 piece of evidence without a message: \"D9:9\" of conv-1/q1"),
        "{}",
        text.stderr
    );
    assert!(text.stderr.contains("1 piece of evidence read as ids"), "{}", text.stderr);
    assert!(text.stdout.contains("  nDCG@10: sum of grade / log2(rank + 1)"), "{}", text.stdout);

    for (bad, parts) in [
        ("[{\"sample_id\": 1}]".to_owned(), &["bad.json", "line 1"][..]),
        (
            locomo().to_string().replace("1:56 pm", "1356"),
            &["bad.json: sample \"conv-1\"", "session_1_date_time", "1356"],
        ),
        (locomo().to_string().replace("D2:2", "D2:1"), &["two turns have the dia_id \"D2:1\""]),
        (locomo().to_string().replace("\"category\":5", "\"category\":6"), &["qa 2: category 6 is not one of 1 to 5"]),
    ] {
        fails(&["--locomo", &folder.write("bad.json", &bad)], 1, parts);
    }
}

#[test]
fn longmemeval_has_figures_of_its_own() {
    let folder = Folder::new();
    let entry = |id: &str, question: &str| {
        json!({
            "question_id": id, "question_type": "single-session-user", "question": question, "answer": "x",
            "question_date": "2023/05/30 (Tue) 23:40",
            "haystack_session_ids": ["s_1", "answer_2"],
            "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:21"],
            "haystack_sessions": [
                [{"role": "user", "content": "The glass kiln cracked."}, {"role": "assistant", "content": "I am sorry."}],
                [{"role": "user", "content": "My bees swarmed.", "has_answer": true}, {"role": "assistant", "content": "Bees do that."}],
            ],
            "answer_session_ids": ["answer_2"],
        })
    };
    let entries = json!([entry("q1", "What did the bees do?"), entry("q2_abs", "What did the wasps do?")]);
    let file = folder.write("longmemeval_s.json", &entries.to_string());
    let report = report(&["--longmemeval", &file, "--recall", "hybrid,lexical"]);
    assert_eq!((&report["messages"], &report["unlabelled"]), (&json!(8), &json!(1)));
    for variant in [&report, &report["others"][0]] {
        let own = &variant["longmemeval"];
        for level in ["turn", "session"] {
            for group in ["single-session-user", "all"] {
                let figures = &own[level][group];
                assert_eq!(figures["questions"], 1);
                for name in ["recall_any", "recall_all", "ndcg_any"] {
                    assert_eq!(figures[name], json!({"5": 1.0, "10": 1.0, "30": 1.0, "50": 1.0}), "{name}");
                }
            }
        }
        assert_eq!(
            (&own["abstention"]["questions"], &own["abstention"]["answerable_questions"]),
            (&json!(1), &json!(1))
        );
    }
    let text = eval(&["--longmemeval", &file]).stdout;
    for part in ["LongMemEval, turn level (hybrid)", "recall_all@50", "  ndcg_any@k: ", "abstention: 1 question,"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let bad = folder.write("bad.json", &entries.to_string().replace("2023/05/30 (Tue) 23:40", "tomorrow"));
    fails(&["--longmemeval", &bad], 1, &["bad.json: question \"q1\": question_date: the time \"tomorrow\""]);
}

#[test]
fn a_set_keeps_its_figures_in_beirs_layout_and_as_a_run() {
    let folder = Folder::new();
    folder.write("beir/corpus.jsonl", "{\"_id\":\"d1\",\"title\":\"Bees\",\"text\":\"They swarm.\"}\n{\"_id\":\"d2\",\"title\":\"\",\"text\":\"The kiln cracked.\"}\n");
    folder.write(
        "beir/queries.jsonl",
        "{\"_id\":\"q1\",\"text\":\"Do bees swarm?\"}\n{\"_id\":\"q2\",\"text\":\"unused\"}\n",
    );
    folder.write("beir/qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t1\n");
    let (beir, run) = (folder.path("beir"), folder.path("a.run"));
    let report_of_beir = report(&["--beir", &beir, "--run", &run]);
    let figures = &report_of_beir["beir"];
    assert_eq!(
        (&figures["queries"], &figures["ndcg_at_10"]["mean"], &figures["map"]["mean"]),
        (&json!(1), &json!(1.0), &json!(1.0))
    );
    assert_eq!(figures["recall_at_100"]["mean"], 1.0);
    let text = folder.read("a.run");
    assert!(text.starts_with("q1 Q0 d1 1 ") && text.lines().count() == 2 && text.ends_with(" mnemon\n"), "{text}");

    // The run of somebody else has the documents the other way round.
    let other = folder.write("b.run", "q1 Q0 d2 1 9.5 other\nq1 Q0 d1 2 1 other\n");
    let scored = report(&["--beir", &beir, "--score-run", &other]);
    // (1 + 2 / log2(3)) / (2 + 1 / log2(3))
    let wanted = (1.0 + 2.0 / 3f64.log2()) / (2.0 + 1.0 / 3f64.log2());
    assert!((scored["beir"]["ndcg_at_10"]["mean"].as_f64().unwrap() - wanted).abs() < 1e-9, "{scored}");
    assert_eq!(
        (&scored["recall"], &scored["model"], &scored["latency_p50_us"]),
        (&json!("other"), &Value::Null, &Value::Null)
    );
    let text = eval(&["--beir", &beir, "--score-run", &other]).stdout;
    assert!(
        text.contains("beir: the run other") && text.contains("BEIR, 1 query ") && text.contains("  MAP: "),
        "{text}"
    );
    fails(&["--beir", &beir, "--score-run", &folder.write("c.run", "q1 d1 1\n")], 1, &["c.run:1: it has 3 columns"]);
    folder.write("beir/qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\tgood\n");
    fails(&["--beir", &beir], 1, &["test.tsv:2: the score \"good\" is not a whole number"]);
    fails(&["--beir", &folder.path("nowhere")], 1, &["corpus.jsonl"]);
}

#[test]
fn the_run_of_a_set_scores_as_its_recall() {
    let folder = Folder::new();
    let [messages, queries] = ["messages.jsonl", "queries.jsonl"].map(|name| sample(name).to_str().unwrap().to_owned());
    let (path, out) = (folder.path("a.run"), folder.path("out"));
    let set = ["--messages", &messages, "--queries", &queries];
    let recalled = report(&[&set[..], &["--run", &path]].concat());
    let scored = report(&[&set[..], &["--score-run", &path]].concat());
    assert_eq!(recalled["scores"], scored["scores"]);

    assert_eq!(eval(&[&set[..], &["--beir-out", &out]].concat()).code, 0);
    assert_eq!(folder.read("out/corpus.jsonl").lines().count(), 462);
    let judgments = folder.read("out/qrels/test.tsv");
    assert!(judgments.starts_with("query-id\tcorpus-id\tscore\n"), "{judgments}");
    // What was written is read again, and the run of the set is one of it.
    let beir = report(&["--beir", &out, "--score-run", &path]);
    assert_eq!(beir["scores"]["all"]["ndcg_at_10"], scored["scores"]["all"]["ndcg_at_10"]);
    assert_eq!(beir["beir"]["ndcg_at_10"]["mean"], scored["scores"]["all"]["ndcg_at_10"]);

    let two = format!("two={messages},{queries}");
    fails(&[&set[..], &["--set", &two, "--run", &path]].concat(), 2, &["--run takes one set, and there are 2"]);
    fails(&[&set[..], &["--run", &path, "--score-run", &path]].concat(), 2, &["cannot be used with"]);
}

#[test]
fn any_layout_is_read_by_a_description() {
    let folder = Folder::new();
    let layout = folder.write(
        "layout.toml",
        "[messages]\ntext = \"[].log[].said\"\nnamespace = \"[].who\"\n\n[questions]\ntext = \"[].ask[].q\"\nevidence = \"[].ask[].at\"\nnamespace = \"[].who\"\n",
    );
    let line = r#"{"who":"ann","log":[{"said":"My bees swarmed."},{"said":"The kiln cracked."}],"ask":[{"q":"What did the bees do?","at":1}]}"#;
    let data = folder.write("chats.jsonl", &format!("{line}\n"));
    let report = report(&["--layout", &layout, "--file", &data, "-k", "1"]);
    assert_eq!(
        (&report["set"], &report["messages"], &report["scores"]["all"]["recall_at"]["1"]),
        (&json!("chats"), &json!(2), &json!(1.0))
    );
    let bad = folder.write("bad.jsonl", &format!("{line}\n{}\n", r#"{"who":"bo","log":[{"said":{"x":1}}],"ask":[]}"#));
    fails(&["--layout", &layout, "--file", &bad], 1, &["bad.jsonl:2"]);
    fails(&["--layout", &layout], 2, &["--file"]);
    let wrong = folder.write("wrong.toml", "[messages]\ntext = 1\n");
    fails(&["--layout", &wrong, "--file", &data], 1, &["wrong.toml:2"]);
    fails(&["-k", "3"], 2, &["no set is given; give --messages and --queries"]);
    let help = eval(&["--help"]).stdout;
    assert!(help.contains("[questions]") && help.starts_with("Measure recall"), "{help}");
}
