//! Profiles and collections, which a chat model keeps up to date.

use std::sync::Arc;

use mnemon::Namespace;
use pyo3::{
    prelude::*,
    pyclass::{PyTraverseError, PyVisit},
    types::PyDict,
};

use crate::{
    chat::chat_model,
    documents::Document,
    engine::{EngineLike, plain_or},
    errors::not_a,
    message::{MessageLike, unwrapped},
    operation::search,
    shared::Shared,
    values::{Count, Fields, List, Space, Text, bad_document, count, from_python, text, texts, to_python},
};

/// A dict under one key of a namespace, such as what is known about a user. Changes are JSON merge patches, by the
/// program or by a chat model; those that are made at the same time are applied one after the other.
///
/// `description` tells the model what belongs into it.
///
/// `update`, and a `ProfileBlock`, ask a model for a JSON merge patch: an object with the fields that change and their new
/// values, `null` for a field that goes, and `{}` if nothing changes; text around the object is ignored. Any other answer
/// is a `ChatError`.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct Profile {
    engine: Arc<Shared>,
    /// The object of the engine, which closes it when nothing refers to it.
    owner: Py<PyAny>,
    namespace: Namespace,
    key: String,
    description: Option<String>,
}

impl Profile {
    /// Calls the profile without the GIL.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        call: impl AsyncFnOnce(mnemon::Profile) -> mnemon::Result<T> + Send,
    ) -> PyResult<T> {
        self.engine.call(py, async move |engine: &mnemon::Engine| {
            let profile = mnemon::Profile::new(engine, &self.namespace, &*self.key);
            let profile = match &self.description {
                Some(description) => profile.describe(description),
                None => profile,
            };
            call(profile).await
        })
    }

    fn call<'py, T: serde::Serialize + Send>(
        &self,
        py: Python<'py>,
        call: impl AsyncFnOnce(mnemon::Profile) -> mnemon::Result<T> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.run(py, call)?)
    }
}

#[pymethods]
impl Profile {
    #[new]
    #[pyo3(signature = (engine, namespace, key = "profile".to_owned(), *, description = None))]
    fn new(
        engine: EngineLike,
        namespace: Space,
        #[pyo3(from_py_with = text)] key: String,
        description: Option<Text>,
    ) -> Self {
        let description = description.map(|description| description.0);
        Profile { engine: engine.0, owner: engine.1, namespace: namespace.0, key, description }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)
    }

    /// Returns the profile, an empty dict at first.
    fn get<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, async |profile| profile.get().await)
    }

    /// Replaces the profile.
    fn set(&self, profile: Fields<'_>) -> PyResult<()> {
        let value = from_python(&profile.0, bad_document)?;
        self.call(profile.0.py(), async |profile| profile.set(self.engine.secrets.value(value)).await).map(drop)
    }

    /// Applies a JSON merge patch: fields get new values, `None` removes one. Returns the profile.
    fn patch<'py>(&self, patch: Fields<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = from_python(&patch.0, bad_document)?;
        self.call(patch.0.py(), async |profile| profile.patch(self.engine.secrets.value(value)).await)
    }

    /// Lets a chat model patch the profile by a conversation. Returns the profile.
    fn update<'py>(&self, messages: List<MessageLike>, model: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (messages, chat) = (unwrapped(messages), chat_model(model, None)?);
        self.call(model.py(), async |profile| profile.update(&self.engine.secrets.messages(messages)?, &chat).await)
    }
}

/// Items, such as facts: dicts in a namespace of their own that are found by their texts, and that a chat model
/// inserts, updates and deletes.
///
/// `description` tells the model what an item is, `index` the paths to the texts that it is found by, `shown` how many
/// items the model is shown at most.
///
/// `update`, and a `CollectionBlock`, ask a model for changes as JSON: `{"insert": [ITEM, ...], "update": [{"id": 1, "item":
/// ITEM}, ...], "delete": [2, ...]}`. Each item is a whole object, each id is one of those that the model is shown, used
/// once; lists may be left out. Any other answer is a `ChatError`.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct Collection {
    engine: Arc<Shared>,
    /// The object of the engine, which closes it when nothing refers to it.
    owner: Py<PyAny>,
    namespace: Namespace,
    description: Option<String>,
    index: Option<Vec<String>>,
    shown: Option<usize>,
}

