//! Checks that what a client sends is a message of JSON-RPC, and makes the error that answers anything else.
//!
//! A client waits for an answer with the id of its request. rmcp alone does not answer a text that is not JSON, and answers
//! JSON that is no message without its id.

use rmcp::model::ClientJsonRpcMessage;
use serde::Deserialize;
use serde_json::{Value, json};

const PARSE_ERROR: i32 = -32700;
/// The code of an error of the client: `-32600`, as JSON-RPC 2.0 says.
pub const INVALID_REQUEST: i32 = -32600;
/// The code of an error of the server itself: `-32603`, as JSON-RPC 2.0 says.
pub const INTERNAL_ERROR: i32 = -32603;
/// The most bytes of a message on the Unix socket. A memory of the greatest size fits in it, however it is escaped.
pub const MAX_LINE: usize = 32 << 20;

/// The id in a text.
#[derive(Deserialize)]
struct Id {
    id: Option<Value>,
}

/// Returns the text that a client sent, if it is a message of MCP or empty.
///
/// # Errors
/// Anything else. The error is the answer to send to the client, with the id of its request as far as that can be read.
pub fn message(sent: &[u8]) -> Result<&str, Value> {
    let text = match std::str::from_utf8(sent) {
        Ok(text) => text.trim_start_matches('\u{feff}').trim_end(),
        Err(problem) => return Err(refusal(sent, PARSE_ERROR, &format!("this is not UTF-8: {problem}"))),
    };
    if text.is_empty() {
        return Ok(text);
    }
    if let Ok(Value::Array(batch)) = serde_json::from_str(text) {
        return Err(refused_batch(&batch));
    }
    match serde_json::from_str::<ClientJsonRpcMessage>(text) {
        // rmcp takes a request whose id is neither a text nor a whole number for a notification, and does not answer it.
        Ok(ClientJsonRpcMessage::Notification(_)) if id_in(sent).is_some() => {
            Err(refusal(sent, INVALID_REQUEST, "the id of a request is a text or a whole number"))
        }
        Ok(_) => Ok(text),
        Err(problem) if problem.is_data() => {
            Err(refusal(sent, INVALID_REQUEST, &format!("this is no message of the protocol: {problem}")))
        }
        Err(problem) => {
            let remedy = match text.contains("\\u") {
                true => "; half of a surrogate pair, as of an emoji that was cut in two, is no character",
                false => "",
            };
            Err(refusal(sent, PARSE_ERROR, &format!("this is not JSON: {problem}{remedy}")))
        }
    }
}

/// Returns the answer to a list of messages, which one revision of MCP had, 2025-03-26: an error for each request of it, or one if it
/// has none.
fn refused_batch(batch: &[Value]) -> Value {
    let reason = "this is a batch, and the protocol has none; send each message in a request of its own";
    let ids: Vec<&Value> = batch.iter().map(|message| &message["id"]).filter(|id| !id.is_null()).collect();
    match ids.is_empty() {
        true => error(&Value::Null, INVALID_REQUEST, reason),
        false => ids.into_iter().map(|id| error(id, INVALID_REQUEST, reason)).collect(),
    }
}

/// Returns an error that answers what a client sent. Only the id is read of it, because the fault may be in any other field.
pub fn refusal(sent: &[u8], code: i32, reason: &str) -> Value {
    error(&id_in(sent).unwrap_or_default(), code, reason)
}

fn id_in(sent: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Id>(sent).ok()?.id
}

/// Returns an error that answers the request with this id.
pub fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_answered_with_the_ids_of_its_requests() {
        let batch = br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"id":"b"},3]"#;
        let answer = message(batch).unwrap_err();
        let ids: Vec<&Value> = answer.as_array().unwrap().iter().map(|error| &error["id"]).collect();
        assert_eq!(ids, [&json!(1), &json!("b")], "{answer}");
        assert_eq!(message(b"[{}]").unwrap_err()["error"]["code"], INVALID_REQUEST);
    }

    #[test]
    fn what_is_no_message_is_answered_with_its_id() {
        let request = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let notification = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        for good in [&request[..], notification, &[b"\xef\xbb\xbf", &request[..], b"\r"].concat(), b"", b"  "] {
            assert!(message(good).is_ok(), "{:?}", String::from_utf8_lossy(good));
        }
        for (broken, id, code) in [
            (
                &br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"\ud83d"}}"#[..],
                json!(7),
                PARSE_ERROR,
            ),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"tools/call\",\"params\":\"\xff\"}",
                json!("a"),
                PARSE_ERROR,
            ),
            (br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"x"}"#, json!(7), INVALID_REQUEST),
            (br#"{"jsonrpc":"2.0","id":7}"#, json!(7), INVALID_REQUEST),
            (br#"{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}"#, json!(1.5), INVALID_REQUEST),
            (br#"{"jsonrpc":"2.0","id":[7],"method":"ping"}"#, json!([7]), INVALID_REQUEST),
            (br#"{"jsonrpc":"2.0","id":7,"method":"#, Value::Null, PARSE_ERROR),
            (b"[]", Value::Null, INVALID_REQUEST),
            (b"\xff", Value::Null, PARSE_ERROR),
        ] {
            let answer = message(broken).unwrap_err();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{answer}");
        }
    }
}
