//! Conversions of values that both sides have.

use jiff::Timestamp as Instant;
use mnemon::{Namespace, Timestamp};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyDateTime, PyTzInfoAccess},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::errors::raised;

/// A time, from a `datetime` with a time zone.
pub(crate) struct Time(pub(crate) Timestamp);

impl<'py> FromPyObject<'_, 'py> for Time {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let time = object.cast::<PyDateTime>()?;
        if time.get_tzinfo().is_none() {
            let remedy = "a datetime without a time zone; give it one, such as datetime.now(timezone.utc)";
            return Err(PyValueError::new_err(remedy));
        }
        let micros = object.extract::<Instant>()?.as_microsecond();
        let time = Timestamp::from_micros(micros).ok_or_else(|| PyValueError::new_err("a datetime out of range"))?;
        Ok(Time(time))
    }
}

/// Returns a `datetime` in UTC.
pub(crate) fn datetime(time: Timestamp) -> PyResult<Instant> {
    Instant::from_microsecond(time.as_micros()).map_err(|error| PyValueError::new_err(error.to_string()))
}

pub(crate) fn namespace(py: Python<'_>, text: &str) -> PyResult<Namespace> {
    text.parse().map_err(|error| raised(py, error))
}

/// Returns what a Python object stands for in JSON.
pub(crate) fn from_python<T: DeserializeOwned>(object: &Bound<'_, PyAny>) -> PyResult<T> {
    Ok(pythonize::depythonize(object)?)
}

/// Returns a Python object of dicts, lists and plain values.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize::pythonize(py, value)?)
}
