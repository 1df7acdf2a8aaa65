//! The ids of calls and responses that have none in the format.

/// Returns the id of a call, or of a response, that has none: its name, and its number among those of this name in one
/// content, from 1.
pub(super) fn id_of_name(name: &str, number: usize) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}-{number}") }
}
