//! Messages.

use mnemon::Error;
use pyo3::{
    prelude::*,
    types::{PyDict, PyString},
};
use serde_json::{Map, Value};

use crate::{
    errors::{not_a, of_class, raised},
    values::{
        Element, Fields, List, Text, Time, bad_message, datetime, from_python, plain_time, switch, text, texts,
        to_python,
    },
};

/// A chat message.
///
/// `content` is text, or a list of parts as dicts with a `"type"`, as `to_dict` returns them, or as OpenAI's chat format
/// has them. `role` is one of `"user"` (the default), `"assistant"`, `"system"`, `"tool"`. Without an id it gets a new one; a message
/// that is put with the id of another one replaces it. `created_at` is a `datetime` with a time zone, or text such as
/// `"2024-05-01T09:30:00Z"`; default: now. `expires_at` is such a time, from which on nothing returns the message; default:
/// by the time to live of the namespace, or never. `metadata` is a dict of values of JSON. `source` says whose words it is:
/// `"user"`, `"assistant"`, `"tool"`, `"web"` or `"import"`; default: by the role. `supersedes` are ids of messages whose place it
/// takes: a recall no longer finds them. Both are kept in the metadata. Raises `InvalidMessageError`.
///
/// Wherever a message is taken, so is a dict: the fields of this class, those of OpenAI's chat format (`tool_calls`,
/// `tool_call_id`, the role `developer`, `content` that is `None`), or both beside each other. A `str` is a message of the
/// user. One message may stand for a list of them.
#[pyclass(frozen, eq, from_py_object, module = "mnemon")]
#[derive(Clone, PartialEq)]
pub(crate) struct Message(pub(crate) mnemon::Message);

#[pymethods]
impl Message {
    #[new]
    #[pyo3(signature = (content, role = "user".to_owned(), *, id = None, session = None, name = None, created_at = None, expires_at = None, metadata = None, source = None, supersedes = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        content: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = text)] role: String,
        id: Option<Text>,
        session: Option<Text>,
        name: Option<Text>,
        created_at: Option<Time>,
        expires_at: Option<Time>,
        metadata: Option<Fields<'_>>,
        source: Option<Text>,
        supersedes: Option<List<Text>>,
    ) -> PyResult<Self> {
        let py = content.py();
        let fields = PyDict::new(py);
        fields.set_item("role", role)?;
        fields.set_item("content", content)?;
        fields.set_item("metadata", metadata.map(|metadata| metadata.0))?;
        fields.set_item("supersedes", supersedes.map(texts))?;
        for (field, text) in [("id", id), ("session", session), ("name", name), ("source", source)] {
            fields.set_item(field, text.map(|text| text.0))?;
        }
        let created_at = created_at.map_or_else(mnemon::Timestamp::now, |time| time.0);
        let expires_at = expires_at.map(|time| time.0);
        Ok(Message(mnemon::Message { expires_at, ..read(&fields)?.at(created_at) }))
    }

    /// Makes a message of a dict: what `to_dict` returned, the fields of a line of `mnemon ingest`, or those of OpenAI's
    /// chat format.
    #[staticmethod]
    fn from_dict(fields: Fields<'_>) -> PyResult<Self> {
        read(&fields.0).map(Message)
    }

    /// The fields as a dict of plain values. `created_at` and `expires_at` are `datetime`s, or text if before year 1.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.0)
    }

    /// Reads messages in OpenAI's chat format: see `mnemon.from_openai`.
    #[staticmethod]
    #[pyo3(name = "from_openai")]
    fn of_openai(messages: &Bound<'_, PyAny>) -> PyResult<Vec<Self>> {
        from_openai(messages)
    }

    /// Reads a conversation in the format of Anthropic's API: see `mnemon.from_anthropic`.
    #[staticmethod]
    #[pyo3(name = "from_anthropic")]
    fn of_anthropic(conversation: &Bound<'_, PyAny>) -> PyResult<Vec<Self>> {
        from_anthropic(conversation)
    }

    /// Reads a conversation in the format of Gemini's API: see `mnemon.from_gemini`.
    #[staticmethod]
    #[pyo3(name = "from_gemini")]
    fn of_gemini(conversation: &Bound<'_, PyAny>) -> PyResult<Vec<Self>> {
        from_gemini(conversation)
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

    /// The time at which it was written, in UTC; `None` if that is not known. Raises `InvalidArgumentError` for a time
    /// before year 1, which another program stored.
    #[getter]
    fn created_at<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.created_at.map(|time| datetime(py, time)).transpose()
    }

    /// The time from which on nothing returns it, in UTC; `None` if it does not expire.
    #[getter]
    fn expires_at<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.expires_at.map(|time| datetime(py, time)).transpose()
    }

    /// Returns whose words the message is; `None` for a system message.
    #[getter]
    fn source(&self) -> Option<&'static str> {
        self.0.source().map(mnemon::message::Source::as_str)
    }

    /// The ids of the messages whose place it takes.
    #[getter]
    fn supersedes(&self) -> Vec<&str> {
        self.0.superseded_ids()
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.metadata)
    }

    fn __repr__(&self) -> String {
        let mnemon::Message { id, session, role, .. } = &self.0;
        format!("Message({:?}, {:?}, id={id:?}, session={session:?})", self.0.text(), role.as_str())
    }

    /// Pickles and copies the message as it is, with every field.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let objects = mnemon::to_openai_lossless(std::slice::from_ref(&self.0));
        Ok((py.import("mnemon._mnemon")?.getattr("_restored")?, (Value::from(objects).to_string(),)))
    }
}

