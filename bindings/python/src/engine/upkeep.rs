//! The whole file: exports, copies, and other models.

use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use pyo3::prelude::*;

use super::Engine;
use crate::{
    errors::of_file,
    reindex::{Progress, options},
    values::{FilePath, List, Pair, Real, Space, Text, count, number, switch, to_python},
};

/// A file that cannot be read or written any more once the flag is set: the call was ended by a signal.
struct Stoppable<F>(F, Arc<AtomicBool>);

impl<F> Stoppable<F> {
    fn check(&self) -> io::Result<()> {
        match self.1.load(SeqCst) {
            true => Err(io::Error::other("the call was interrupted")),
            false => Ok(()),
        }
    }
}

impl<F: Write> Write for Stoppable<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<F: Read> Read for Stoppable<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.check()?;
        self.0.read(bytes)
    }
}

#[pymethods]
impl Engine {
    /// Writes a namespace, or all of them, to a new file of JSON lines. Returns counts as a dict.
    #[pyo3(signature = (path, namespace = None))]
    fn export<'py>(&self, py: Python<'py>, path: FilePath, namespace: Option<Space>) -> PyResult<Bound<'py, PyAny>> {
        let path = path.0;
        let namespace = namespace.map(|namespace| namespace.0);
        let stop = Arc::<AtomicBool>::default();
        let file = File::create_new(&path).map_err(|error| of_file(py, &path, &error))?;
        let file = Stoppable(BufWriter::new(file), Arc::clone(&stop));
        let exported = self.shared.call(py, async |engine| {
            let (mut file, report) = match &namespace {
                Some(namespace) => engine.export(namespace, file).await?,
                None => engine.export_all(file).await?,
            };
            Ok(file.flush().map(|()| report))
        });
        let flushed = exported.and_then(|flushed| flushed.map_err(|error| of_file(py, &path, &error)));
        let exported = flushed.inspect_err(|_| {
            stop.store(true, SeqCst);
            // A part is no export, and another call could not make the file again.
            let _ = fs::remove_file(&path);
        });
        to_python(py, &exported?)
    }

    /// Reads what `export` wrote into namespaces that are empty; `namespace` gives the only one another name. Returns
    /// counts as a dict.
    #[pyo3(signature = (path, namespace = None))]
    fn import_from<'py>(
        &self,
        py: Python<'py>,
        path: FilePath,
        namespace: Option<Space>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let path = path.0;
        let namespace = namespace.map(|namespace| namespace.0);
        let stop = Arc::<AtomicBool>::default();
        let file = File::open(&path).map_err(|error| of_file(py, &path, &error))?;
        let file = BufReader::new(Stoppable(file, Arc::clone(&stop)));
        let report = self.shared.call(py, async |engine| match &namespace {
            Some(namespace) => engine.import_as(namespace, file).await,
            None => engine.import(file).await,
        });
        to_python(py, &report.inspect_err(|_| stop.store(true, SeqCst))?)
    }

    /// Writes the database, as of this moment, to a new file; other calls go on.
    fn backup(&self, py: Python<'_>, path: FilePath) -> PyResult<()> {
        self.shared.call(py, async |engine| engine.backup(path.0).await)
    }

    /// Replaces the file by a copy without the bytes of what was deleted. Returns its sizes before and after.
    fn purge<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.shared.call(py, async |engine| engine.purge().await)?)
    }

    /// Moves the database to another model or precision while it is in use, and returns a report as a dict. If the new
    /// vectors find less than `min_recall` of what exact search finds, the old ones go on serving, and `gate` in the
    /// report says why.
    ///
    /// `embedder` as of the engine. `precision` is `"f32"`, `"f16"` or `"i8"`. `queries` are pairs of a namespace and a text
    /// that are tried in addition to `samples` of the messages. `keep_previous` keeps the old vectors for `rollback`.
    /// `duty` is the part of the time that it works, 0.01 to 1. `progress` is called with a dict a few times a second;
    /// if it returns `False` the work stops, and a later call goes on.
    #[pyo3(signature = (embedder, *, precision = None, min_recall = 0.8, min_overlap = None, queries = List::default(),
        samples = 128, keep_previous = true, duty = 1.0, progress = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn reindex<'py>(
        &self,
        py: Python<'py>,
        embedder: &Bound<'py, PyAny>,
        precision: Option<Text>,
        #[pyo3(from_py_with = number)] min_recall: f64,
        min_overlap: Option<Real>,
        queries: List<Pair<Space, Text>>,
        #[pyo3(from_py_with = count)] samples: usize,
        #[pyo3(from_py_with = switch)] keep_previous: bool,
        #[pyo3(from_py_with = number)] duty: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.shared.check_not_embedding(py, "reindex")?;
        let mut options = options(py, precision.as_deref(), queries)?;
        let embedder = self.shared.models.embedder(embedder, &self.kept)?;
        options.min_recall = min_recall;
        options.min_overlap = min_overlap.map(|overlap| overlap.0);
        options.samples = samples;
        options.keep_previous = keep_previous;
        options.duty = duty;
        let progress = Progress::new(progress);
        let told = progress.clone();
        let report =
            self.shared.call(py, async |engine| engine.reindex(embedder, options, move |step| told.call(step)).await);
        progress.result(py, report)
    }

    /// Returns to the vectors that served before the last `reindex`. `embedder` is the one of that time.
    #[pyo3(signature = (embedder, *, progress = None))]
    fn rollback<'py>(
        &self,
        py: Python<'py>,
        embedder: &Bound<'py, PyAny>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.shared.check_not_embedding(py, "rollback")?;
        let embedder = self.shared.models.embedder(embedder, &self.kept)?;
        let progress = Progress::new(progress);
        let told = progress.clone();
        let report = self.shared.call(py, async |engine| engine.rollback(embedder, move |step| told.call(step)).await);
        progress.result(py, report)
    }

    /// Deletes the vectors that are kept for `rollback`. Returns whether there were any.
    fn drop_previous(&self, py: Python<'_>) -> PyResult<bool> {
        self.shared.call(py, async |engine| engine.drop_previous().await)
    }
}