impl Collection {
    /// Calls the collection without the GIL.
    pub(crate) fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl AsyncFnOnce(mnemon::Collection) -> mnemon::Result<T> + Send,
    ) -> PyResult<T> {
        self.engine.call(py, async move |engine: &mnemon::Engine| {
            let mut collection = mnemon::Collection::new(engine, &self.namespace);
            if let Some(description) = &self.description {
                collection = collection.describe(description);
            }
            if let Some(index) = &self.index {
                collection = collection.index(index);
            }
            if let Some(shown) = self.shown {
                collection = collection.shown(shown);
            }
            call(collection).await
        })
    }
}

#[pymethods]
impl Collection {
    #[new]
    #[pyo3(signature = (engine, namespace, *, description = None, index = None, shown = None))]
    fn new(
        engine: EngineLike,
        namespace: Space,
        description: Option<Text>,
        index: Option<List<Text>>,
        shown: Option<Count<usize>>,
    ) -> Self {
        Collection {
            engine: engine.0,
            owner: engine.1,
            namespace: namespace.0,
            description: description.map(|description| description.0),
            index: index.map(texts),
            shown: shown.map(|shown| shown.0),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)
    }

    /// Adds an item. Returns its key.
    fn add(&self, item: Fields<'_>) -> PyResult<String> {
        let value = from_python(&item.0, bad_document)?;
        self.call(item.0.py(), async |collection| collection.add(self.engine.secrets.value(value)).await)
    }

    /// Returns the item, or `None`.
    fn get(&self, py: Python<'_>, key: Text) -> PyResult<Option<Document>> {
        Ok(self.call(py, async |collection| collection.get(&key).await)?.map(Document))
    }

    /// Returns whether there was such an item.
    fn delete(&self, py: Python<'_>, key: Text) -> PyResult<bool> {
        self.call(py, async |collection| collection.delete(&key).await)
    }

    /// Returns the items that answer `query` best, or without one those that were put last; see `Documents.search`.
    #[pyo3(signature = (query = None, *, r#where = None, limit = 10, offset = 0))]
    fn search(
        &self,
        py: Python<'_>,
        query: Option<Text>,
        r#where: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = count)] limit: usize,
        #[pyo3(from_py_with = count)] offset: usize,
    ) -> PyResult<Vec<Document>> {
        let search = search(query, r#where, false, limit, offset, None)?;
        Ok(self.call(py, async |collection| collection.search(search).await)?.into_iter().map(Document).collect())
    }

    /// Lets a chat model update the items by a conversation, in one commit. Returns the keys of the items that were
    /// `inserted`, `updated` and `deleted`, how many changes were `left_out` because they were too many for these messages, and
    /// whether the update was `repeated`: then it changed nothing.
    fn update<'py>(&self, messages: List<MessageLike>, model: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let (py, messages, chat) = (model.py(), unwrapped(messages), chat_model(model, None)?);
        let report =
            self.call(py, async |collection| collection.update(&self.engine.secrets.messages(messages)?, &chat).await)?;
        let dict = PyDict::new(py);
        dict.set_item("inserted", report.inserted)?;
        dict.set_item("updated", report.updated)?;
        dict.set_item("deleted", report.deleted)?;
        dict.set_item("left_out", report.left_out)?;
        dict.set_item("repeated", report.repeated)?;
        Ok(dict)
    }

    /// Returns the updates that a chat model made, the last first, with the values that items had `before`.
    #[pyo3(signature = (*, limit = 100))]
    fn updates<'py>(&self, py: Python<'py>, #[pyo3(from_py_with = count)] limit: usize) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.call(py, async |collection| collection.updates(limit).await)?)
    }

    /// Takes an update back: deletes the items that it inserted, and gives the others the values that they had before. Returns
    /// the keys of the items that were `restored` and `removed`, and of those that were `kept` because they were changed since.
    fn undo<'py>(&self, py: Python<'py>, update: Text) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.call(py, async |collection| collection.undo(&update).await)?)
    }
}

/// A `Profile`, or the one of an `AsyncProfile`.
pub(crate) struct ProfileLike(pub(crate) Py<Profile>);

impl<'py> FromPyObject<'_, 'py> for ProfileLike {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        plain_or(&object, "profile").map(ProfileLike).ok_or_else(|| not_a("a Profile", &object))
    }
}

/// A `Collection`, or the one of an `AsyncCollection`.
pub(crate) struct CollectionLike(pub(crate) Py<Collection>);

impl<'py> FromPyObject<'_, 'py> for CollectionLike {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        plain_or(&object, "collection").map(CollectionLike).ok_or_else(|| not_a("a Collection", &object))
    }
}