/// Makes the message that was pickled.
#[pyfunction]
#[pyo3(name = "_restored")]
pub(crate) fn restored(py: Python<'_>, text: &str) -> PyResult<Message> {
    let read = || -> mnemon::Result<mnemon::Message> {
        let objects: Vec<Value> = serde_json::from_str(text).map_err(|error| bad_message(error.to_string()))?;
        let message = mnemon::from_openai(&objects)?.pop();
        message.ok_or_else(|| bad_message("there is none".to_owned()))
    };
    read().map(Message).map_err(|error| raised(py, error))
}

/// A message, a dict of its fields or of those of OpenAI's chat format, an object of a client library that returns such a
/// dict with `model_dump`, or a text of the user.
pub(crate) struct MessageLike(pub(crate) mnemon::Message);

impl<'py> FromPyObject<'_, 'py> for MessageLike {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(message) = object.cast::<Message>() {
            return Ok(MessageLike(message.get().0.clone()));
        }
        if object.is_instance_of::<PyString>() {
            return Ok(MessageLike(mnemon::Message::user(object.extract::<Text>()?.0)));
        }
        let dumped = match object.getattr_opt("model_dump")? {
            Some(dump) => dump.call0()?,
            None => object.to_owned(),
        };
        let fields = dumped.cast::<PyDict>().map_err(|_| not_a("a Message, a dict or a str", &object))?;
        read(fields).map(MessageLike)
    }
}

impl<'py> Element<'py> for MessageLike {
    fn is_one(object: &Bound<'py, PyAny>) -> bool {
        object.is_instance_of::<Message>()
            || object.is_instance_of::<PyDict>()
            || object.is_instance_of::<PyString>()
            || object.hasattr("model_dump").unwrap_or(false)
    }
}

/// Reads a message from a dict. Its times may be `datetime`s.
fn read(fields: &Bound<'_, PyDict>) -> PyResult<mnemon::Message> {
    let fields = fields.copy()?;
    let [created_at, expires_at] = ["created_at", "expires_at"].map(|field| take_time(&fields, field));
    let (created_at, expires_at) = (created_at?, expires_at?);
    let message = from_python(&fields, bad_message).map_err(|error| match other_format(&fields) {
        Some(remedy) => of_class(fields.py(), "InvalidMessageError", format!("{}; {remedy}", error.value(fields.py()))),
        None => error,
    })?;
    Ok(mnemon::Message { created_at, expires_at, ..message })
}

/// Returns how to read a dict that is not a message, but what the API of a provider has for one.
fn other_format(fields: &Bound<'_, PyDict>) -> Option<&'static str> {
    let readers = [
        ("stop_reason", "mnemon.from_anthropic reads it"),
        ("parts", "mnemon.from_gemini reads it"),
        ("candidates", "mnemon.from_gemini reads it"),
        ("choices", "give the message in it, choices[0].message"),
    ];
    readers.into_iter().find_map(|(field, remedy)| fields.contains(field).unwrap_or(false).then_some(remedy))
}

/// Takes a time out of the fields of a message.
fn take_time(fields: &Bound<'_, PyDict>, field: &str) -> PyResult<Option<mnemon::Timestamp>> {
    let Some(time) = fields.get_item(field)?.filter(|time| !time.is_none()) else { return Ok(None) };
    fields.del_item(field)?;
    match time.extract::<Time>() {
        Ok(Time(time)) => Ok(Some(time)),
        // Text of a year that a `datetime` does not have is read here, too. So the reason is the only thing left.
        Err(error) => {
            let reason = format!("{field}: {}", error.value(fields.py()));
            Err(raised(fields.py(), Error::InvalidMessage { reason }))
        }
    }
}

/// Returns a message as a dict.
pub(crate) fn plain<'py>(py: Python<'py>, message: &mnemon::Message) -> PyResult<Bound<'py, PyAny>> {
    let fields = to_python(py, message)?;
    for (field, time) in [("created_at", message.created_at), ("expires_at", message.expires_at)] {
        if let Some(time) = time {
            fields.set_item(field, plain_time(py, time)?)?;
        }
    }
    Ok(fields)
}

