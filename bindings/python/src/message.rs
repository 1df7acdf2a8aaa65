//! Messages.

use jiff::Timestamp as Instant;
use mnemon::Role;
use pyo3::{
    prelude::*,
    types::{PyDict, PyString},
};

use crate::{
    errors::raised,
    values::{Time, datetime, from_python, to_python},
};

/// A chat message.
///
/// `content` is text, or a list of parts as dicts with a `"type"`, as `to_dict` returns them. `role` is one of
/// `"user"`, `"assistant"`, `"system"`, `"tool"`. Without an id it gets a new one; a message that is put with the id of
/// another one replaces it. `created_at` needs a time zone; default: the time of the put. Raises
/// `InvalidMessageError`.
#[pyclass(frozen, eq, from_py_object, module = "mnemon")]
#[derive(Clone, PartialEq)]
pub(crate) struct Message(pub(crate) mnemon::Message);

#[pymethods]
impl Message {
    #[new]
    #[pyo3(signature = (content, role = "user", *, id = None, session = None, name = None, created_at = None, metadata = None))]
    fn new(
        content: &Bound<'_, PyAny>,
        role: &str,
        id: Option<String>,
        session: Option<String>,
        name: Option<String>,
        created_at: Option<Time>,
        metadata: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let py = content.py();
        let role: Role = role.parse().map_err(|error| raised(py, error))?;
        let mut message = match content.cast::<PyString>() {
            Ok(text) => mnemon::Message::new(role, text.to_str()?),
            Err(_) => mnemon::Message::from_parts(role, from_python(content)?),
        };
        message.id = id.unwrap_or(message.id);
        message.session = session.unwrap_or(message.session);
        message.name = name;
        message.created_at = created_at.map(|time| time.0).or(message.created_at);
        message.metadata = metadata.map(|metadata| from_python(metadata)).transpose()?.unwrap_or_default();
        message.check().map_err(|error| raised(py, error))?;
        Ok(Message(message))
    }

    /// Makes a message of a dict with the fields of a line of `mnemon ingest`.
    #[staticmethod]
    fn from_dict(fields: &Bound<'_, PyDict>) -> PyResult<Self> {
        read(fields).map(Message)
    }

    /// The fields as a dict of plain values; times are text.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0)
    }

    #[getter]
    fn id(&self) -> &str {
        &self.0.id
    }

    #[getter]
    fn session(&self) -> &str {
        &self.0.session
    }

    #[getter]
    fn role(&self) -> &'static str {
        self.0.role.as_str()
    }

    #[getter]
    fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The text of all parts.
    #[getter]
    fn text(&self) -> String {
        self.0.text()
    }

    /// The parts as dicts.
    #[getter]
    fn content<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.content)
    }

    #[getter]
    fn created_at(&self) -> PyResult<Option<Instant>> {
        self.0.created_at.map(datetime).transpose()
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.metadata)
    }

    fn __repr__(&self) -> String {
        let mnemon::Message { id, session, role, .. } = &self.0;
        format!("Message({:?}, {:?}, id={id:?}, session={session:?})", self.0.text(), role.as_str())
    }
}

/// A message or a dict of its fields.
pub(crate) struct MessageLike(pub(crate) mnemon::Message);

impl<'py> FromPyObject<'_, 'py> for MessageLike {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<Message>() {
            Ok(message) => Ok(MessageLike(message.get().0.clone())),
            Err(_) => read(&object.cast::<PyDict>()?.to_owned()).map(MessageLike),
        }
    }
}

/// Reads a message from a dict.
fn read(fields: &Bound<'_, PyDict>) -> PyResult<mnemon::Message> {
    from_python(fields).map_err(|error| crate::errors::InvalidMessageError::new_err(error.to_string()))
}

/// Returns messages as Python objects.
pub(crate) fn wrapped(messages: Vec<mnemon::Message>) -> Vec<Message> {
    messages.into_iter().map(Message).collect()
}

/// Returns the messages that Python objects stand for.
pub(crate) fn unwrapped(messages: Vec<MessageLike>) -> Vec<mnemon::Message> {
    messages.into_iter().map(|message| message.0).collect()
}
