//! `OpenAiChat`, with a scripted server on this machine.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use mnemon::{
    ChatAnswer, ChatFuture, ChatModel, ChatRequest, ContentPart, Error, Message, OpenAiChat, Result, Role, Usage,
};
use serde_json::{Value, json};

use crate::support::servers::{End, LlmServer, Reply};

const KEY: &str = "sk-secret-1234567890";

fn model(server: &LlmServer) -> OpenAiChat {
    OpenAiChat::new(server.base_url(), "small").api_key(KEY).backoff(Duration::from_millis(1))
}

fn ask(model: &OpenAiChat) -> Result<Message> {
    Ok(model.chat_blocking(&ChatRequest::new(vec![Message::user("hi")]))?.message)
}

/// Reason with its sources, and whether it is transient.
fn failure(model: &OpenAiChat) -> (String, bool) {
    let error = ask(model).unwrap_err();
    let shown = format!("{error} {error:?} {model:?}");
    assert!(!shown.contains(KEY), "{shown}");
    let transient = match &error {
        Error::Chat { transient, .. } => *transient,
        Error::ChatUnavailable { .. } => false,
        _ => panic!("{error:?}"),
    };
    (format!("{error} {error:?}"), transient)
}

#[test]
fn a_request_has_the_fields_of_the_protocol_and_its_answer_is_read() {
    let server = LlmServer::replies([Reply::text("In Lyon.")]);
    let mut system = Message::new(Role::System, "Be brief.");
    system.metadata.insert("secret".into(), json!("stays here"));
    let tools = json!([{"type": "function", "function": {"name": "search"}}]);
    let request = ChatRequest::new(vec![system, Message::user("Where is Ada?").by("Bob")])
        .max_tokens(50)
        .temperature(0.2)
        .option("tools", tools.clone())
        .option("model", "the field of its own wins");
    let answer = model(&server).chat_blocking(&request).unwrap().message;
    assert_eq!((answer.role, answer.text().as_str()), (Role::Assistant, "In Lyon."));
    assert!(answer.created_at.is_some() && answer.metadata.is_empty());
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].method.as_str(), requests[0].path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(requests[0].headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(requests[0].headers["content-type"], "application/json");
    let wanted = json!({
        "model": "small",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "name": "Bob", "content": "Where is Ada?"},
        ],
        "max_tokens": 50,
        "temperature": 0.2,
        "tools": tools,
    });
    assert_eq!(requests[0].body, wanted);
}

#[test]
fn no_key_is_sent_to_a_server_that_needs_none() {
    let server = LlmServer::replies([Reply::text("hi")]);
    ask(&OpenAiChat::new(format!("{}/", server.base_url()), "small")).unwrap();
    assert_eq!(server.requests()[0].path, "/v1/chat/completions");
    assert!(!server.requests()[0].headers.contains_key("authorization"));
}

#[test]
fn an_answer_may_call_tools() {
    let calls =
        json!([{"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{\"q\": \"Ada\"}"}}]);
    let server = LlmServer::replies([Reply::message(
        json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": calls}),
    )]);
    let answer = ask(&model(&server)).unwrap();
    let call = ContentPart::ToolCall { id: "c1".into(), name: "search".into(), arguments: json!({"q": "Ada"}) };
    assert_eq!(answer.content, [call]);
    assert_eq!(mnemon::to_openai(&[answer])[0]["tool_calls"], calls, "the very text of the arguments");
}

