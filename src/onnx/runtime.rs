//! Finding and loading ONNX Runtime, once in a process.
//!
//! `ort` panics if it has to find the library itself. So [`load`] is always called first, and gives it one path after
//! the other.
//!
//! A library is native code. It is loaded only from places that the user or the installer of the program chose: never
//! from the working folder, and never from a folder of the machine that the program was built on.

use std::{
    env,
    path::{Path, PathBuf},
};

use ort::{LoadDynamicError, MINOR_VERSION, environment::Environment};
use parking_lot::Mutex;

use crate::{
    error::{Error, Result},
    model_folders::data_folder,
};

/// The environment variable that names the library file, or a folder with it.
const RUNTIME_ENV: &str = "ORT_DYLIB_PATH";

/// The folder in the user's data folder.
const FOLDER: &str = "runtime";

/// True in a program that can load no library.
pub(crate) const IS_STATIC: bool = cfg!(all(target_env = "musl", target_feature = "crt-static"));

/// The loaded ONNX Runtime, and its library.
static LOADED: Mutex<Option<(Environment, PathBuf)>> = Mutex::new(None);

/// ONNX Runtime, the shared library that runs models with a graph. Models that are a table of tokens, such as the
/// bundled one, do not need it.
///
/// It is loaded once in a process, when the first model that needs it is opened. Version 1.24 or newer is searched for
/// in `$ORT_DYLIB_PATH`, a library file or a folder with one; in the executable's folder; in [`Runtime::folder`], where
/// `Runtime::pull` (feature `pull`) and `mnemon runtime pull` install it; and, except on Windows, by the system's
/// loader. If the variable is set, no other place is tried. The working folder is never searched. A program that is
/// linked statically with musl can load no library, and runs no models with a graph.
#[derive(Debug)]
pub enum Runtime {}

impl Runtime {
    /// Returns the folder that `Runtime::pull` installs into: `runtime` in the user's data folder, which is
    /// `$XDG_DATA_HOME/mnemon`, or else `~/.local/share/mnemon`, or `~/Library/Application Support/mnemon` on macOS; on
    /// Windows `%LOCALAPPDATA%\mnemon`. `None`: the environment names no home.
    pub fn folder() -> Option<PathBuf> {
        Some(data_folder()?.join(FOLDER))
    }

    /// Loads ONNX Runtime, if this process has not loaded it yet, and returns the path of its library.
    ///
    /// # Errors
    /// [`Error::RuntimeNotFound`].
    pub fn load() -> Result<PathBuf> {
        load_library(None).map(|(_, library)| library)
    }
}

/// Returns the process's ONNX Runtime; the first call loads it. If `configured` is given, no other path is tried.
pub(super) fn load(configured: Option<&Path>) -> Result<Environment> {
    load_library(configured).map(|(environment, _)| environment)
}

fn load_library(configured: Option<&Path>) -> Result<(Environment, PathBuf)> {
    let mut loaded = LOADED.lock();
    if let Some(loaded) = loaded.as_ref() {
        return Ok(loaded.clone());
    }
    let mut looked = Vec::new();
    if IS_STATIC {
        return Err(Error::RuntimeNotFound { looked });
    }
    for (origin, path) in candidates(configured) {
        let found = libraries_at(&path);
        if found.is_empty() {
            looked.push(format!("{} ({origin}): no such file", path.display()));
        }
        for library in found {
            match ort::init_from(&library).map_err(refusal).and_then(|builder| {
                builder.with_name("mnemon").with_telemetry(false).build().map_err(|error| error.to_string())
            }) {
                Ok(environment) => {
                    tracing::debug!(library = %library.display(), "loaded ONNX Runtime");
                    return Ok(loaded.insert((environment, library)).clone());
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
    let mut candidates = Vec::new();
    if let Some(folder) = env::current_exe().ok().as_deref().and_then(Path::parent) {
        candidates.push(("beside the executable", folder.to_path_buf()));
    }
    candidates.extend(Runtime::folder().map(|folder| ("installed by `mnemon runtime pull`", folder)));
    // On Windows, the system's loader searches the working folder too.
    if !cfg!(windows) {
        let system = format!("{}onnxruntime{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
        candidates.push(("system loader", PathBuf::from(system)));
    }
    candidates
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Returns the libraries at a path: the file itself, or the libraries in a folder, the newest first. A bare file name
/// is left to the system's loader.
fn libraries_at(path: &Path) -> Vec<PathBuf> {
    if path.is_file() || path.components().count() == 1 {
        return vec![path.to_path_buf()];
    }
    let entries = path.read_dir().into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let name = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let mut found: Vec<PathBuf> = entries.filter(|path| is_library(&name(path))).collect();
    found.sort_by(|a, b| b.cmp(a));
    found
}

/// Returns true for a file name of ONNX Runtime's library, such as `libonnxruntime.so.1.31.1`.
pub(crate) fn is_library(name: &str) -> bool {
    name.starts_with(&format!("{}onnxruntime.", env::consts::DLL_PREFIX)) && name.contains(env::consts::DLL_SUFFIX)
}
