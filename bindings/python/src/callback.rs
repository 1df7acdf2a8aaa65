//! Calls of what is written in Python, from the engine's threads.

use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use mnemon::Error;
use pyo3::{
    buffer::PyBuffer,
    prelude::*,
    pyclass::{PyTraverseError, PyVisit},
    types::{PyWeakrefMethods, PyWeakrefReference},
};

use crate::{
    errors::{kind_of, not_a, of_class, reason_of, wrong_type},
    models::ModelOptions,
    shared::lock,
    wait,
};

/// How long the end of the interpreter waits for callbacks of which none returns.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The number of callbacks that are running, on all threads.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// The number of callbacks that have returned.
static RETURNED: AtomicUsize = AtomicUsize::new(0);
/// True when the interpreter ends: Python is not called any more.
static ENDED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// True while this thread is in a callback.
    static CALLED_BACK: Cell<bool> = const { Cell::new(false) };
    /// The numbers of the engines whose embedders this thread is in.
    static EMBEDDING: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// A callback that is running.
struct Running {
    outer: bool,
}

impl Running {
    fn begin() -> Option<Self> {
        RUNNING.fetch_add(1, SeqCst);
        let running = Running { outer: CALLED_BACK.replace(true) };
        // It counts before this is read: either it is waited for, or it does not begin.
        (!ENDED.load(SeqCst)).then_some(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        CALLED_BACK.set(self.outer);
        RETURNED.fetch_add(1, SeqCst);
        RUNNING.fetch_sub(1, SeqCst);
    }
}

/// Forgets the callbacks of the process that this one was forked from: their threads are not here.
#[pyfunction]
pub(crate) fn forked() {
    RUNNING.store(0, SeqCst);
    CALLED_BACK.set(false);
    wait::forked();
}

/// Notes that this thread calls the embedder of an engine, while `call` runs.
pub(crate) fn embedding_for<T>(engine: u64, call: impl FnOnce() -> T) -> T {
    EMBEDDING.with_borrow_mut(|engines| engines.push(engine));
    let called = call();
    EMBEDDING.with_borrow_mut(Vec::pop);
    called
}

/// Returns whether this thread is in an embedder of the engine.
pub(crate) fn is_embedding_for(engine: &ModelOptions) -> bool {
    EMBEDDING.with_borrow(|engines| engines.contains(&engine.number))
}

/// Returns whether this thread calls Python for an engine.
pub(crate) fn is_called_back() -> bool {
    CALLED_BACK.get()
}

/// Waits until the engines are closed, and then for the callbacks that are running, such as those of blocks, which the
/// closing of an engine does not wait for. None begins afterwards: a thread that is in Python when the interpreter ends
/// may crash it.
///
/// # Errors
/// No callback returned for [`END_LIMIT`], or what the handler of a signal raised.
pub(crate) fn end_callbacks(py: Python<'_>, mut is_closed: impl FnMut() -> bool + Send) -> PyResult<()> {
    let (mut returned, mut since) = (RETURNED.load(SeqCst), Instant::now());
    let ended = loop {
        if is_closed() {
            ENDED.store(true, SeqCst);
        }
        if RUNNING.load(SeqCst) == 0 {
            if ENDED.load(SeqCst) {
                break Ok(());
            }
            since = Instant::now();
        }
        if returned != RETURNED.load(SeqCst) {
            (returned, since) = (RETURNED.load(SeqCst), Instant::now());
        }
        if since.elapsed() >= END_LIMIT {
            let limit = END_LIMIT.as_secs();
            let reason = format!(
                "the interpreter ends although what an engine called, such as an embedder, did not return within {limit} seconds"
            );
            break Err(of_class(py, "MnemonError", reason));
        }
        py.detach(|| sleep(Duration::from_millis(1)));
        if let Err(error) = py.check_signals() {
            break Err(error);
        }
    };
    ENDED.store(true, SeqCst);
    ended
}

/// Runs what calls Python. `None` if the interpreter ends.
pub(crate) fn calling_back<T>(call: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let running = Running::begin()?;
    let result = Python::try_attach(call);
    drop(running);
    result
}

/// Calls an object. What it raises becomes the error that `failed` makes of it, with its text as the reason.
pub(crate) fn call<T>(
    callee: &Callee,
    call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    failed: impl FnOnce(Python<'_>, String, PyErr) -> Error,
) -> mnemon::Result<T> {
    let called = calling_back(|py| {
        let object = callee.get(py).ok_or(Error::Closed)?;
        call(&object).map_err(|error| failed(py, reason_of(py, &error), error))
    });
    called.unwrap_or(Err(Error::Closed))
}

/// An object that the engine calls. The engine itself keeps it by a weak reference, as long as a handle in Python keeps it
/// for the engine, so that Python's garbage collector finds a cycle through both.
#[derive(Clone)]
pub(crate) struct Callee(Arc<CalleeState>);

struct CalleeState {
    weak: Option<Py<PyWeakrefReference>>,
    /// The object itself, once no handle in Python keeps it: what the engine has begun goes on.
    strong: Mutex<Option<Py<PyAny>>>,
}

impl Callee {
    /// An object that no handle keeps.
    pub(crate) fn strong(object: Py<PyAny>) -> Self {
        Callee(Arc::new(CalleeState { weak: None, strong: Mutex::new(Some(object)) }))
    }

    /// Returns the object. `None`: the garbage collector took it, with its handle.
    pub(crate) fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let strong = lock(&self.0.strong).as_ref().map(|object| object.bind(py).clone());
        strong.or_else(|| self.0.weak.as_ref()?.bind(py).upgrade())
    }
}

/// The objects that a handle in Python keeps because its engine calls them. The handle shows them to the garbage collector.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Vec<(Py<PyAny>, Option<Callee>)>>);

impl Kept {
    /// Keeps an object.
    pub(crate) fn keep(&self, object: &Bound<'_, PyAny>, callee: Option<Callee>) {
        lock(&self.0).push((object.clone().unbind(), callee));
    }