#[test]
fn a_function_is_a_chat_model() {
    let echo = |request: &ChatRequest| -> Result<Message> { Ok(Message::assistant(request.messages[0].text())) };
    let model: &dyn ChatModel = &echo;
    let request = ChatRequest::new(vec![Message::user("hi")]);
    assert_eq!(model.chat_blocking(&request).unwrap().text(), "hi");
    assert_eq!(runtime().block_on(model.chat(&request)).unwrap().text(), "hi");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn a_chat_model_may_be_async() {
    /// Waits for another task before it answers.
    struct Relay(tokio::sync::Mutex<tokio::sync::mpsc::Receiver<String>>);

    impl ChatModel for Relay {
        fn chat<'a>(&'a self, _: &'a ChatRequest) -> ChatFuture<'a> {
            Box::pin(async {
                let text = self.0.lock().await.recv().await.ok_or(Error::Closed)?;
                Ok(ChatAnswer::from(Message::assistant(text)).with_usage(Usage::new(3, 1)))
            })
        }
    }

    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let model = std::sync::Arc::new(Relay(receiver.into()));
    let request = ChatRequest::new(vec![Message::user("hi")]);
    let (answer, sent) =
        runtime().block_on(async { tokio::join!(model.chat(&request), sender.send("async".to_owned())) });
    sent.unwrap();
    let answer = answer.unwrap();
    assert_eq!((answer.text().as_str(), answer.usage), ("async", Some(Usage::new(3, 1))));
    // A thread without a runtime waits for it too.
    let waiting = std::thread::spawn(move || model.chat_blocking(&request).unwrap().text());
    sender.blocking_send("blocking".to_owned()).unwrap();
    assert_eq!(waiting.join().unwrap(), "blocking");
}

#[test]
fn an_async_call_of_a_server_blocks_no_thread_of_the_executor() {
    let gate = std::sync::Arc::new(std::sync::Mutex::new(()));
    let closed = gate.clone();
    let server = LlmServer::new(move |_| {
        drop(closed.lock().unwrap());
        Reply::text("hi")
    });
    let model = model(&server);
    let request = ChatRequest::new(vec![Message::user("hi")]);
    // The executor has one thread. The server answers only after another task has run on it.
    let held = gate.lock().unwrap();
    let (answer, ()) = runtime().block_on(async { tokio::join!(model.chat(&request), async { drop(held) }) });
    assert_eq!(answer.unwrap().text(), "hi");
    let error = runtime().block_on(model.chat(&request.clone().option("stream", true))).unwrap_err();
    assert!(error.to_string().contains("leave out the option `stream`"), "{error}");
}

#[test]
fn the_usage_that_a_server_reports_is_in_the_answer() {
    let choice = json!({"message": {"role": "assistant", "content": "hi"}});
    let usage = json!({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15});
    let rows = [
        (json!({"choices": [choice], "usage": usage}), Some(Usage::new(12, 3))),
        (json!({"choices": [choice], "usage": null}), None),
        (json!({"choices": [choice]}), None),
    ];
    for (body, wanted) in rows {
        let server = LlmServer::replies([Reply::json(200, body)]);
        let answer = model(&server).chat_blocking(&ChatRequest::new(vec![Message::user("hi")])).unwrap();
        assert_eq!((answer.text().as_str(), answer.usage), ("hi", wanted));
    }
}

#[test]
fn usage_is_read_from_the_response_of_each_provider() {
    let rows = [
        (json!({"usage": {"prompt_tokens": 12, "completion_tokens": 3, "input_tokens": 12}}), Some((12, 3))),
        (json!({"usage": {"input_tokens": 9, "output_tokens": 5}}), Some((9, 5))),
        (
            json!({"usage": {"input_tokens": 9, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 900}}),
            Some((999, 0)),
        ),
        (
            json!({"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 5, "thoughtsTokenCount": 20}}),
            Some((9, 25)),
        ),
        (json!({"usage": {"prompt_tokens": "many"}}), None),
        (json!({"id": "x"}), None),
        (json!([]), None),
    ];
    for (response, wanted) in rows {
        assert_eq!(
            Usage::from_response(&response),
            wanted.map(|(prompt, answer)| Usage::new(prompt, answer)),
            "{response}"
        );
    }
}

#[test]
fn transient_failures_are_retried() {
    let message = |content: Value| Reply::message(json!({"role": "assistant", "content": content}));
    let failures = [
        Reply::error(500, "broken"),
        Reply::error(503, "overloaded"),
        Reply::error(408, "slow"),
        Reply::new(200, "{"),
        Reply::new(200, ""),
        Reply::json(200, json!([1])),
        Reply::json(200, json!({"choices": []})),
        Reply::json(200, json!({"choices": "none"})),
        Reply::json(200, json!({"choices": [{"message": "hi"}]})),
        Reply::json(200, json!({"error": {"message": "overloaded"}})),
        message(json!(5)),
        Reply::message(json!({"role": "user", "content": "hi"})),
        Reply::text("cut").end(End::Half),
        Reply::text("none").end(End::Nothing),
    ];
    for failing in failures {
        let shown = format!("{failing:?}");
        let server = LlmServer::replies([failing, Reply::text("at last")]);
        assert_eq!(ask(&model(&server)).expect(&shown).text(), "at last");
        assert_eq!(server.requests().len(), 2, "{shown}");
    }
}

#[test]
fn errors_name_what_failed() {
    let rows = [
        (Reply::error(500, "broken"), "answered 500 Internal Server Error: broken (3 attempts); try again later"),
        (Reply::new(502, "<p>bad\n gateway</p>"), "answered 502 Bad Gateway: <p>bad gateway</p> (3 attempts)"),
        (Reply::new(200, "{"), "answered with text that is not JSON"),
        (Reply::json(200, json!({"choices": []})), "no message"),
        (Reply::json(200, json!({"error": {"message": "overloaded"}})), "no message: overloaded"),
        (Reply::message(json!({"role": "assistant", "content": 5})), "content is not a string"),
        (Reply::message(json!({"role": "robot", "content": "hi"})), "role \"robot\" is not one of"),
        (Reply::text("cut").end(End::Half), "no answer from http://127.0.0.1"),
        (Reply::error(503, &"x".repeat(5000)), &format!(": {} (3 attempts)", "x".repeat(300))),
        (Reply::error(500, &format!("key {KEY} is fine")), "key *** is fine"),
    ];
    for (reply, wanted) in rows {
        let server = LlmServer::replies([reply]);
        let (reason, transient) = failure(&model(&server));
        assert!(reason.contains(wanted), "{wanted}: {reason}");
        assert!(transient, "{reason}");
        assert_eq!(server.requests().len(), 3, "{reason}");
    }
}

#[test]
fn permanent_failures_are_not_retried() {
    let huge = json!({"choices": [{"message": {"role": "assistant", "content": "x".repeat(8 << 20)}}]});
    let rows = [
        (Reply::error(401, &format!("Incorrect API key provided: {KEY}.")), "401 Unauthorized: Incorrect"),
        (Reply::error(400, "bad request"), "400 Bad Request: bad request; check its address"),
        (Reply::error(403, "no"), "403 Forbidden: no"),
        (Reply::json(404, json!({"error": "no model small"})), "404 Not Found: no model small"),
        (Reply::new(422, ""), "answered 422 Unprocessable Entity;"),
        (Reply::new(308, "").header("location", "http://127.0.0.1:9/v2"), "a redirect; give the URL"),
        (Reply::json(200, huge), "more than 8388608 bytes"),
        (Reply::text(" "), "answered with an empty message"),
    ];
    for (reply, wanted) in rows {
        let server = LlmServer::replies([reply]);
        let (reason, transient) = failure(&model(&server));
        assert!(reason.contains(wanted), "{wanted}: {reason}");
        assert!(!transient, "{reason}");
        // After some, another request tells whether this one is at fault.
        let is_asked_again = ["400", "403", "422"].iter().any(|status| wanted.contains(status));
        assert_eq!(server.requests().len(), 1 + usize::from(is_asked_again), "{reason}");
    }
}

#[test]
fn a_refusal_concerns_the_request_if_another_one_is_answered() {
    let refusals = [400, 402, 403, 413, 422].map(|status| Reply::error(status, "no"));
    for refusal in refusals {
        let error = ask(&model(&LlmServer::replies([refusal.clone(), Reply::text("Yes.")]))).unwrap_err();
        assert!(matches!(error, Error::Chat { transient: false, .. }), "{error:?}");
        let error = ask(&model(&LlmServer::replies([refusal]))).unwrap_err();
        assert!(matches!(error, Error::ChatUnavailable { .. }), "{error:?}");
    }
    for status in [401, 404] {
        let server = LlmServer::replies([Reply::error(status, "no"), Reply::text("Yes.")]);
        assert!(matches!(ask(&model(&server)), Err(Error::ChatUnavailable { .. })), "{status}");
    }
}

#[test]
fn a_request_is_made_as_often_as_attempts_allow() {
    let server = LlmServer::replies([Reply::error(500, "broken")]);
    for (attempts, made) in [(1, 1), (0, 1), (5, 5)] {
        let before = server.requests().len();
        failure(&model(&server).attempts(attempts));
        assert_eq!(server.requests().len() - before, made);
    }
}

#[test]
fn the_wait_that_the_server_asks_for_is_kept() {
    let busy = |seconds: &str| Reply::error(429, "slow down").header("Retry-After", seconds);
    let server = LlmServer::replies([busy("1"), Reply::text("now")]);
    let begin = Instant::now();
    assert_eq!(ask(&model(&server)).unwrap().text(), "now");
    assert!(begin.elapsed() >= Duration::from_secs(1));

    let server = LlmServer::replies([busy("0"), Reply::text("now")]);
    assert_eq!(ask(&model(&server).backoff(Duration::from_secs(3600))).unwrap().text(), "now");

    for (seconds, wanted, shown) in [
        ("7", Some(7), "slow down; try again in 7 s"),
        ("Fri, 31 Dec 1999 23:59:59 GMT", None, "slow down; try again later"),
        ("-1", None, "slow down; try again later"),
        ("NaN", None, "slow down; try again later"),
    ] {
        let error = ask(&model(&LlmServer::replies([busy(seconds)])).attempts(1)).unwrap_err();
        assert!(error.to_string().ends_with(shown), "{error}");
        let Error::Chat { retry_after, transient: true, .. } = error else { panic!("{error:?}") };
        assert_eq!(retry_after, wanted.map(Duration::from_secs));
    }
}

#[test]
fn a_late_answer_is_a_transient_error() {
    let server = LlmServer::replies([Reply::text("late").after(Duration::from_millis(400)), Reply::text("in time")]);
    let hasty = model(&server).timeout(Duration::from_millis(100));
    let (reason, transient) = failure(&hasty.clone().attempts(1));
    assert!(reason.contains("did not answer within 100ms") && transient, "{reason}");
    let server = LlmServer::replies([Reply::text("late").after(Duration::from_millis(400)), Reply::text("in time")]);
    let begin = Instant::now();
    assert_eq!(ask(&model(&server).timeout(Duration::from_millis(200))).unwrap().text(), "in time");
    assert!(begin.elapsed() >= Duration::from_millis(200));
    // A limit beyond all clocks is none.
    assert!(ask(&model(&server).timeout(Duration::MAX)).is_ok());
}

#[test]
fn an_unreachable_server_is_a_transient_error() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let base_url = format!("http://ada:{KEY}@{address}");
    let model = OpenAiChat::new(base_url, "small").backoff(Duration::from_millis(1));
    let (reason, transient) = failure(&model);
    assert!(reason.contains(&format!("no answer from http://{address} (3 attempts)")) && transient, "{reason}");
    assert!(reason.contains("refused"), "{reason}");
}

#[test]
fn wrong_urls_keys_and_options_are_errors_without_a_request() {
    let server = LlmServer::replies([Reply::text("hi")]);
    for url in ["", "nowhere", "http://", "ftp://127.0.0.1", "http://a b"] {
        let (reason, transient) = failure(&OpenAiChat::new(url, "small").api_key(KEY).attempts(1));
        assert!(!transient, "{url:?}: {reason}");
    }
    let (reason, transient) = failure(&model(&server).api_key(format!("{KEY}\n{KEY}")));
    assert!(reason.contains("no request can be made to") && !transient, "{reason}");
    let streamed = ChatRequest::new(vec![Message::user("hi")]).option("stream", true);
    let error = model(&server).chat_blocking(&streamed).unwrap_err();
    assert!(error.to_string().contains("leave out the option `stream`"), "{error}");
    let error = model(&server).chat_blocking(&ChatRequest::new(vec![]).temperature(f32::NAN)).unwrap_err();
    assert!(error.to_string().contains("temperature NaN is not a finite number"), "{error}");
    assert_eq!(server.requests().len(), 0);
}
