// A conversation's branch -> a request -> its answers, piece by piece. Pieces are gathered and shown once a frame.
import { ask, Problem, sentenceOf, wasStopped } from "../net/api";
import { eventsOf } from "../net/events";
import { add, change, changeTurn, type Chat, chats, newId, pathTo, type Figures, type TokenSeen, type ToolCall, type Turn } from "../state/chats";
import { modelName, standIn } from "../state/server";
import { chosen, readTools, samplingFields, shape, shapeFields, tools as toolsSet } from "../state/settings";

interface TokenEvent {
  token: string;
  logprob: number;
  top_logprobs?: { token: string; logprob: number }[];
}
interface ChunkChoice {
  index: number;
  delta: {
    content?: string | null;
    reasoning_content?: string | null;
    tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
  };
  logprobs?: { content?: TokenEvent[] | null } | null;
  finish_reason?: string | null;
}
interface Chunk {
  choices: ChunkChoice[];
  usage?: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens?: number };
    completion_tokens_details?: { reasoning_tokens?: number };
  };
}

export const seen = (token: TokenEvent): TokenSeen => ({
  text: token.token, logprob: token.logprob,
  others: (token.top_logprobs ?? []).map((other) => ({ text: other.token, logprob: other.logprob })),
});

const running = new Map<string, AbortController>(); // by chat
export const isRunning = (one: Chat): boolean => one.turns.some((turn) => turn.running);
export const stop = (id: string): void => running.get(id)?.abort();

// A turn as the messages of a body.
function messagesOf(turn: Turn): unknown[] {
  if (turn.role === "tool") return (turn.results ?? []).map((result) => ({ role: "tool", tool_call_id: result.id, content: result.text }));
  if (turn.role === "assistant") {
    const calls = turn.calls?.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
    return [calls?.length ? { role: "assistant", content: turn.text || null, tool_calls: calls } : { role: "assistant", content: turn.text }];
  }
  if (!turn.pictures?.length) return [{ role: "user", content: turn.text }];
  const parts: unknown[] = turn.pictures.map((url) => ({ type: "image_url", image_url: { url } }));
  if (turn.text) parts.push({ type: "text", text: turn.text });
  return [{ role: "user", content: parts }];
}

// Behind the results of a call an answer may follow, whatever is asked for.
const mayAnswer = (path: Turn[]): boolean => path.at(-1)?.role === "tool";

function bodyFor(one: Chat, path: Turn[]): Record<string, unknown> {
  const system = one.system.trim() ? [{ role: "system", content: one.system }] : [];
  const tools = readTools.value.list;
  return {
    model: modelName.value, messages: [...system, ...path.flatMap(messagesOf)],
    stream: true, stream_options: { include_usage: true }, ...standIn.value, ...samplingFields(true), ...shapeFields(shape.value),
    ...(tools.length > 0 ? { tools, tool_choice: mayAnswer(path) ? "auto" : toolsSet.value.choice } : {}), ...(chosen.value.tokens ? { logprobs: true, top_logprobs: 6 } : {}),
  };
}

// What has come of one answer and is not shown yet.
class Gathered {
  text = "";
  thinking = "";
  calls: ToolCall[] = [];
  tokens: TokenSeen[] = [];
  ended = "";
  dirty = false;

  take({ delta, logprobs, finish_reason }: ChunkChoice): void {
    this.text += delta.content ?? "";
    this.thinking += delta.reasoning_content ?? "";
    for (const piece of delta.tool_calls ?? []) {
      const call = (this.calls[piece.index] ??= { id: "", name: "", arguments: "" });
      call.id = piece.id ?? call.id;
      call.name += piece.function?.name ?? "";
      call.arguments += piece.function?.arguments ?? "";
    }
    this.tokens.push(...(logprobs?.content ?? []).map(seen));
    this.ended = finish_reason ?? this.ended;
    this.dirty = true;
  }
  shown(): Partial<Turn> {
    this.dirty = false;
    return {
      text: this.text, thinking: this.thinking || undefined, ended: this.ended || undefined,
      calls: this.calls.length ? this.calls.filter(Boolean).map((call) => ({ ...call })) : undefined,
      tokens: this.tokens.length ? [...this.tokens] : undefined,
    };
  }
}