    /// Keeps an object for the engine, which gets what this returns.
    pub(crate) fn callee(&self, object: &Bound<'_, PyAny>) -> Callee {
        // Not every object can have weak references.
        let Ok(weak) = PyWeakrefReference::new(object) else { return Callee::strong(object.clone().unbind()) };
        let callee = Callee(Arc::new(CalleeState { weak: Some(weak.unbind()), strong: Mutex::default() }));
        self.keep(object, Some(callee.clone()));
        callee
    }

    /// Takes over what another one keeps.
    pub(crate) fn append(&self, other: &Kept) {
        lock(&self.0).append(&mut lock(&other.0));
    }

    /// Returns the same for another handle.
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        let objects = lock(&self.0);
        Kept(Mutex::new(objects.iter().map(|(object, callee)| (object.clone_ref(py), callee.clone())).collect()))
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Without waiting: another thread may be adding one.
        let Ok(objects) = self.0.try_lock() else { return Ok(()) };
        objects.iter().try_for_each(|(object, _)| visit.call(object))
    }

    /// Lets all objects go, for the garbage collector.
    pub(crate) fn clear(&self) {
        let objects = std::mem::take(&mut *lock(&self.0));
        drop(objects);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for (object, callee) in std::mem::take(&mut *lock(&self.0)) {
            if let Some(callee) = callee {
                *lock(&callee.0.strong) = Some(object);
            }
        }
    }
}

/// Returns the attribute of an object that has to have it, or an error that names the protocol.
pub(crate) fn attribute<'py>(object: &Bound<'py, PyAny>, name: &str, protocol: &str) -> PyResult<Bound<'py, PyAny>> {
    object.getattr_opt(name)?.ok_or_else(|| {
        let given = kind_of(object);
        let remedy = format!("{given} has no attribute {name:?}; help(mnemon.{protocol}) lists what there has to be");
        wrong_type(object.py(), remedy)
    })
}

/// Returns the numbers of an array of 32-bit floats, such as numpy's, or of a sequence.
pub(crate) fn numbers(values: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    match PyBuffer::<f32>::get(values) {
        Ok(buffer) => buffer.to_vec(values.py()),
        Err(_) => floats(values),
    }
}

/// Returns numbers of a sequence. One that is not finite is left to the engine, which names its text.
fn floats(values: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    let Ok(values) = values.try_iter() else { return Err(not_a("a list of numbers", values)) };
    let number = |value: PyResult<Bound<'_, PyAny>>| {
        let value = value?;
        value.extract::<f32>().map_err(|_| not_a("a number", &value))
    };
    values.map(number).collect()
}

/// Returns the rows of an array of 32-bit floats with two dimensions, or of a sequence of rows.
pub(crate) fn rows(vectors: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<f32>>> {
    let Ok(buffer) = PyBuffer::<f32>::get(vectors) else {
        let rows = vectors.try_iter().map_err(|_| not_a("a list of vectors", vectors))?;
        return rows.map(|row| numbers(&row?)).collect();
    };
    let &[_, width] = buffer.shape() else {
        return Err(wrong_type(vectors.py(), "vectors are an array of two dimensions"));
    };
    let values = buffer.to_vec(vectors.py())?;
    Ok(values.chunks(width.max(1)).map(<[f32]>::to_vec).collect())
}
