//! `mnemon models`, as a shell would call it.

use std::{fs, path::Path};

use assert_cmd::Command;
use serde_json::Value;

use super::tiny::{SHAPE, Tiny};

pub(super) struct Output {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// With this folder as the home of models, and settings.
pub(super) fn models(home: &Path, settings: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("mnemon").unwrap();
    command.env("MNEMON_MODELS", home).envs(settings.iter().copied()).arg("models").args(arguments);
    let output = command.output().unwrap();
    Output {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn import_list_info_verify_bench() {
    let folder = tempfile::tempdir().unwrap();
    let (source, home) = (folder.path().join("source"), folder.path().join("home"));
    fs::create_dir(&source).unwrap();
    Tiny::new(SHAPE).write(&source, "mean_tokens");
    let run = |arguments: &[&str]| models(&home, &[], arguments);

    let import =
        ["import", source.to_str().unwrap(), "--name", "tiny", "--query-prefix", "query : ", "--license", "MIT"];
    let imported = run(&import);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    for line in
        ["name             tiny", "licence          MIT", "query prefix     \"query : \"", "max tokens       80"]
    {
        assert!(imported.stdout.lines().any(|found| found == line), "{line}: {}", imported.stdout);
    }
    assert_eq!(run(&["info", "tiny"]).stdout, imported.stdout);
    let by_folder = json(&run(&["--format", "json", "info", home.join("tiny").to_str().unwrap()]).stdout);
    assert_eq!((&by_folder["name"], &by_folder["pooling"]), (&"tiny".into(), &"mean".into()));
    assert_eq!(by_folder["files"].as_array().unwrap().len(), 2);

    let listed = run(&["--format", "json", "list"]).stdout;
    let names: Vec<Value> = listed.lines().map(|line| json(line)["name"].clone()).collect();
    assert!(names.len() >= 2 && names[0] == "static-en-256" && names[1] == "tiny", "{listed}");
    let text = run(&["list"]).stdout;
    assert!(text.lines().nth(1).unwrap().starts_with("tiny    "), "{text}");

    for name in ["tiny", "static-en-256"] {
        let verified = run(&["verify", name]);
        assert_eq!((verified.code, verified.stdout.as_str()), (0, "sound\n"), "{}", verified.stderr);
    }
    let bench = run(&["--format", "json", "bench", "tiny", "--queries", "5", "--threads", "1"]);
    assert_eq!(bench.code, 0, "{}", bench.stderr);
    let bench = json(&bench.stdout);
    assert!(bench["texts_per_second"].as_f64() > Some(0.0) && bench["query_p99_us"].as_f64() > Some(0.0), "{bench}");
    assert_eq!((&bench["texts"], &bench["queries"]), (&1200.into(), &5.into()));

    // Two files that are not as they were.
    for file in ["model.onnx", "tokenizer.json"] {
        let path = home.join("tiny").join(file);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path, bytes).unwrap();
    }
    let verified = run(&["verify", "tiny"]);
    assert_eq!((verified.code, verified.stdout.lines().count()), (3, 3), "{}", verified.stdout);
    assert!(verified.stdout.ends_with("NOT SOUND: fetch, import or make it again\n"), "{}", verified.stdout);
    let problems = json(&run(&["--format", "json", "verify", "tiny"]).stdout)["problems"].clone();
    assert!(problems[0].as_str().unwrap().contains("model.onnx: sha256 is"), "{problems}");

    fs::write(home.join("tiny/manifest.toml"), "name = 1").unwrap();
    let verified = run(&["verify", "tiny"]);
    assert!(verified.code == 3 && verified.stdout.contains("manifest.toml"), "{}", verified.stdout);
    let text = run(&["list"]).stdout;
    assert!(text.lines().nth(1).unwrap().starts_with("NOT USABLE: "), "{text}");
    for arguments in [&["verify", "no-such-model"][..], &["info", "no-such-model"], &import[..]] {
        let failed = run(arguments);
        assert!(failed.code == 1 && failed.stderr.starts_with("mnemon: model"), "{arguments:?}: {}", failed.stderr);
    }
    let wrong = run(&["import", source.to_str().unwrap(), "--name", "x", "--pooling", "best"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("is not mean, cls, last_token or none"), "{}", wrong.stderr);
}

#[cfg(not(feature = "pull"))]
#[test]
fn what_is_left_out_says_so() {
    let home = tempfile::tempdir().unwrap();
    for arguments in [&["pull", "all-MiniLM-L6-v2"][..], &["list", "--catalogue"]] {
        let failed = models(home.path(), &[], arguments);
        assert!(failed.code == 1 && failed.stderr.contains("built without the feature `pull`"), "{}", failed.stderr);
    }
}
