//! Tests of the store as a whole.

mod codec;
mod generations;
mod graphs;
