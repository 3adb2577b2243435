// Server-sent events of an answer, as JSON. An event that tells of an error is thrown as a Problem; "[DONE]" ends.
import { Problem } from "./api";

interface Told {
  error?: { message: string; code?: string };
}

async function* linesOf(response: Response): AsyncGenerator<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop()!;
    yield* lines;
  }
  if (rest) yield rest;
}

export async function* eventsOf<T extends object>(response: Response): AsyncGenerator<T> {
  for await (const line of linesOf(response)) {
    if (!line.startsWith("data:")) continue;
    const data = line.slice(5).trim();
    if (data === "[DONE]") return;
    const event: unknown = JSON.parse(data);
    const { error } = event as Told;
    if (error) throw new Problem(error.message, 200, String(error.code ?? ""));
    yield event as Awaited<T>;
  }
}
