//! The tools, resources and prompts that MCP's conformance suite asks a server for. `tests/serve/mcp.sh` runs the suite on
//! them, through the listener, the guard and the limits that the memory has.
//!
//! Only debug builds have this module. It reads no memory. It keeps sessions of the protocol, which the handler of the
//! memory does without: only in a session can a server ask its client something, and go on with an answer after its stream
//! broke.

#![expect(deprecated, reason = "the suite tests logging and sampling, which a later version of the protocol drops")]

use std::{sync::Arc, time::Duration};

use axum::{Router, http::request::Parts};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientResult, ContentBlock,
        CreateMessageRequestParams, ElicitRequest, ElicitRequestParams, GetPromptRequestParams, GetPromptResponse,
        GetPromptResult, Implementation, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, LoggingLevel, LoggingMessageNotificationParam, PaginatedRequestParams,
        ProgressNotificationParam, Prompt, PromptArgument, PromptMessage, ReadResourceRequestParams,
        ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Role, SamplingMessage,
        ServerCapabilities, ServerConfig, ServerRequest, SetLevelRequestParams, SubscribeRequestParams, Tool,
        UnsubscribeRequestParams,
    },
    service::{RequestContext, ServiceError},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::app::App;

/// A grey pixel, and two samples of silence.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2kUIOwAAAABJRU5ErkJggg==";
const WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQIAAACAgA==";
/// The time between two notifications of a tool.
const PAUSE: Duration = Duration::from_millis(50);
/// The time that a client has to connect again: rmcp loses an answer that is sent while nobody listens.
const RECONNECT: Duration = Duration::from_secs(2);

pub(super) fn http(config: StreamableHttpServerConfig) -> Router<Arc<App>> {
    let sessions = Arc::new(LocalSessionManager::default());
    let fixture = Fixture { sessions: Arc::clone(&sessions) };
    let config = config.with_legacy_session_mode(true);
    Router::new().nest_service("/mcp", StreamableHttpService::new(move || Ok(fixture.clone()), sessions, config))
}

#[derive(Clone)]
struct Fixture {
    sessions: Arc<LocalSessionManager>,
}

