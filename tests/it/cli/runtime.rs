//! The command without an ONNX Runtime.

use std::fs;

use mnemon::Message;

use crate::support::Db;

#[test]
fn a_missing_onnx_runtime_is_an_error_with_the_remedy() {
    let db = Db::new();
    let nowhere = db.folder.path().join("nowhere.so");
    let file = db.folder.path().join("messages.jsonl");
    fs::write(&file, serde_json::to_string(&Message::user("hi")).unwrap()).unwrap();
    let broken = db.folder.path().join("libonnxruntime.so");
    fs::write(&broken, "not a library").unwrap();
    for runtime in [&nowhere, &broken] {
        let output = assert_cmd::Command::cargo_bin("mnemon")
            .unwrap()
            .env("ORT_DYLIB_PATH", runtime)
            .args(["ingest", "--namespace", "a", "--db"])
            .args([&db.path, &file])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        for part in [runtime.to_str().unwrap(), "ORT_DYLIB_PATH", "make runtime", "pip install onnxruntime"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
