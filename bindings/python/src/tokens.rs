//! Token counters.

use std::sync::{Arc, Mutex};

use mnemon::{ApproximateTokenCounter, Tiktoken, TokenCounter};
use pyo3::{prelude::*, types::PyString};

use crate::{
    callback::{Callee, Kept, calling_back},
    errors::{invalid, reason_of, wrong_type},
    shared::lock,
};

/// The last exception of a token counter that is written in Python.
pub(crate) type CounterError = Arc<Mutex<Option<PyErr>>>;

/// A token counter.
pub(crate) enum Counter {
    Tiktoken(Tiktoken),
    Approximate,
    Python(PythonCounter),
}

/// Returns the token counter that an object stands for: the name of an encoding, or a function of a text, which is kept.
pub(crate) fn counter(tokens: &Bound<'_, PyAny>, error: &CounterError, kept: &Kept) -> PyResult<Counter> {
    const KNOWN: &str = "tokens is one of \"o200k_base\", \"cl100k_base\", \"approximate\", or a function of a text";
    let Ok(name) = tokens.cast::<PyString>() else {
        if !tokens.is_callable() {
            return Err(wrong_type(tokens.py(), KNOWN));
        }
        return Ok(Counter::Python(PythonCounter { function: kept.callee(tokens), error: Arc::clone(error) }));
    };
    match name.to_str()? {
        "o200k_base" => Ok(Counter::Tiktoken(Tiktoken::o200k_base())),
        "cl100k_base" => Ok(Counter::Tiktoken(Tiktoken::cl100k_base())),
        "approximate" => Ok(Counter::Approximate),
        _ => Err(invalid(tokens.py(), KNOWN)),
    }
}

impl TokenCounter for Counter {
    fn count(&self, text: &str) -> usize {
        match self {
            Counter::Tiktoken(counter) => counter.count(text),
            Counter::Approximate => ApproximateTokenCounter.count(text),
            Counter::Python(counter) => counter.count(text),
        }
    }
}

/// Calls a function that counts the tokens of a text.
pub(crate) struct PythonCounter {
    function: Callee,
    error: CounterError,
}

impl PythonCounter {
    fn count(&self, text: &str) -> usize {
        let count = |py: Python<'_>| Some(self.function.get(py)?.call1((text,)).and_then(|tokens| tokens.extract()));
        match calling_back(count).flatten() {
            Some(Ok(tokens)) => tokens,
            Some(Err(error)) => {
                let reason = Python::attach(|py| format!("the token counter raised {}", reason_of(py, &error)));
                *lock(&self.error) = Some(error);
                // A count cannot fail otherwise. The engine makes an error of it that the call returns.
                std::panic::resume_unwind(Box::new(reason))
            }
            // The interpreter ends, or the function is gone with its session.
            None => ApproximateTokenCounter.count(text),
        }
    }
}