impl Fixture {
    /// Ends the stream of a tool's call before its answer: the client has to connect again, and to ask for the rest.
    async fn disconnect(&self, context: &RequestContext<RoleServer>) -> Option<()> {
        let id = context.extensions.get::<Parts>()?.headers.get("mcp-session-id")?.to_str().ok()?;
        let session = self.sessions.sessions.read().await.get(id)?.clone();
        // rmcp numbers the streams of a session from 0, and does not tell a tool which one is its own: it is the first,
        // because the suite calls this tool before any other.
        session.close_sse_stream(0, Some(PAUSE)).await.ok()
    }
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_logging().enable_completions().enable_prompts();
        let capabilities = capabilities.enable_resources().enable_resources_subscribe().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("mnemon-fixture", env!("CARGO_PKG_VERSION")))
    }

    /// Accepts any level, and ignores it: the only lines logged are three that the suite waits for.
    async fn set_level(&self, _: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let no_arguments = || json!({ "type": "object" });
        let argument =
            |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
        let tools = [
            ("test_simple_text", "Answers with text", no_arguments()),
            ("test_image_content", "Answers with an image", no_arguments()),
            ("test_audio_content", "Answers with a sound", no_arguments()),
            ("test_embedded_resource", "Answers with a resource", no_arguments()),
            ("test_multiple_content_types", "Answers with a text, an image and a resource", no_arguments()),
            ("test_error_handling", "Answers with an error", no_arguments()),
            ("test_tool_with_logging", "Logs three lines", no_arguments()),
            ("test_tool_with_progress", "Reports its progress three times", no_arguments()),
            ("test_reconnection", "Answers after the client has connected again", no_arguments()),
            ("test_sampling", "Asks the client's model", argument("prompt")),
            ("test_elicitation", "Asks the user", argument("message")),
            ("test_elicitation_sep1034_defaults", "Asks the user, and suggests answers", no_arguments()),
            ("test_elicitation_sep1330_enums", "Asks the user for choices", no_arguments()),
            (
                "json_schema_2020_12_tool",
                "Has a schema with definitions",
                json!({
                    "$schema": "https://json-schema.org/draft/2020-12/schema",
                    "type": "object",
                    "$defs": {
                        "address": {
                            "type": "object",
                            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
                        },
                    },
                    "properties": { "name": { "type": "string" }, "address": { "$ref": "#/$defs/address" } },
                    "additionalProperties": false,
                }),
            ),
        ];
        let tools = tools.map(|(name, description, schema)| Tool::new(name, description, parsed::<JsonObject>(schema)));
        Ok(ListToolsResult::with_all_items(tools.into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let argument =
            |name| request.arguments.as_ref().and_then(|given| given.get(name)?.as_str()).unwrap_or_default();
        let content = match &*request.name {
            "test_simple_text" | "json_schema_2020_12_tool" => vec![ContentBlock::text("A text.")],
            "test_image_content" => vec![ContentBlock::image(PNG, "image/png")],
            "test_audio_content" => vec![ContentBlock::audio(WAV, "audio/wav")],
            "test_embedded_resource" => vec![ContentBlock::embedded_text("test://embedded-resource", "A text.")],
            "test_multiple_content_types" => vec![
                ContentBlock::text("A text."),
                ContentBlock::image(PNG, "image/png"),
                ContentBlock::embedded_text("test://mixed-content-resource", "A text."),
            ],
            "test_error_handling" => return Ok(CallToolResult::error(vec![ContentBlock::text("An error.")]).into()),
            "test_tool_with_logging" => {
                for line in ["started", "half done", "done"] {
                    let line = LoggingMessageNotificationParam::new(LoggingLevel::Info, line.into());
                    context.peer.notify_logging_message(line).await.map_err(failed)?;
                    sleep(PAUSE).await;
                }
                vec![ContentBlock::text("Logged.")]
            }
            "test_tool_with_progress" => {
                let token = context.meta.get_progress_token().ok_or_else(|| invalid("there is no progress token"))?;
                for done in [0.0, 50.0, 100.0] {
                    let progress = ProgressNotificationParam::new(token.clone(), done).with_total(100.0);
                    context.peer.notify_progress(progress).await.map_err(failed)?;
                    sleep(PAUSE).await;
                }
                vec![ContentBlock::text("Reported.")]
            }
            "test_reconnection" => {
                self.disconnect(&context).await.ok_or_else(|| invalid("there is no stream to end"))?;
                sleep(RECONNECT).await;
                vec![ContentBlock::text("Still here.")]
            }
            "test_sampling" => {
                let messages = vec![SamplingMessage::user_text(argument("prompt"))];
                let answer = context.peer.create_message(CreateMessageRequestParams::new(messages, 100)).await;
                vec![ContentBlock::text(format!("{:?}", answer.map_err(failed)?.message))]
            }
            "test_elicitation" => {
                let properties = json!({ "username": { "type": "string" }, "email": { "type": "string" } });
                elicit(&context, argument("message"), properties, &["username", "email"]).await?
            }
            "test_elicitation_sep1034_defaults" => {
                let properties = json!({
                    "name": { "type": "string", "default": "John Doe" },
                    "age": { "type": "integer", "default": 30 },
                    "score": { "type": "number", "default": 95.5 },
                    "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
                    "verified": { "type": "boolean", "default": true },
                });
                elicit(&context, "Who are you?", properties, &[]).await?
            }
            "test_elicitation_sep1330_enums" => {
                let titled = json!([{ "const": "value1", "title": "First" }, { "const": "value2", "title": "Second" }]);
                let untitled = json!({ "type": "string", "enum": ["option1", "option2", "option3"] });
                let properties = json!({
                    "untitledSingle": untitled,
                    "titledSingle": { "type": "string", "oneOf": titled },
                    "legacyEnum": { "type": "string", "enum": ["opt1", "opt2"], "enumNames": ["First", "Second"] },
                    "untitledMulti": { "type": "array", "items": untitled },
                    "titledMulti": { "type": "array", "items": { "anyOf": titled } },
                });
                elicit(&context, "Which?", properties, &[]).await?
            }
            name => return Err(invalid(&format!("there is no tool {name:?}"))),
        };
        Ok(CallToolResult::success(content).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = ["static-text", "static-binary", "watched-resource"];
        let resources = resources.map(|name| Resource::new(format!("test://{name}"), name));
        Ok(ListResourcesResult::with_all_items(resources.into()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new("test://template/{id}/data", "template");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = &*request.uri;
        let id = uri.strip_prefix("test://template/").and_then(|path| path.strip_suffix("/data"));
        let contents = match (uri, id) {
            ("test://static-text" | "test://watched-resource", _) => ResourceContents::text("A text.", uri),
            ("test://static-binary", _) => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
            (_, Some(id)) => {
                ResourceContents::text(json!({ "id": id }).to_string(), uri).with_mime_type("application/json")
            }
            _ => return Err(ErrorData::resource_not_found("there is no such resource", None)),
        };
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    /// Remembers nothing: no resource ever changes.
    async fn subscribe(&self, _: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = [
            ("test_simple_prompt", "A text", &[][..]),
            ("test_prompt_with_arguments", "A text with arguments", &["arg1", "arg2"]),
            ("test_prompt_with_embedded_resource", "A resource and a text", &["resourceUri"]),
            ("test_prompt_with_image", "An image and a text", &[]),
        ];
        let prompts = prompts.map(|(name, description, arguments)| {
            let arguments = arguments.iter().map(|&name| PromptArgument::new(name).with_required(true)).collect();
            Prompt::new(name, Some(description), Some(arguments))
        });
        Ok(ListPromptsResult::with_all_items(prompts.into()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let argument =
            |name| request.arguments.as_ref().and_then(|given| given.get(name)?.as_str()).unwrap_or_default();
        let content = match &*request.name {
            "test_simple_prompt" => vec![ContentBlock::text("A text.")],
            "test_prompt_with_arguments" => {
                vec![ContentBlock::text(format!("{} and {}.", argument("arg1"), argument("arg2")))]
            }
            "test_prompt_with_embedded_resource" => vec![
                ContentBlock::embedded_text(argument("resourceUri"), "A text."),
                ContentBlock::text("Read the resource."),
            ],
            "test_prompt_with_image" => {
                vec![ContentBlock::image(PNG, "image/png"), ContentBlock::text("Look at the image.")]
            }
            name => return Err(invalid(&format!("there is no prompt {name:?}"))),
        };
        let messages = content.into_iter().map(|content| PromptMessage::new(Role::User, content)).collect();
        Ok(GetPromptResult::new(messages).into())
    }
}

/// Asks the user to fill in a form, and returns the answer as text.
async fn elicit(
    context: &RequestContext<RoleServer>,
    message: &str,
    properties: Value,
    required: &[&str],
) -> Result<Vec<ContentBlock>, ErrorData> {
    let form = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: parsed(json!({ "type": "object", "properties": properties, "required": required })),
    };
    // rmcp has a method for this in a feature that brings crates of its own.
    match context.peer.send_request(ServerRequest::ElicitRequest(ElicitRequest::new(form))).await.map_err(failed)? {
        ClientResult::ElicitResult(answer) => Ok(vec![ContentBlock::text(format!("{answer:?}"))]),
        _ => Err(failed(ServiceError::UnexpectedResponse)),
    }
}

fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the value is a literal of this file")
}

fn invalid(detail: &str) -> ErrorData {
    ErrorData::invalid_params(detail.to_owned(), None)
}

fn failed(error: ServiceError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
