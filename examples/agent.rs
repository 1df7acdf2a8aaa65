//! An agent with a memory: 150 scripted turns with a budget of 1,200 tokens. Prints what is flushed, recalled and
//! assembled.
//!
//! Run `cargo run --example agent` in the sources. The turns are a work assistant's, from
//! `datasets/sample`, and the script's answers replace a language model. For a real one see `OpenAiChat` (feature
//! `openai`).

use std::collections::HashSet;

use mnemon::{
    AssembleRequest, ContentPart, Engine, FactBlock, MemoryBlock, Message, Namespace, Prompt, Result, Role,
    StaticBlock,
    chat_model::ChatRequest,
    format::{from_openai, to_openai},
    memory::{BlockContent, BlockQuery, BufferLimits, FlushedBatch},
    message::{MessageLine, MessageSelector, PerPartTokenCounter, TokenWindow},
    tokenizer::ApproximateTokenCounter,
};
use serde_json::{Value, json};

/// A custom block: counts the flushed messages of each speaker. Its state is JSON and is stored with each batch.
struct TalkCounter;

impl MemoryBlock for TalkCounter {
    fn name(&self) -> &str {
        "talk_counter"
    }

    fn priority(&self) -> u32 {
        2
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        let mut counts = state.as_object().cloned().unwrap_or_default();
        for message in batch.messages {
            let count = counts.entry(message.name.as_deref().unwrap_or(message.role.as_str())).or_insert(json!(0));
            *count = json!(count.as_u64().unwrap_or(0) + 1);
        }
        Ok(counts.into())
    }

    fn get(&self, state: &Value, _: &BlockQuery) -> Result<BlockContent> {
        let counts = state.as_object().into_iter().flatten();
        let lines: Vec<String> = counts.map(|(name, count)| format!("{name} has said {count} things before")).collect();
        Ok(lines.join("\n").into())
    }
}

/// A custom selector: the newest messages within a budget, and all earlier questions of the user.
struct WithQuestions(TokenWindow);

impl MessageSelector for WithQuestions {
    fn select(&self, messages: &[Message]) -> Vec<Message> {
        let recent: HashSet<String> = self.0.select(messages).into_iter().map(|message| message.id).collect();
        let asks = |message: &Message| message.role == Role::User && message.text().trim_end().ends_with('?');
        messages.iter().filter(|message| recent.contains(&message.id) || asks(message)).cloned().collect()
    }
}

/// Replaces the language model that extracts facts: returns the sentences that begin with "I ". `FactBlock` documents the
/// real request.
fn facts(request: &ChatRequest) -> Result<Message> {
    let said = request.messages.last().map(Message::text).unwrap_or_default();
    let about = said.split(['\n', '.', '>']).map(str::trim).filter(|text| text.starts_with("I ") && text.len() > 40);
    let facts: Vec<String> = about.map(|text| format!("Priya: {text}")).take(2).collect();
    Ok(Message::assistant(json!({ "facts": facts }).to_string()))
}

fn tokens() -> PerPartTokenCounter {
    PerPartTokenCounter::new(ApproximateTokenCounter)
}

