//! The id by which mem0's client names a memory: a namespace and the id of a message in it, so that no index of ids is
//! needed. It is no secret and no permission: whoever gives one must be allowed to see the namespace.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use mnemon::Namespace;

use super::super::{caller::Caller, problem::Problem};

/// No namespace has this character.
const SEPARATOR: char = '\n';

/// Returns the id of a memory.
pub(super) fn write(namespace: &Namespace, message: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{namespace}{SEPARATOR}{message}"))
}

/// Returns the namespace and the id of the message. `None`: this server did not write the id.
pub(super) fn read(id: &str) -> Option<(Namespace, String)> {
    let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(id).ok()?).ok()?;
    let (namespace, message) = text.split_once(SEPARATOR)?;
    Some((namespace.parse().ok()?, message.to_owned()))
}

/// Same as [`read`], for a caller: a memory that the caller may not see does not exist.
pub(super) fn seen(caller: &Caller, id: &str) -> Result<(Namespace, String), Problem> {
    read(id).filter(|(namespace, _)| caller.sees(namespace)).ok_or_else(unknown)
}

pub(super) fn unknown() -> Problem {
    Problem::not_found("there is no memory with this id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_back() {
        let namespace: Namespace = "users/Zoë %2F 1".parse().unwrap();
        let id = write(&namespace, "a\nb");
        assert_eq!(read(&id), Some((namespace, "a\nb".to_owned())));
        for foreign in ["", "x", "0198f2d1-6f3a-7c3e-9d62-3b8f6c1f0a77", "YQ", "Cg"] {
            assert_eq!(read(foreign), None, "{foreign}");
        }
    }
}
