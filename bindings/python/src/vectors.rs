//! Vectors that the engine's model made, or that are stored.

use std::{ffi::c_int, ptr};

use mnemon::{Embedder, Error, Result};
use pyo3::{
    IntoPyObjectExt,
    exceptions::PyBufferError,
    ffi,
    prelude::*,
    types::{PyIterator, PyList, PyRange},
};

use crate::{
    errors::invalid,
    values::{Text, dimension},
};

/// The embedder of a database whose vectors the program makes: it gives one with each text of a document that it puts, and
/// one with each search. `name` is that of the model that makes them, `dimension` the number of their components, 1 to
/// 65,535. The file is later opened without an embedder, too. A text without a vector, and every message, is found by its
/// words alone.
#[pyclass(frozen, eq, module = "mnemon")]
#[derive(PartialEq)]
pub(crate) struct GivenVectors(pub(crate) mnemon::models::GivenVectors);

#[pymethods]
impl GivenVectors {
    #[new]
    fn new(py: Python<'_>, name: Text, #[pyo3(from_py_with = dimension)] dimension: usize) -> PyResult<Self> {
        if name.is_empty() {
            return Err(invalid(py, "the name is empty; give that of the model that makes the vectors"));
        }
        Ok(GivenVectors(mnemon::models::GivenVectors::new(&name, dimension)))
    }

    fn __repr__(&self) -> String {
        let identity = self.0.identity();
        format!("GivenVectors({:?}, {})", identity.name, identity.dimension)
    }
}

/// Refuses to embed where nothing does.
fn check_embeds(embedder: &dyn Embedder) -> Result<()> {
    match embedder.identity().is_given() {
        true => Err(Error::Embedding {
            reason: "the vectors of this database are given, and no model makes them; use the one that makes yours"
                .into(),
            source: None,
        }),
        false => Ok(()),
    }
}

/// Returns the vectors of documents.
pub(crate) fn vectors_of(embedder: &dyn Embedder, texts: &[String]) -> Result<Vectors> {
    check_embeds(embedder)?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let passages = embedder.embed_passages(&texts)?;
    let rows = passages.into_iter().map(|windows| mean(windows.into_iter().map(|window| window.vector).collect()));
    Ok(Vectors::new(rows.collect(), embedder.identity().dimension))
}

/// Returns the vector of a query.
pub(crate) fn vector_of_query(embedder: &dyn Embedder, text: &str) -> Result<Vec<f32>> {
    check_embeds(embedder)?;
    let windows = embedder.windows(text).into_iter();
    Ok(mean(windows.map(|window| embedder.embed_query(&text[window])).collect::<Result<_>>()?))
}

/// Returns the mean of vectors, of length 1. One vector stays as it is.
fn mean(mut vectors: Vec<Vec<f32>>) -> Vec<f32> {
    let mut sum = vectors.pop().unwrap_or_default();
    if !vectors.is_empty() {
        for vector in vectors {
            sum.iter_mut().zip(vector).for_each(|(sum, component)| *sum += component);
        }
        let length = sum.iter().map(|component| component * component).sum::<f32>().sqrt();
        sum.iter_mut().for_each(|component| *component /= length.max(f32::MIN_POSITIVE));
    }
    sum
}

/// Vectors of length 1, a sequence of lists of numbers; and a buffer of 32-bit floats with two dimensions, so that
/// `numpy.asarray(vectors)` copies nothing. A slice is some of the vectors.
#[pyclass(frozen, sequence, module = "mnemon")]
pub(crate) struct Vectors {
    values: Vec<f32>,
    /// The number of rows, and of the components of each.
    shape: [isize; 2],
    /// Bytes from a row to the next, and from a component to the next.
    strides: [isize; 2],
}

impl Vectors {
    pub(crate) fn new(rows: Vec<Vec<f32>>, dimension: usize) -> Self {
        let size = size_of::<f32>() as isize;
        let shape = [rows.len() as isize, dimension as isize];
        Vectors { values: rows.concat(), shape, strides: [size * shape[1], size] }
    }

    /// The mean of each list of vectors, and zero for an empty one.
    pub(crate) fn means(of: Vec<Vec<Vec<f32>>>, dimension: usize) -> Self {
        let row = |vectors: Vec<_>| if vectors.is_empty() { vec![0.0; dimension] } else { mean(vectors) };
        Vectors::new(of.into_iter().map(row).collect(), dimension)
    }

    fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks(self.shape[1].max(1) as usize)
    }
}

#[pymethods]
impl Vectors {
    fn __len__(&self) -> usize {
        self.shape[0] as usize
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.tolist(py)?.try_iter()
    }

    /// Returns a vector, or of a slice some vectors.
    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = index.py();
        // A range knows what an index and a slice mean.
        let at = PyRange::new(py, 0, self.shape[0])?.as_any().get_item(index)?;
        let row = |at| self.rows().nth(at).unwrap_or_default().to_vec();
        match at.extract::<usize>() {
            Ok(at) => row(at).into_bound_py_any(py),
            Err(_) => {
                let rows = at.extract::<Vec<usize>>()?.into_iter().map(row).collect();
                Vectors::new(rows, self.shape[1] as usize).into_bound_py_any(py)
            }
        }
    }

    /// All vectors as lists of numbers.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.rows().map(<[f32]>::to_vec).collect::<Vec<_>>())
    }

    /// # Safety
    /// Only Python may call this, by `PyObject_GetBuffer`: it gives a `view` that is valid for writes, and releases the
    /// view before it frees the object.
    unsafe fn __getbuffer__(this: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if flags & ffi::PyBUF_WRITABLE != 0 {
            // SAFETY: `view` is valid for writes.
            unsafe { (*view).obj = ptr::null_mut() };
            return Err(PyBufferError::new_err("vectors cannot be changed; copy them first"));
        }
        let vectors = this.get();
        let given = |flag: c_int, array: &[isize; 2]| {
            if flags & flag == flag { array.as_ptr().cast_mut() } else { ptr::null_mut() }
        };
        // SAFETY: `view` is valid for writes. All pointers lead into the object, which does not change and which the
        // view keeps alive.
        unsafe {
            (*view).buf = vectors.values.as_ptr().cast_mut().cast();
            (*view).len = (vectors.values.len() * size_of::<f32>()) as isize;
            (*view).itemsize = size_of::<f32>() as isize;
            (*view).readonly = 1;
            (*view).format = if flags & ffi::PyBUF_FORMAT != 0 { c"f".as_ptr().cast_mut() } else { ptr::null_mut() };
            (*view).ndim = 2;
            (*view).shape = given(ffi::PyBUF_ND, &vectors.shape);
            (*view).strides = given(ffi::PyBUF_STRIDES, &vectors.strides);
            (*view).suboffsets = ptr::null_mut();
            (*view).internal = ptr::null_mut();
            (*view).obj = this.into_ptr();
        }
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<{} vectors of {} components>", self.shape[0], self.shape[1])
    }
}
