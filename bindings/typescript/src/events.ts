/** Reads server-sent events, as far as this server sends them: comments and the fields `event` and `data`. */

export interface ServerEvent {
  event: string;
  data: string;
}

/** The events until the stream ends, or its connection does; throws the signal's reason. */
export async function* events(stream: ReadableStream<Uint8Array>, signal?: AbortSignal): AsyncGenerator<ServerEvent, void, undefined> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(() => {
        signal?.throwIfAborted();
        return { done: true, value: undefined };
      });
      text += decoder.decode(value, { stream: !done });
      const blocks = text.split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const field = (name: string) =>
          [...block.matchAll(new RegExp(`^${name}: ?(.*)$`, "gm"))].map((match) => match[1]).join("\n");
        if (field("data")) yield { event: field("event") || "message", data: field("data") };
      }
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
