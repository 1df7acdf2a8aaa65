//! Conversions of values that both sides have, and the types of arguments. What cannot be converted is one of our
//! exceptions: a value is stored exactly as it was given, or refused.

use std::{convert::Infallible, ops::Deref, path::PathBuf};

use jiff::Timestamp as Instant;
use mnemon::{Error, Namespace, Timestamp};
use pyo3::{
    conversion::FromPyObjectOwned,
    prelude::*,
    types::{
        PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDict, PyFloat, PyInt, PyMapping, PySequence, PyString,
        PyTzInfo, PyTzInfoAccess,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Number, Value};

use crate::errors::{invalid, kind_of, not_a, noted, raised, wrong_type};

/// The deepest nesting of a value. JSON that is stored must be readable again.
const MAX_DEPTH: usize = 127;

/// A text.
pub(crate) struct Text(pub(crate) String);

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'py> FromPyObject<'_, 'py> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let text = object.cast::<PyString>().map_err(|_| not_a("a str", &object))?;
        text_of(&text).map(Text).map_err(|reason| invalid(object.py(), reason))
    }
}

/// Returns a text, or the reason why it cannot be stored.
fn text_of(text: &Bound<'_, PyString>) -> Result<String, String> {
    let remedy = "text.encode(errors='replace').decode() replaces it";
    let lone = |_| format!("a text has half of a surrogate pair, which UTF-8 has no form for; {remedy}");
    text.to_str().map(str::to_owned).map_err(lone)
}

/// A namespace.
pub(crate) struct Space(pub(crate) Namespace);

impl<'py> FromPyObject<'_, 'py> for Space {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let text = object.extract::<Text>()?;
        text.parse().map(Space).map_err(|error| raised(object.py(), error))
    }
}

/// An element of a list that Python code gives. A single element may be given in place of the list, if it cannot be taken for a list.
pub(crate) trait Element<'py>: FromPyObjectOwned<'py> {
    fn is_one(_: &Bound<'py, PyAny>) -> bool {
        false
    }

    fn of(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        object.extract().map_err(Into::into)
    }
}

impl Element<'_> for Text {
    fn is_one(object: &Bound<'_, PyAny>) -> bool {
        object.is_instance_of::<PyString>()
    }
}

impl Element<'_> for Space {
    fn is_one(object: &Bound<'_, PyAny>) -> bool {
        object.is_instance_of::<PyString>()
    }
}

/// A pair, as a tuple or a list.
impl<'py, A: FromPyObjectOwned<'py, Error = PyErr>, B: FromPyObjectOwned<'py, Error = PyErr>> Element<'py>
    for Pair<A, B>
{
}

pub(crate) struct Pair<A, B>(pub(crate) A, pub(crate) B);

impl<'py, A: FromPyObjectOwned<'py, Error = PyErr>, B: FromPyObjectOwned<'py, Error = PyErr>> FromPyObject<'_, 'py>
    for Pair<A, B>
{
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let both = || object.cast::<PySequence>().ok().filter(|both| both.len().is_ok_and(|count| count == 2));
        let both = both().filter(|both| !both.is_instance_of::<PyString>()).ok_or_else(|| not_a("a pair", &object))?;
        Ok(Pair(both.get_item(0)?.extract()?, both.get_item(1)?.extract()?))
    }
}

/// A list: any iterable but a text or a dict.
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<'py, T: Element<'py>> FromPyObject<'_, 'py> for List<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if T::is_one(&object) {
            return Ok(List(vec![T::of(&object)?]));
        }
        if object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyByteArray>() {
            let kind = kind_of(&object);
            return Err(wrong_type(object.py(), format!("{kind} is no text and no list; its decode() is a text")));
        }
        let iterator = match object.is_instance_of::<PyString>() || object.is_instance_of::<PyDict>() {
            true => None,
            false => object.try_iter().ok(),
        };
        let iterator = iterator.ok_or_else(|| not_a("a list", &object))?;
        Ok(List(iterator.map(|element| T::of(&element?)).collect::<PyResult<_>>()?))
    }
}

/// Returns a text, for an argument with a default.
pub(crate) fn text(object: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(object.extract::<Text>()?.0)
}

pub(crate) fn texts(list: List<Text>) -> Vec<String> {
    list.0.into_iter().map(|text| text.0).collect()
}

/// A dict.
pub(crate) struct Fields<'py>(pub(crate) Bound<'py, PyDict>);

impl<'py> FromPyObject<'_, 'py> for Fields<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        object.cast::<PyDict>().map(|fields| Fields((*fields).clone())).map_err(|_| not_a("a dict", &object))
    }
}

/// A path of a file.
pub(crate) struct FilePath(pub(crate) PathBuf);

