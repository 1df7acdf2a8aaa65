//! `mnemon models`.

use std::{fs, path::Path};

use serde_json::Value;

use super::{Output, json, mnemon, run};
use crate::support::{
    model_folders::{fixture, reranker_folder},
    tiny_models::{SHAPE, Tiny},
};

/// Runs `mnemon models` with a home of models and more variables of the environment.
pub(super) fn models(home: &Path, settings: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = mnemon();
    command.env("MNEMON_MODELS", home).envs(settings.iter().copied()).arg("models").args(arguments);
    run(&mut command)
}

#[test]
fn a_model_is_imported_listed_shown_verified_and_measured() {
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
    // A model that several of the searched folders have is listed where it is found.
    fs::create_dir_all(folder.path().join("models/tiny")).unwrap();
    for file in ["manifest.toml", "model.onnx", "tokenizer.json"] {
        fs::copy(home.join("tiny").join(file), folder.path().join("models/tiny").join(file)).unwrap();
    }
    let mut beside = mnemon();
    let beside = super::run(beside.current_dir(&folder).env("MNEMON_MODELS", &home).args(["models", "list"])).stdout;
    assert_eq!(beside.matches("tiny    ").count(), 1, "{beside}");
    assert_eq!(beside.matches("static-en-256    ").count(), 1, "{beside}");

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
    assert!(verified.stdout.ends_with("NOT SOUND: fetch, import or build the model again\n"), "{}", verified.stdout);
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

#[test]
fn rerankers_are_imported_like_models() {
    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| models(home.path(), &[], arguments);
    let made = reranker_folder(&fixture("overlap"), "none");
    let folder = home.path().join("judge");
    fs::create_dir(&folder).unwrap();
    for file in ["model.onnx", "tokenizer.json", "manifest.toml"] {
        fs::copy(made.path().join(file), folder.join(file)).unwrap();
    }
    let text = run(&["list"]).stdout;
    let line = text.lines().find(|line| line.contains("judge")).unwrap();
    assert!(line.ends_with("judge (reranker)") && !line.contains("NOT USABLE"), "{text}");
    let listed = run(&["--format", "json", "list"]).stdout;
    let listed = listed.lines().map(json).find(|line| line["kind"] == "reranker").expect("it is listed");
    assert_eq!(listed["path"], folder.to_str().unwrap());
    assert_eq!(json(&run(&["--format", "json", "info", "judge"]).stdout), listed);
    assert!(run(&["info", "judge"]).stdout.contains("kind             reranker\n"));

    let verified = run(&["verify", "judge"]);
    assert_eq!((verified.code, verified.stdout.as_str()), (0, "sound\n"), "{}", verified.stderr);
    fs::write(folder.join("tokenizer.json"), "{}").unwrap();
    let verified = run(&["verify", "judge"]);
    assert!(verified.code == 3 && verified.stdout.contains("tokenizer.json: sha256 is"), "{}", verified.stdout);
    fs::remove_file(folder.join("model.onnx")).unwrap();
    let verified = run(&["verify", folder.to_str().unwrap()]);
    assert!(verified.code == 3 && verified.stdout.contains("model.onnx is missing"), "{}", verified.stdout);
    assert!(run(&["list"]).stdout.contains("judge (reranker)"));
}

/// The same import again restores damaged files, as `verify` advises.
#[test]
fn a_damaged_model_is_imported_again() {
    let folder = tempfile::tempdir().unwrap();
    let (source, home) = (folder.path().join("source"), folder.path().join("home"));
    fs::create_dir(&source).unwrap();
    Tiny::new(SHAPE).write(&source, "mean_tokens");
    let run = |arguments: &[&str]| models(&home, &[], arguments);
    let import = ["import", source.to_str().unwrap(), "--name", "tiny"];
    assert_eq!(run(&import).code, 0);
    let file = |name: &str| home.join("tiny").join(name);
    let whole = ["model.onnx", "tokenizer.json"].map(|name| fs::read(file(name)).unwrap());
    let kept = fs::metadata(file("manifest.toml")).unwrap().modified().unwrap();

    fs::write(file("model.onnx"), &whole[0][..100]).unwrap();
    assert_eq!(run(&["verify", "tiny"]).code, 3);
    fs::remove_file(file("tokenizer.json")).unwrap();
    let again = run(&import);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(["model.onnx", "tokenizer.json"].map(|name| fs::read(file(name)).unwrap()), whole);
    assert_eq!((run(&["verify", "tiny"]).code, home.read_dir().unwrap().count()), (0, 1));
    assert_eq!(fs::metadata(file("manifest.toml")).unwrap().modified().unwrap(), kept);

    fs::write(file("manifest.toml"), "name = 1").unwrap();
    let failed = run(&import);
    assert!(failed.code == 1 && failed.stderr.contains("is not a valid model: manifest.toml"), "{}", failed.stderr);
    assert!(failed.stderr.contains("or delete this one first"), "{}", failed.stderr);
}

/// Whatever an earlier import left that was killed, and whoever imports the same at the same time.
#[test]
fn imports_at_the_same_time_leave_one_model() {
    let folder = tempfile::tempdir().unwrap();
    let (source, home) = (folder.path().join("source"), folder.path().join("home"));
    fs::create_dir(&source).unwrap();
    Tiny::new(SHAPE).write(&source, "mean_tokens");
    let import = ["import", source.to_str().unwrap(), "--name", "tiny"];
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| models(&home, &[], &import))).collect();
        for run in runs {
            let output = run.join().unwrap();
            assert_eq!(output.code, 0, "{}", output.stderr);
        }
    });
    assert_eq!((models(&home, &[], &["verify", "tiny"]).code, home.read_dir().unwrap().count()), (0, 1));
}

#[test]
#[cfg_attr(not(unix), ignore = "the system's error is known on Unix only")]
fn a_home_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    Tiny::new(SHAPE).write(&source, "mean_tokens");
    // A file where the folder of models should be: that stops a superuser too.
    let home = folder.path().join("home");
    fs::write(&home, "").unwrap();
    let failed = models(&home, &[], &["import", source.to_str().unwrap(), "--name", "tiny"]);
    let said = failed.stderr.trim();
    assert_eq!(failed.code, 1);
    assert!(said.contains(&format!("{}: the destination cannot be written: ", home.join("tiny").display())), "{said}");
    assert!(!said.contains("source") && said.matches("os error").count() == 1, "{said}");
}