fn main() -> Result<()> {
    let folder = tempfile::tempdir().expect("creating a temporary folder");
    let engine = Engine::open(folder.path().join("agent.redb"))?;
    let user = Namespace::from_context([("app", "desk"), ("user", "priya")]);
    let memory = engine
        .memory(&user, "all-of-it")
        .limits(BufferLimits::new(1_200, 0.6, 300)?)
        .message_counter(tokens())
        .block(StaticBlock::new("about", "You are Atlas, Priya's assistant at work."))
        .block(FactBlock::new("facts", facts).with_max_facts(1_000).with_priority(3))
        .block(TalkCounter)
        .checkpoint_each_put(true)
        .open()?;
    let blocking = memory.blocking();
    blocking.put(vec![Message::new(Role::System, "Answer shortly. Say when you do not know.").with_id("system")])?;

    let script = std::fs::read_to_string("datasets/sample/messages.jsonl").expect("run from the sources");
    let lines = script.lines().map(MessageLine::parse).collect::<Result<Vec<_>>>()?;
    let work = |line: &MessageLine| line.namespace.as_ref().is_some_and(|namespace| namespace.as_str() == "acme/priya");
    let turns: Vec<Message> = lines.into_iter().filter(work).map(|line| line.message).collect();
    let (mut batches, mut over) = (0, 0);
    for (number, turn) in turns.iter().enumerate() {
        if turn.role == Role::User {
            let prompt = blocking.assemble(turn.clone())?;
            over += usize::from(prompt.over.is_some());
            if number % 50 == 10 {
                println!("\nturn {number}, the prompt for the model:");
                show(&prompt);
            }
        }
        for batch in blocking.put(vec![turn.clone()])?.flushed {
            batches += 1;
            if batches <= 3 {
                println!(
                    "turn {number}: {} messages are flushed, {} to {}",
                    batch.len(),
                    batch[0],
                    batch[batch.len() - 1]
                );
            }
        }
    }
    blocking.settle()?;
    let (kept, all) = (blocking.messages()?, blocking.history()?);
    println!(
        "\n{} messages: {batches} batches flushed, {} in the buffer, {over} prompts too long",
        all.len(),
        kept.len()
    );

    // An agent's loop: a prompt, a step, and the same prompt with that step. Prompt and answer are stored after it.
    let question = Message::user("Remind me: which vaccine incident did we trace to our own software?").by("Priya");
    let selector = WithQuestions(TokenWindow::new(200, tokens()));
    let assembly = AssembleRequest::new(question.clone()).recall(3).selector(selector);
    blocking.assemble(assembly.clone())?;
    let call = json!({"type": "tool_call", "id": "call-1", "name": "calendar", "arguments": {"month": "May"}});
    let result = json!({"type": "tool_result", "id": "call-1", "content": "12 May: vaccine crate, warm van"});
    memory.add_step(Message { content: vec![part(call)], ..Message::assistant("x") });
    memory.add_step(Message { content: vec![part(result)], ..Message::new(Role::Tool, "x") });
    let prompt = blocking.assemble(assembly)?;
    println!("\nthe last question, after a tool call:");
    show(&prompt);

    // The whole prompt is put back without ids, as chat formats have none, with an answer: only the new messages are
    // stored.
    let mut back = from_openai(&to_openai(&prompt.messages[..prompt.messages.len() - 2]))?;
    back.push(Message::assistant("The crate that left in a warm van in May.").by("Atlas"));
    let before = blocking.history()?.len();
    let report = blocking.put(back)?;
    println!(
        "\nput back as a whole: {} new, {} echoes; {} messages more",
        report.new,
        report.echoes.len(),
        blocking.history()?.len() - before
    );

    let checkpoints = blocking.checkpoints()?;
    blocking.fork(Some(checkpoints[20].number), "what-if")?;
    println!(
        "{} checkpoints; forked at the 20th into a session of {} messages",
        checkpoints.len(),
        checkpoints[20].messages
    );
    for status in blocking.status()? {
        println!("block {}: {} batches behind, {} failed", status.name, status.behind, status.failed.len());
    }
    Ok(())
}

fn part(json: Value) -> ContentPart {
    serde_json::from_value(json).expect("the JSON is a valid part")
}

/// Prints a line per message, and the memory in full.
fn show(prompt: &Prompt) {
    for message in &prompt.messages {
        let text = message.text();
        let (memory, text) = text.rsplit_once("</memory>").unwrap_or(("", &text));
        memory.lines().for_each(|line| println!("    | {}", shorten(line, 150)));
        println!("  {:9} {}", message.role.as_str(), shorten(text.trim(), 100));
    }
    println!("  = {} tokens; left out: {} messages, blocks {:?}", prompt.tokens, prompt.left_out.len(), prompt.dropped);
}

fn shorten(text: &str, chars: usize) -> String {
    let mut short: String = text.chars().take(chars).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