impl<'py> FromPyObject<'_, 'py> for FilePath {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        object.extract().map(FilePath).map_err(|_| not_a("a path", &object))
    }
}

/// A keyword that may be left out, and may not be `None`: a value that is missing by mistake is not one that was left out.
#[derive(Default)]
pub(crate) struct Keyword<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Keyword<'py> {
    type Error = Infallible;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> Result<Self, Infallible> {
        Ok(Keyword(Some(object.to_owned())))
    }
}

impl<'py> Keyword<'py> {
    /// Returns the value of the keyword `name`. `left_out` says what the call does without it.
    pub(crate) fn value<T: FromPyObjectOwned<'py, Error = PyErr>>(
        self,
        name: &str,
        left_out: &str,
    ) -> PyResult<Option<T>> {
        let Some(object) = self.0 else { return Ok(None) };
        let value = match object.is_none() {
            true => Err(wrong_type(object.py(), format!("{name} is None; {left_out}"))),
            false => object.extract().map(Some),
        };
        value.map_err(|error| noted(object.py(), error, name))
    }
}

/// Returns whether an object is `True`.
pub(crate) fn switch(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    object.extract().map_err(|_| not_a("True or False", object))
}

/// Returns a whole number from 0.
pub(crate) fn count<T: TryFrom<u64>>(object: &Bound<'_, PyAny>) -> PyResult<T> {
    let number = object.extract::<u64>().ok().and_then(|number| T::try_from(number).ok());
    number.filter(|_| !object.is_instance_of::<PyBool>()).ok_or_else(|| {
        let greatest = u64::MAX >> (64 - 8 * size_of::<T>());
        match object.is_exact_instance_of::<PyInt>() && object.gt(greatest).unwrap_or(false) {
            true => not_in_range(&format!("a whole number from 0 to {greatest}"), object),
            false => not_in_range("a whole number from 0", object),
        }
    })
}

/// Returns the number of a vector's components.
pub(crate) fn dimension(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    let dimension = count::<usize>(object)?;
    match dimension {
        1..=0xffff => Ok(dimension),
        _ => Err(invalid(object.py(), format!("the dimension {dimension} is not 1 to 65,535"))),
    }
}

/// A whole number from 0, for an argument that may be left out.
pub(crate) struct Count<T>(pub(crate) T);

impl<'py, T: TryFrom<u64>> FromPyObject<'_, 'py> for Count<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        count(&object).map(Count)
    }
}

/// Returns a number that is finite.
pub(crate) fn number(object: &Bound<'_, PyAny>) -> PyResult<f64> {
    let number = object.extract::<f64>().ok().filter(|number| number.is_finite());
    number.filter(|_| !object.is_instance_of::<PyBool>()).ok_or_else(|| not_in_range("a finite number", object))
}

/// Returns the exception for something else than a number, or for a number that is not taken.
fn not_in_range(needed: &str, object: &Bound<'_, PyAny>) -> PyErr {
    match object.is_exact_instance_of::<PyInt>() || object.is_instance_of::<PyFloat>() {
        true => invalid(object.py(), format!("{needed} is needed here, not {object}")),
        false => not_a(needed, object),
    }
}

/// A finite number, for an argument that may be left out.
#[derive(Clone, Copy)]
pub(crate) struct Real(pub(crate) f64);

impl<'py> FromPyObject<'_, 'py> for Real {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        number(&object).map(Real)
    }
}

/// A time, from a `datetime` with a time zone, or from text as RFC 3339 has it. A date, of Python or as text, is its first
/// moment in UTC.
pub(crate) struct Time(pub(crate) Timestamp);

impl<'py> FromPyObject<'_, 'py> for Time {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if !object.is_instance_of::<PyString>() && !object.is_instance_of::<PyDate>() {
            return Err(not_a("a datetime, or text such as \"2024-05-01T09:30:00Z\",", &object));
        }
        time_of(&object).map(Time).map_err(|reason| invalid(object.py(), reason))
    }
}

/// A time as [`Time`], with the offset of its clock: UTC for a date.
pub(crate) struct LocalTime(pub(crate) mnemon::message::LocalTime);

impl<'py> FromPyObject<'_, 'py> for LocalTime {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let Time(time) = object.extract()?;
        if object.is_instance_of::<PyString>() {
            let text = object.extract::<Text>()?.0;
            return text.parse().map(LocalTime).map_err(|error| raised(object.py(), error));
        }
        let seconds = match object.cast::<PyDateTime>() {
            Ok(clock) => clock.call_method0("utcoffset")?.call_method0("total_seconds")?.extract::<f64>()?,
            Err(_) => 0.0,
        };
        let local = mnemon::message::LocalTime::new(time, seconds as i32);
        Ok(LocalTime(local.unwrap_or_else(|| time.into())))
    }
}

