//! The blocks of the crate.

use std::sync::Arc;

use mnemon::{BlockScope, Error, MemoryBlock, RetrievalUnit};
use pyo3::{
    prelude::*,
    pyclass::{PyTraverseError, PyVisit},
};

use crate::{
    callback::{Kept, call},
    chat::chat_model,
    custom_block::PythonBlock,
    errors::{invalid, not_a},
    knowledge::{CollectionLike, ProfileLike},
    query::Hit,
    values::{Count, Element, List, Real, Text, count, switch, text},
};

/// A block with fixed text. Blocks with a higher priority are shortened earlier; 0 is never shortened.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct StaticBlock(mnemon::StaticBlock);

#[pymethods]
impl StaticBlock {
    #[new]
    #[pyo3(signature = (name, content, *, priority = 0))]
    fn new(name: Text, content: Text, #[pyo3(from_py_with = count)] priority: u32) -> Self {
        StaticBlock(mnemon::StaticBlock::new(name.0, content.0).with_priority(priority))
    }
}

/// A block with the messages of the namespace that are most relevant to the last messages of the prompt.
///
/// `top_k` is the greatest number of them, `threshold` the least cosine, `min_score` the least
/// relevance (see `Hit`) of the best one, below which the block is empty, `window` the number of last messages that are
/// the query; `own_session` recalls from this session alone. `unit` is `"message"` (the default) or `"batch"`: with each message that
/// was found, all that left the buffer with it. `keep_previous_hits` leaves the block as it is while its hits stay
/// relevant. `process` is a function of a list of `Hit` that returns one, such as a filter.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct VectorBlock(mnemon::VectorBlock, Kept);

#[pymethods]
impl VectorBlock {
    #[new]
    #[pyo3(signature = (name, *, priority = 0, top_k = None, threshold = None, window = None, own_session = false, min_score = None,
        unit = "message".to_owned(), keep_previous_hits = false, process = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        name: Text,
        #[pyo3(from_py_with = count)] priority: u32,
        top_k: Option<Count<usize>>,
        threshold: Option<Real>,
        window: Option<Count<usize>>,
        #[pyo3(from_py_with = switch)] own_session: bool,
        min_score: Option<Real>,
        #[pyo3(from_py_with = text)] unit: String,
        #[pyo3(from_py_with = switch)] keep_previous_hits: bool,
        process: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (name, kept) = (name.0, Kept::default());
        let unit = match &*unit {
            "message" => RetrievalUnit::Message,
            "batch" => RetrievalUnit::Batch,
            _ => return Err(invalid(py, "unit is \"message\" or \"batch\"")),
        };
        let mut block = mnemon::VectorBlock::new(&*name).with_priority(priority).retrieval_unit(unit);
        if let Some(top_k) = top_k {
            block = block.similarity_top_k(top_k.0);
        }
        if let Some(threshold) = threshold {
            block = block.similarity_threshold(threshold.0 as f32);
        }
        if let Some(least) = min_score {
            block = block.min_score(least.0 as f32);
        }
        if let Some(window) = window {
            block = block.retrieval_context_window(window.0);
        }
        if own_session {
            block = block.own_session();
        }
        if keep_previous_hits {
            block = block.keep_previous_hits();
        }
        if let Some(process) = process.map(|process| kept.callee(process)) {
            block = block.hit_processor(move |hits| {
                let processed = |process: &Bound<'_, PyAny>| {
                    let hits: Vec<Hit> = hits.into_iter().map(Hit).collect();
                    let left: List<Hit> = process.call1((hits,))?.extract()?;
                    Ok(left.0.into_iter().map(|hit| hit.0).collect())
                };
                call(&process, processed, |_, reason, _| Error::Block { name: name.clone(), reason })
            });
        }
        Ok(VectorBlock(block, kept))
    }
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.1.traverse(&visit)
    }

    fn __clear__(&self) {
        self.1.clear();
    }
}

