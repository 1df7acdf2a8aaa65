//! Finding and loading ONNX Runtime, once in a process.
//!
//! `ort` panics if it has to find the library itself. So [`load`] is always called first, and gives it one path after the other.

use std::{
    env,
    path::{Path, PathBuf},
};

use ort::{LoadDynamicError, MINOR_VERSION, environment::Environment};
use parking_lot::Mutex;

use crate::error::{Error, Result};

/// The environment variable that names the library file, or a folder with it.
const RUNTIME_ENV: &str = "ORT_DYLIB_PATH";

static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

/// Returns the process's ONNX Runtime; the first call loads it. It is looked for in `configured`, in `$ORT_DYLIB_PATH`, in the folder
/// `.runtime` of a checkout (where `make runtime` puts it), beside the executable, and by the system's loader.
///
/// If the caller or the environment gives a path, no other path is tried: a wrong one is an error.
pub(super) fn load(configured: Option<&Path>) -> Result<Environment> {
    let mut environment = ENVIRONMENT.lock();
    if let Some(environment) = environment.as_ref() {
        return Ok(environment.clone());
    }
    let mut looked = Vec::new();
    for (origin, path) in candidates(configured) {
        let found = libraries_at(&path);
        if found.is_empty() {
            looked.push(format!("{} ({origin}): no such file", path.display()));
        }
        for library in found {
            match ort::init_from(&library).map_err(refusal).and_then(|builder| {
                builder.with_name("mnemon").with_telemetry(false).build().map_err(|error| error.to_string())
            }) {
                Ok(loaded) => {
                    tracing::debug!(library = %library.display(), "loaded ONNX Runtime");
                    return Ok(environment.insert(loaded).clone());
                }
                Err(error) => looked.push(format!("{} ({origin}): {error}", library.display())),
            }
        }
    }
    Err(Error::RuntimeNotFound { looked })
}

/// Returns the reason why a library cannot be used.
fn refusal(error: LoadDynamicError) -> String {
    match error {
        LoadDynamicError::BadVersion { version_str, .. } => {
            format!("version {version_str} is too old, 1.{MINOR_VERSION} or newer is needed")
        }
        error => error.to_string(),
    }
}

fn candidates(configured: Option<&Path>) -> Vec<(&'static str, PathBuf)> {
    if let Some(path) = configured {
        return vec![("configured", absolute(path))];
    }
    if let Some(path) = env::var_os(RUNTIME_ENV).filter(|path| !path.is_empty()) {
        return vec![(RUNTIME_ENV, absolute(Path::new(&path)))];
    }
    let mut candidates = vec![("make runtime", Path::new(env!("CARGO_MANIFEST_DIR")).join(".runtime"))];
    if let Some(folder) = env::current_exe().ok().as_deref().and_then(Path::parent) {
        candidates.push(("beside the executable", folder.to_path_buf()));
    }
    let system = format!("{}onnxruntime{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    candidates.push(("system loader", PathBuf::from(system)));
    candidates
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Returns the libraries at a path: the file itself, or the files of a folder with a matching name, such as `libonnxruntime.so.1.31.1`. A bare
/// file name is left to the system's loader.
fn libraries_at(path: &Path) -> Vec<PathBuf> {
    if path.is_file() || path.components().count() == 1 {
        return vec![path.to_path_buf()];
    }
    let Ok(entries) = path.read_dir() else { return Vec::new() };
    let prefix = format!("{}onnxruntime.", env::consts::DLL_PREFIX);
    let suffix = env::consts::DLL_SUFFIX;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with(&prefix) && name.contains(suffix)
        })
        .collect();
    found.sort();
    found
}
