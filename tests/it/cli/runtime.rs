//! The command without an ONNX Runtime, and `mnemon runtime`.

use std::{
    fs,
    io::{Cursor, Write},
    path::Path,
};

use assert_cmd::Command;
use mnemon::Message;
use serde_json::json;

use super::{Output, mnemon, run};
use crate::{
    embed::{folder, manifest},
    support::{
        Db,
        model_folders::{fixture, sha256},
        servers::{LlmServer, Reply},
    },
};

/// The command for a user with this home and nothing else, in this working folder.
fn bare(home: &Path, folder: &Path) -> Command {
    let mut command = mnemon();
    for variable in ["ORT_DYLIB_PATH", "MNEMON_MODELS", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"] {
        command.env_remove(variable);
    }
    for variable in ["HOME", "XDG_DATA_HOME", "LOCALAPPDATA"] {
        command.env(variable, home);
    }
    command.current_dir(folder);
    command
}

#[test]
fn the_default_model_needs_no_onnx_runtime() {
    let db = Db::new();
    let file = db.folder.path().join("messages.jsonl");
    fs::write(&file, serde_json::to_string(&Message::user("I moved my rowing lesson to Thursday.")).unwrap()).unwrap();
    let command = |arguments: &[&str]| {
        let mut command = bare(db.folder.path(), db.folder.path());
        command.env("ORT_DYLIB_PATH", "/nowhere/libonnxruntime.so").args(arguments).args(["--namespace", "a", "--db"]);
        command.arg(&db.path);
        command
    };
    let ingested = run(command(&["ingest"]).arg(&file));
    assert_eq!(ingested.code, 0, "{}", ingested.stderr);
    let recalled = run(command(&["recall"]).arg("When does she row?"));
    assert!(recalled.code == 0 && recalled.stdout.contains("rowing lesson"), "{}", recalled.stderr);
    db.assert_sound();
}

#[test]
fn a_missing_onnx_runtime_is_an_error_with_the_remedy() {
    let home = tempfile::tempdir().unwrap();
    let model = folder(&fixture("table"), &manifest(&[]));
    let nowhere = home.path().join("nowhere.so");
    let broken = home.path().join("libonnxruntime.so");
    fs::write(&broken, "not a library").unwrap();
    for runtime in [&nowhere, &broken] {
        let mut command = bare(home.path(), home.path());
        let output = run(command.env("ORT_DYLIB_PATH", runtime).args(["models", "bench"]).arg(model.path()));
        assert_eq!(output.code, 1, "{}", output.stderr);
        for part in [runtime.to_str().unwrap(), "ORT_DYLIB_PATH", "`mnemon runtime pull`", "pip install onnxruntime"] {
            assert!(output.stderr.contains(part), "{}", output.stderr);
        }
    }
}

/// A folder that somebody else may have written must not decide which native code runs.
#[test]
fn the_working_folder_is_not_searched_for_native_code() {
    let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let name = format!("{}onnxruntime{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    for place in ["", ".runtime", "runtime"] {
        fs::create_dir_all(folder.path().join(place)).unwrap();
        fs::write(folder.path().join(place).join(&name), "not a library").unwrap();
    }
    // A relative home depends on the working folder.
    for relative in [false, true] {
        let mut command = bare(home.path(), folder.path());
        if relative {
            command.envs([("XDG_DATA_HOME", "."), ("HOME", "."), ("LOCALAPPDATA", ".")]);
        }
        // It fails, unless this machine has an ONNX Runtime of its own.
        let output = run(command.args(["runtime", "info"]));
        let text = output.stdout + &output.stderr;
        for part in [folder.path().to_str().unwrap(), "invalid ELF header", ".runtime"] {
            assert!(!text.contains(part), "{part}: {text}");
        }
        assert!(output.code == 0 || text.contains("beside the executable"), "{text}");
    }
}