/// A block with facts that a chat model finds in what leaves the buffer, each once; above `max_facts` the model
/// condenses them (default: 50). `model` is an `OpenAiChat` or a function of a `ChatRequest`. `scope` is `"session"` or
/// `"namespace"`: the sessions that share the facts.
///
/// The model is given two messages: of the system, what to do (`extract_prompt` or `condense_prompt`, in which `MAX` stands
/// for `max_facts`); of the user, the facts so far and the conversation. It answers with JSON, `{"facts": ["...", "..."]}`,
/// new facts or none the first time, all that are left when it condenses; text around the object is ignored. Any other
/// answer is a `ChatError`, and the batch is tried again later.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct FactBlock(mnemon::FactBlock, Kept);

#[pymethods]
impl FactBlock {
    #[new]
    #[pyo3(signature = (name, model, *, priority = 0, scope = "session".to_owned(), max_facts = None, extract_prompt = None,
        condense_prompt = None))]
    fn new(
        name: Text,
        model: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = count)] priority: u32,
        #[pyo3(from_py_with = text)] scope: String,
        max_facts: Option<Count<usize>>,
        extract_prompt: Option<Text>,
        condense_prompt: Option<Text>,
    ) -> PyResult<Self> {
        let kept = Kept::default();
        let mut block = mnemon::FactBlock::new(name.0, chat_model(model, Some(&kept))?);
        block = block.with_priority(priority).with_scope(scope_named(model.py(), &scope)?);
        if let Some(facts) = max_facts {
            block = block.with_max_facts(facts.0);
        }
        if let Some(prompt) = extract_prompt {
            block = block.with_extract_prompt(prompt.0);
        }
        if let Some(prompt) = condense_prompt {
            block = block.with_condense_prompt(prompt.0);
        }
        Ok(FactBlock(block, kept))
    }
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.1.traverse(&visit)
    }

    fn __clear__(&self) {
        self.1.clear();
    }
}

/// A block with a summary of what left the buffer, which a chat model extends with each batch.
///
/// The model is given what to do (`prompt`, in which `LENGTH` stands for `max_words`; default: 300) and the summary so far
/// with the new messages. Its whole answer, which must not be empty, is the new summary.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct SummaryBlock(mnemon::SummaryBlock, Kept);

#[pymethods]
impl SummaryBlock {
    #[new]
    #[pyo3(signature = (name, model, *, priority = 0, max_words = None, prompt = None))]
    fn new(
        name: Text,
        model: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = count)] priority: u32,
        max_words: Option<Count<usize>>,
        prompt: Option<Text>,
    ) -> PyResult<Self> {
        let kept = Kept::default();
        let mut block = mnemon::SummaryBlock::new(name.0, chat_model(model, Some(&kept))?).with_priority(priority);
        if let Some(words) = max_words {
            block = block.with_max_words(words.0);
        }
        let block = match prompt {
            Some(prompt) => block.with_prompt(prompt.0),
            None => block,
        };
        Ok(SummaryBlock(block, kept))
    }
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.1.traverse(&visit)
    }

    fn __clear__(&self) {
        self.1.clear();
    }
}

/// A block with instructions for the agent, `initial` at first, which a chat model changes by what users say about its
/// answers.
///
/// The model is given what to do (`prompt`), and the instructions with what was said. Its whole answer, which must not be
/// empty, is the new instructions.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct InstructionBlock(mnemon::InstructionBlock, Kept);