/// Returns the time that a text, a `datetime` or a `date` is.
fn time_of(object: &Bound<'_, PyAny>) -> Result<Timestamp, String> {
    if let Ok(text) = object.cast::<PyString>() {
        let text = text_of(text)?;
        let parsed = text.parse::<Timestamp>();
        return parsed.map_err(|_| {
            format!("{text:?} is not a time with a time zone, such as \"2024-05-01T09:30:00Z\" or \"2024-05-01T11:30:00+02:00\"")
        });
    }
    let Ok(time) = object.cast::<PyDateTime>() else {
        let text = object.str().map_err(|error| error.to_string())?;
        return text_of(&text)?.parse().map_err(|error: Error| error.to_string());
    };
    if time.get_tzinfo().is_none() {
        let remedy = "give it one, such as datetime.now(timezone.utc)";
        return Err(format!("the datetime {} has no time zone; {remedy}", shown(time)));
    }
    instant(time).map_err(|error| format!("the datetime {} cannot be read: {error}", shown(time)))?
}

fn shown(time: &Bound<'_, PyDateTime>) -> String {
    time.str().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns the moment of a `datetime` with a time zone, by its offset from UTC. The reason of the inner error says why
/// there is no such moment.
fn instant(time: &Bound<'_, PyDateTime>) -> PyResult<Result<Timestamp, String>> {
    let py = time.py();
    let utc = PyTzInfo::utc(py)?.to_owned();
    let out_of_range = || {
        Err(format!(
            "the datetime {} is out of range: times are from year 1 to 9999-12-30T22:00:00 in UTC",
            shown(time)
        ))
    };
    let Ok(moment) = time.call_method1("astimezone", (&utc,)) else { return Ok(out_of_range()) };
    // A time that the clocks skip, such as 2:30 in the night when summer time begins, is another one in its own zone.
    let zone = time.getattr("tzinfo")?;
    let back = moment.call_method1("astimezone", (zone,));
    if let Ok(back) = back
        && !naive(&back)?.eq(naive(time.as_any())?)?
    {
        let remedy = "the clocks skip it there; give another time, or one in UTC";
        return Ok(Err(format!("there is no time {} in its time zone: {remedy}", shown(time))));
    }
    let micros = moment.extract::<Instant>().ok().map(Instant::as_microsecond);
    Ok(micros.and_then(Timestamp::from_micros).map_or_else(out_of_range, Ok))
}

/// Returns what the clock shows at a time.
fn naive<'py>(time: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let options = PyDict::new(time.py());
    options.set_item("tzinfo", time.py().None())?;
    options.set_item("fold", 0)?;
    time.call_method("replace", (), Some(&options))
}