/// An index whose wheels for this machine contain this library.
fn index(library: &'static [u8], change: fn(&mut serde_json::Value)) -> LlmServer {
    let mut wheel = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let files: [(&str, &[u8]); 5] = [
        ("onnxruntime/__init__.py", b"import os"),
        ("onnxruntime/LICENSE", b"MIT"),
        ("onnxruntime/capi/onnxruntime_pybind11_state.so", b"python"),
        ("onnxruntime/capi/../../libonnxruntime.so.1.31.1", b"escaped"),
        (LIBRARY, library),
    ];
    for (name, bytes) in files {
        wheel.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        wheel.write_all(bytes).unwrap();
    }
    let wheel = wheel.finish().unwrap().into_inner();
    LlmServer::new(move |request| match request.path.as_str() {
        "/v1/onnxruntime/" => {
            let file = |tags: &str| {
                let name = format!("onnxruntime-1.31.1-{tags}.whl");
                json!({"filename": name, "url": format!("../../files/{name}"), "size": wheel.len(), "hashes": {"sha256": sha256(&wheel)}})
            };
            let platforms = ["manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_14_0_arm64", "win_amd64"];
            let files: Vec<_> = platforms.iter().map(|platform| file(&format!("cp312-cp312-{platform}"))).collect();
            let mut page = json!({"meta": {"api-version": "1.1"}, "name": "onnxruntime", "files": files});
            page["files"].as_array_mut().unwrap().iter_mut().for_each(change);
            Reply::json(200, page)
        }
        path if path.starts_with("/files/onnxruntime-1.31.1-cp312-cp312-") => Reply::new(200, &wheel[..]),
        _ => Reply::new(404, "Not Found"),
    })
}

const LIBRARY: &str = if cfg!(windows) {
    "onnxruntime/capi/onnxruntime.dll"
} else if cfg!(target_os = "macos") {
    "onnxruntime/capi/libonnxruntime.1.31.1.dylib"
} else {
    "onnxruntime/capi/libonnxruntime.so.1.31.1"
};

fn pull(home: &Path, server: &LlmServer, arguments: &[&str]) -> Output {
    let mut command = bare(home, home);
    run(command.env("PIP_INDEX_URL", server.base_url()).args(["runtime", "pull"]).args(arguments))
}

#[test]
fn onnx_runtime_is_pulled_into_the_users_data_folder_and_found_there() {
    let home = tempfile::tempdir().unwrap();
    let server = index(b"not a library", |_| {});
    let output = pull(home.path(), &server, &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let folder = home.path().join("mnemon/runtime");
    let library = folder.join(Path::new(LIBRARY).file_name().unwrap());
    assert_eq!(output.stdout.trim(), library.to_str().unwrap());
    assert_eq!(fs::read(&library).unwrap(), b"not a library");
    assert_eq!(fs::read(folder.join("LICENSE")).unwrap(), b"MIT");
    assert_eq!(folder.read_dir().unwrap().count(), 2, "nothing but the library and its licence");
    // Again: it is there, and nobody is asked.
    let asked = server.requests().len();
    let again = pull(home.path(), &server, &[]);
    assert_eq!((again.code, again.stdout, server.requests().len()), (0, output.stdout, asked));
    // A model would load it.
    let found = run(bare(home.path(), home.path()).args(["runtime", "info"]));
    let text = found.stdout + &found.stderr;
    assert!(text.contains(library.to_str().unwrap()) || found.code == 0, "{text}");
    // Elsewhere.
    let other = tempfile::tempdir().unwrap();
    let output = pull(home.path(), &server, &["--to", other.path().to_str().unwrap()]);
    assert!(output.code == 0 && other.path().join(library.file_name().unwrap()).is_file(), "{}", output.stderr);
}

#[test]
fn a_library_that_is_not_what_the_index_states_is_refused() {
    type Change = fn(&mut serde_json::Value);
    let rows: [(Change, &str); 5] = [
        (|file| file["hashes"]["sha256"] = "00".repeat(32).into(), "has the wrong contents"),
        (|file| file["size"] = 100.into(), "sends more than the expected 100 bytes"),
        (|file| file["hashes"] = json!({}), "does not state the size and the SHA-256"),
        (|file| drop(file.as_object_mut().unwrap().remove("size")), "does not state the size and the SHA-256"),
        (
            |file| file["filename"] = "onnxruntime-1.20.0-cp312-cp312-win_amd64.whl".into(),
            "has no onnxruntime 1.31.1 for",
        ),
    ];
    for (change, reason) in rows {
        let home = tempfile::tempdir().unwrap();
        let output = pull(home.path(), &index(b"a library", change), &[]);
        for part in [reason, "ONNX Runtime was not downloaded", "pip install onnxruntime", "ORT_DYLIB_PATH"] {
            assert!(output.code == 1 && output.stderr.contains(part), "{part}: {}", output.stderr);
        }
        assert!(!home.path().join("mnemon/runtime").join(Path::new(LIBRARY).file_name().unwrap()).exists());
    }
    let silent = LlmServer::new(|_| Reply::new(404, "Not Found"));
    let output = pull(tempfile::tempdir().unwrap().path(), &silent, &[]);
    assert!(output.code == 1 && output.stderr.contains("answered 404"), "{}", output.stderr);
}