/// Reads messages in OpenAI's chat format, a list of them or one. Fields that a message has no place for are kept in
/// `metadata["openai"]`, and `to_openai` writes them again. Each gets a new id, the session `"default"`, and no time.
/// Raises `InvalidMessageError`.
#[pyfunction]
pub(crate) fn from_openai(messages: &Bound<'_, PyAny>) -> PyResult<Vec<Message>> {
    let values = match conversation(messages)? {
        Value::Array(values) => values,
        one => vec![one],
    };
    read_all(messages.py(), mnemon::from_openai(&values))
}

/// Reads a conversation in the format of Anthropic's API: the body of a request, its messages, one of them, or a response.
/// Parts that a message has no place for, such as thinking, are kept in `metadata["anthropic"]`. Raises `InvalidMessageError`.
#[pyfunction]
pub(crate) fn from_anthropic(conversation: &Bound<'_, PyAny>) -> PyResult<Vec<Message>> {
    read_all(conversation.py(), mnemon::from_anthropic(&self::conversation(conversation)?))
}

/// Reads a conversation in the format of Gemini's API: the body of a request, its contents, one of them, or a response.
/// Parts that a message has no place for, such as a thought's signature, are kept in `metadata["gemini"]`. Raises
/// `InvalidMessageError`.
#[pyfunction]
pub(crate) fn from_gemini(conversation: &Bound<'_, PyAny>) -> PyResult<Vec<Message>> {
    read_all(conversation.py(), mnemon::from_gemini(&self::conversation(conversation)?))
}

fn read_all(py: Python<'_>, messages: mnemon::Result<Vec<mnemon::Message>>) -> PyResult<Vec<Message>> {
    messages.map(wrapped).map_err(|error| raised(py, error))
}

/// Returns what a conversation, or the object of a client library that has one, is in JSON.
fn conversation(given: &Bound<'_, PyAny>) -> PyResult<Value> {
    let dumped = |object: &Bound<'_, PyAny>| match object.getattr_opt("model_dump")? {
        Some(dump) => {
            let options = PyDict::new(object.py());
            options.set_item("exclude_none", true)?;
            from_python(&dump.call((), Some(&options))?, bad_message)
        }
        None => from_python(object, bad_message),
    };
    match given.is_instance_of::<pyo3::types::PyList>() {
        true => given.try_iter()?.map(|one| dumped(&one?)).collect::<PyResult<Vec<Value>>>().map(Value::Array),
        false => dumped(given),
    }
}

/// Writes messages in OpenAI's chat format. A message may become several: each result of a tool is one of its own.
/// `lossless` adds a field `"mnemon"` to each, from which `from_openai` makes the very same messages; servers may refuse
/// it.
#[pyfunction]
#[pyo3(signature = (messages, *, lossless = false))]
pub(crate) fn to_openai<'py>(
    py: Python<'py>,
    messages: List<MessageLike>,
    #[pyo3(from_py_with = switch)] lossless: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let write = if lossless { mnemon::to_openai_lossless } else { mnemon::to_openai };
    to_python(py, &write(&unwrapped(messages)))
}

/// Writes messages as the fields `messages` and `system` of a request to Anthropic's API. `lossless` as of `to_openai`.
#[pyfunction]
#[pyo3(signature = (messages, *, lossless = false))]
pub(crate) fn to_anthropic<'py>(
    py: Python<'py>,
    messages: List<MessageLike>,
    #[pyo3(from_py_with = switch)] lossless: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let write = if lossless { mnemon::to_anthropic_lossless } else { mnemon::to_anthropic };
    to_python(py, &write(&unwrapped(messages)))
}

/// Writes messages as the fields `contents` and `systemInstruction` of a request to Gemini's API. `lossless` as of
/// `to_openai`.
#[pyfunction]
#[pyo3(signature = (messages, *, lossless = false))]
pub(crate) fn to_gemini<'py>(
    py: Python<'py>,
    messages: List<MessageLike>,
    #[pyo3(from_py_with = switch)] lossless: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let write = if lossless { mnemon::to_gemini_lossless } else { mnemon::to_gemini };
    to_python(py, &write(&unwrapped(messages)))
}

/// Returns messages as Python objects.
pub(crate) fn wrapped(messages: Vec<mnemon::Message>) -> Vec<Message> {
    messages.into_iter().map(Message).collect()
}

/// Returns the messages that Python objects stand for.
pub(crate) fn unwrapped(messages: List<MessageLike>) -> Vec<mnemon::Message> {
    messages.0.into_iter().map(|message| message.0).collect()
}

/// Metadata, a dict of values of JSON.
pub(crate) fn metadata(fields: &Fields<'_>) -> PyResult<Map<String, Value>> {
    from_python(&fields.0, |reason| bad_message(format!("metadata: {reason}")))
}