#[pymethods]
impl InstructionBlock {
    #[new]
    #[pyo3(signature = (name, initial, model, *, priority = 0, scope = "session".to_owned(), prompt = None))]
    fn new(
        name: Text,
        initial: Text,
        model: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = count)] priority: u32,
        #[pyo3(from_py_with = text)] scope: String,
        prompt: Option<Text>,
    ) -> PyResult<Self> {
        let kept = Kept::default();
        let mut block = mnemon::InstructionBlock::new(name.0, initial.0, chat_model(model, Some(&kept))?);
        block = block.with_priority(priority).with_scope(scope_named(model.py(), &scope)?);
        let block = match prompt {
            Some(prompt) => block.with_prompt(prompt.0),
            None => block,
        };
        Ok(InstructionBlock(block, kept))
    }
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.1.traverse(&visit)
    }

    fn __clear__(&self) {
        self.1.clear();
    }
}

/// A block with the fields of a `Profile`, which a chat model patches by what leaves the buffer.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct ProfileBlock(mnemon::ProfileBlock, Kept);

#[pymethods]
impl ProfileBlock {
    #[new]
    #[pyo3(signature = (name, profile, model, *, priority = 0))]
    fn new(
        name: Text,
        profile: ProfileLike,
        model: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = count)] priority: u32,
    ) -> PyResult<Self> {
        let kept = Kept::default();
        let chat = chat_model(model, Some(&kept))?;
        let block =
            profile.0.get().run(model.py(), async |profile| Ok(mnemon::ProfileBlock::new(name.0, &profile, chat)))?;
        Ok(ProfileBlock(block.with_priority(priority), kept))
    }
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.1.traverse(&visit)
    }

    fn __clear__(&self) {
        self.1.clear();
    }
}

/// A block with the items of a `Collection` that are related to the last messages. A chat model updates the collection
/// by what leaves the buffer.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct CollectionBlock(mnemon::CollectionBlock, Kept);

#[pymethods]
impl CollectionBlock {
    #[new]
    #[pyo3(signature = (name, collection, model, *, priority = 0))]
    fn new(
        name: Text,
        collection: CollectionLike,
        model: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = count)] priority: u32,
    ) -> PyResult<Self> {
        let kept = Kept::default();
        let chat = chat_model(model, Some(&kept))?;
        let block = collection
            .0
            .get()
            .call(model.py(), async |items| Ok(mnemon::CollectionBlock::new(name.0, &items, chat)))?;
        Ok(CollectionBlock(block.with_priority(priority), kept))
    }
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.1.traverse(&visit)
    }

    fn __clear__(&self) {
        self.1.clear();
    }
}

/// A block of the crate, or an object as `mnemon.Block` describes it; and what is kept for it.
pub(crate) struct BlockLike(pub(crate) Arc<dyn MemoryBlock>, pub(crate) Kept);

impl<'py> FromPyObject<'_, 'py> for BlockLike {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let kept = Kept::default();
        macro_rules! of_the_crate {
            ($($class:ident)+) => {
                $(if let Ok(block) = object.cast::<$class>() {
                    kept.keep(&object, None);
                    return Ok(BlockLike(Arc::new(block.get().0.clone()), kept));
                })+
            };
        }
        of_the_crate! { StaticBlock VectorBlock FactBlock SummaryBlock InstructionBlock ProfileBlock CollectionBlock }
        Ok(BlockLike(Arc::new(PythonBlock::new(&object, &kept)?), kept))
    }
}

impl Element<'_> for BlockLike {}

impl Element<'_> for Hit {
    fn is_one(object: &Bound<'_, PyAny>) -> bool {
        object.is_instance_of::<Hit>()
    }

    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        object.extract().map_err(|_| not_a("a Hit", object))
    }
}

/// Returns the scope that an attribute names.
pub(crate) fn block_scope(name: &Bound<'_, PyAny>) -> PyResult<BlockScope> {
    scope_named(name.py(), &name.extract::<Text>()?)
}

fn scope_named(py: Python<'_>, name: &str) -> PyResult<BlockScope> {
    match name {
        "session" => Ok(BlockScope::Session),
        "namespace" => Ok(BlockScope::Namespace),
        _ => Err(invalid(py, "scope is \"session\" or \"namespace\"")),
    }
}