/// Returns a `datetime` in UTC.
pub(crate) fn datetime(py: Python<'_>, time: Timestamp) -> PyResult<Bound<'_, PyAny>> {
    let instant = Instant::from_microsecond(time.as_micros()).ok().map(|instant| instant.into_pyobject(py));
    match instant {
        Some(Ok(datetime)) => Ok(datetime.into_any()),
        _ => Err(invalid(
            py,
            format!("the time {time} is before year 1, which a datetime has no place for; to_dict() has it as text"),
        )),
    }
}

/// Returns a time as a dict has it: a `datetime`, and text if that has no place for it.
pub(crate) fn plain_time(py: Python<'_>, time: Timestamp) -> PyResult<Bound<'_, PyAny>> {
    datetime(py, time).or_else(|_| Ok(PyString::new(py, &time.to_string()).into_any()))
}

/// Returns what a Python object stands for in JSON. `error` makes an error of the reason why there is nothing.
pub(crate) fn from_python<T: DeserializeOwned>(
    object: &Bound<'_, PyAny>,
    error: impl Fn(String) -> Error,
) -> PyResult<T> {
    let value = json(object, &mut Vec::new()).map_err(|reason| raised(object.py(), error(reason)))?;
    serde_json::from_value(value).map_err(|reason| raised(object.py(), error(unlabelled(&reason.to_string(), &error))))
}

/// Returns a reason without the label that `error` begins with.
fn unlabelled(reason: &str, error: impl Fn(String) -> Error) -> String {
    let label = error(String::new()).to_string();
    reason.strip_prefix(&label).unwrap_or(reason).to_owned()
}

/// Returns the reason why a message, a document or a filter cannot be stored or used.
pub(crate) fn bad_message(reason: String) -> Error {
    Error::InvalidMessage { reason }
}

pub(crate) fn bad_document(reason: String) -> Error {
    Error::InvalidDocument { reason }
}

pub(crate) fn bad_filter(reason: String) -> Error {
    Error::InvalidFilter { reason }
}

/// A step on the way to a value: a key or an index.
enum Step {
    Key(String),
    Index(usize),
}

/// Converts a value. The error is the reason, with the place of the value that JSON does not have.
fn json<'py>(object: &Bound<'py, PyAny>, path: &mut Vec<Step>) -> Result<Value, String> {
    if path.len() > MAX_DEPTH {
        return Err(format!("it is nested more than {MAX_DEPTH} deep, or contains itself"));
    }
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(value) = object.cast::<PyBool>() {
        return Ok(value.is_true().into());
    }
    if let Ok(text) = object.cast::<PyString>() {
        return text_of(text).map(Value::String).map_err(|reason| at(path, &reason));
    }
    if let Ok(float) = object.cast::<PyFloat>() {
        let finite = Number::from_f64(float.value());
        return finite.map(Value::Number).ok_or_else(|| {
            at(
                path,
                &format!("{} is no number of JSON; give None, or a text", float.value().to_string().to_lowercase()),
            )
        });
    }
    // An array has the method too, and raises unless it is a whole number.
    let index = match object.is_instance_of::<PyInt>() {
        true => Some(object.clone()),
        false => object.call_method0("__index__").ok(),
    };
    if let Some(number) = index {
        return whole(&number).ok_or_else(|| {
            let number = number.str().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
            at(path, &format!("the number {number:.40} has more than 64 bits; give it as text"))
        });
    }
    if let Ok(fields) = object.cast::<PyMapping>() {
        return fields_of(fields, path).map(Value::Object);
    }
    let is_array = !object.is_instance_of::<PyBytes>() && !object.is_instance_of::<PyByteArray>();
    if let Ok(values) = object.cast::<PySequence>()
        && is_array
    {
        let iterator = values.try_iter().map_err(|error| at(path, &error.to_string()))?;
        let element = |(index, value): (usize, PyResult<Bound<'py, PyAny>>)| {
            path.push(Step::Index(index));
            let value = value.map_err(|error| error.to_string()).and_then(|value| json(&value, path))?;
            path.pop();
            Ok(value)
        };
        return iterator.enumerate().map(element).collect();
    }
    let kind = kind_of(object);
    let has = |name| object.hasattr(name).unwrap_or(false);
    let remedy = match &*kind {
        "datetime" | "date" | "time" => "give its isoformat(), and compare texts of one form and zone",
        "bytes" | "bytearray" => "give it as text, such as base64",
        "set" | "frozenset" => "give it as a list",
        // Of numpy.
        "bool" | "bool_" => "give bool() of it",
        _ if has("tolist") => "give its tolist()",
        _ if has("model_dump") => "give its model_dump(mode=\"json\")",
        _ if has("__dataclass_fields__") => "give dataclasses.asdict() of it",
        _ => "give it as text, such as str() of it",
    };
    let name = object.get_type().fully_qualified_name().map_or(kind.clone(), |name| name.to_string());
    Err(at(path, &format!("{name} is no type of JSON; {remedy}")))
}

/// Returns a whole number of at most 64 bits.
fn whole(object: &Bound<'_, PyAny>) -> Option<Value> {
    object.extract::<i64>().map(Value::from).or_else(|_| object.extract::<u64>().map(Value::from)).ok()
}

fn fields_of(fields: &Bound<'_, PyMapping>, path: &mut Vec<Step>) -> Result<Map<String, Value>, String> {
    let items = fields.items().map_err(|error| at(path, &error.to_string()))?;
    let mut object = Map::new();
    for item in items {
        let (key, value) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>().map_err(|error| error.to_string())?;
        let Ok(name) = key.cast::<PyString>() else {
            let shown = key.repr().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
            return Err(at(path, &format!("the key {shown} is no text; give it as text")));
        };
        let name = text_of(name).map_err(|reason| at(path, &reason))?;
        path.push(Step::Key(name.clone()));
        let value = json(&value, path)?;
        path.pop();
        object.insert(name, value);
    }
    Ok(object)
}

/// Puts the place of a value before a reason.
fn at(path: &[Step], reason: &str) -> String {
    let mut place = String::new();
    for step in path {
        match step {
            Step::Key(key) if place.is_empty() => place += key,
            Step::Key(key) => place += &format!(".{key}"),
            Step::Index(index) => place += &format!("[{index}]"),
        }
    }
    match place.is_empty() {
        true => reason.to_owned(),
        false => format!("{place}: {reason}"),
    }
}

/// Returns a Python object of dicts, lists and plain values.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize::pythonize(py, value)?)
}