class Answers {
  private readonly gathered: Gathered[];
  private frame = 0;
  private readonly begun = performance.now();
  private first = 0;

  constructor(private readonly chat: string, private readonly turns: Turn[]) {
    this.gathered = turns.map(() => new Gathered());
  }
  take(chunk: Chunk): void {
    if (chunk.choices.length > 0 && !this.first) this.first = performance.now();
    for (const choice of chunk.choices) this.gathered[choice.index]?.take(choice);
    if (chunk.usage) this.note(chunk.usage);
    this.frame ||= requestAnimationFrame(() => this.show());
  }
  end(problem?: Turn["problem"]): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.turns.forEach((turn, i) => changeTurn(this.chat, turn.id, () => ({ ...this.gathered[i]!.shown(), running: false, problem })));
  }
  get empty(): boolean {
    return this.gathered.every((one) => !one.text && !one.thinking && one.calls.length === 0);
  }
  private show(): void {
    this.frame = 0;
    this.turns.forEach((turn, i) => {
      const one = this.gathered[i]!;
      if (one.dirty) changeTurn(this.chat, turn.id, () => one.shown());
    });
  }
  private note(usage: NonNullable<Chunk["usage"]>): void {
    const now = performance.now();
    const figures: Figures = {
      prompt: usage.prompt_tokens, cached: usage.prompt_tokens_details?.cached_tokens ?? 0, made: usage.completion_tokens,
      thought: usage.completion_tokens_details?.reasoning_tokens ?? 0, firstMs: this.first - this.begun, ms: now - this.begun,
      answers: this.turns.length,
    };
    for (const turn of this.turns) changeTurn(this.chat, turn.id, () => ({ figures }));
  }
}

const chatOf = (id: string): Chat => chats.value.find((one) => one.id === id)!;

// Asks for answers behind a turn; they become its branches.
export async function answer(id: string, parent: string): Promise<void> {
  const one = chatOf(id);
  const body = bodyFor(one, pathTo(one, parent));
  const count = Number(body.n ?? 1);
  const turns: Turn[] = Array.from({ length: count }, () => ({
    id: newId(), parent, role: "assistant" as const, text: "", running: true, model: modelName.value,
  }));
  add(id, turns);
  const control = new AbortController();
  running.set(id, control);
  const answers = new Answers(id, turns);
  try {
    for await (const chunk of eventsOf<Chunk>(await ask("/v1/chat/completions", { body, signal: control.signal }))) answers.take(chunk);
    answers.end();
  } catch (failure) {
    const stopped = wasStopped(failure);
    answers.end(stopped && !answers.empty ? undefined : {
      text: stopped ? "Stopped before the first word." : sentenceOf(failure), code: failure instanceof Problem ? failure.code : "stopped",
    });
    if (stopped) for (const turn of turns) changeTurn(id, turn.id, () => ({ ended: "stopped" }));
  } finally {
    if (running.get(id) === control) running.delete(id);
  }
}

export async function say(id: string, parent: string, text: string, pictures: string[]): Promise<void> {
  const turn: Turn = { id: newId(), parent, role: "user", text, ...(pictures.length ? { pictures } : {}) };
  add(id, [turn]);
  await answer(id, turn.id);
}

// The same question in other words: a branch beside it, and an answer to that.
export async function sayInstead(id: string, turn: Turn, text: string): Promise<void> {
  change(id, (one) => ({ beside: { ...one.beside, [turn.parent]: true } }));
  await say(id, turn.parent, text, turn.pictures ?? []);
}

export function writeInstead(id: string, turn: Turn, text: string): void {
  add(id, [{ id: newId(), parent: turn.parent, role: "assistant", text, edited: true, model: turn.model }]);
}

export async function sendResults(id: string, turn: Turn, results: { id: string; text: string }[]): Promise<void> {
  const told: Turn = { id: newId(), parent: turn.id, role: "tool", text: "", results };
  add(id, [told]);
  await answer(id, told.id);
}
