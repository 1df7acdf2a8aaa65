//! Tests of the store as a whole.

mod codec;
mod durability;
mod forget;
mod generations;
mod graphs;
mod moved;
mod tables;
