//! Finding and loading ONNX Runtime, once a process.
//!
//! `ort` panics when it has to look for the library itself, so it never does: [`load`] always comes first and hands it
//! one path after the other.

use std::{
    env,
    path::{Path, PathBuf},
};

use ort::{LoadDynamicError, MINOR_VERSION, environment::Environment};
use parking_lot::Mutex;

use crate::error::{Error, Result};

/// Names the library file, or a folder with it.
const RUNTIME_ENV: &str = "ORT_DYLIB_PATH";

static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

/// The process's ONNX Runtime, loaded on the first call. Looked for in `configured`, `$ORT_DYLIB_PATH`, where
/// `make runtime` puts it, beside the executable, and by the system's loader.
///
/// A path that is given, by the caller or the environment, is the only one tried: a wrong one is an error, not a
/// reason to take another.
pub(super) fn load(configured: Option<&Path>) -> Result<Environment> {
    let mut environment = ENVIRONMENT.lock();
    if let Some(environment) = environment.as_ref() {
        return Ok(environment.clone());
    }
    let mut looked = Vec::new();
    for (origin, place) in places(configured) {
        let found = library_in(&place);
        if found.is_empty() {
            looked.push(format!("{} ({origin}): no such file", place.display()));
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

/// Why a library is not taken.
fn refusal(error: LoadDynamicError) -> String {
    match error {
        LoadDynamicError::BadVersion { version_str, .. } => {
            format!("it is version {version_str}, and 1.{MINOR_VERSION} or newer is needed")
        }
        error => error.to_string(),
    }
}

fn places(configured: Option<&Path>) -> Vec<(&'static str, PathBuf)> {
    if let Some(path) = configured {
        return vec![("configured", absolute(path))];
    }
    if let Some(path) = env::var_os(RUNTIME_ENV).filter(|path| !path.is_empty()) {
        return vec![(RUNTIME_ENV, absolute(Path::new(&path)))];
    }
    let mut places = vec![("make runtime", Path::new(env!("CARGO_MANIFEST_DIR")).join(".runtime"))];
    if let Some(folder) = env::current_exe().ok().as_deref().and_then(Path::parent) {
        places.push(("beside the executable", folder.to_path_buf()));
    }
    let system = format!("{}onnxruntime{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    places.push(("system loader", PathBuf::from(system)));
    places
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// The libraries at a place: the file itself, or those in the folder whose names fit, such as
/// `libonnxruntime.so.1.31.1`. A bare file name is the system loader's to find.
fn library_in(place: &Path) -> Vec<PathBuf> {
    if place.is_file() || place.components().count() == 1 {
        return vec![place.to_path_buf()];
    }
    let Ok(entries) = place.read_dir() else { return Vec::new() };
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
