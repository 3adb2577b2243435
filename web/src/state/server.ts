// What the server says of itself (GET /v1/state): asked when the page opens, and over again by views that show it live.
import { computed, signal } from "@preact/signals";
import { askJson, sentenceOf } from "../net/api";
import { chosen, sampling } from "./settings";

export interface HistogramState {
  bounds: number[];
  counts: number[];
  sum: number;
}
export interface ModelState {
  name: string;
  state: string;
  progress: number;
  architecture?: string;
  quantization?: string;
  context_length?: number;
  max_running?: number;
  prefill_chunk?: number;
  isa?: string;
  threads?: number;
  kv_cache_dtype?: string;
  running?: number;
  waiting?: number;
  waiting_tokens?: number;
  tokens_per_second?: number;
  steps?: number;
  pool?: { tokens: number; free: number; cached: number; pinned: number };
  memory?: { weights: number; kv: number; states: number; tower: number };
  abilities?: { generate: boolean; chat: boolean; vision: boolean; tools: boolean; thinking: boolean };
  sampling?: Record<string, number>; // what the model proposes
  counters?: Record<string, number>;
  histograms?: Record<string, HistogramState>;
}
export interface ServerState {
  version: string;
  phase: "ready" | "loading" | "draining";
  loading?: string;
  started_at: number;
  wants_key: boolean;
  reads_all: boolean;
  resident_bytes: number;
  models: ModelState[];
}

export const serverState = signal<ServerState | null>(null);
export const serverTrouble = signal("");

export async function askState(): Promise<ServerState | null> {
  try {
    serverState.value = await askJson<ServerState>("/v1/state");
    serverTrouble.value = "";
    return serverState.value;
  } catch (failure) {
    serverTrouble.value = sentenceOf(failure);
    return null;
  }
}

// The chosen model, else the server's first.
export const model = computed<ModelState | undefined>(() => {
  const all = serverState.value?.models ?? [];
  return all.find((one) => one.name === chosen.value.model) ?? all[0];
});
// How chats are sampled when neither the model nor the reader says so: at OpenAI's temperature of 1 small models ramble.
export const standIn = computed((): Record<string, number> => {
  const proposed = model.value?.sampling;
  const said = ["temperature", "top_p", "top_k", "min_p"].some((name) => sampling.value.values[name] !== undefined);
  return proposed && Object.keys(proposed).length === 0 && !said ? { temperature: 0.7, top_p: 0.9 } : {};
});
export const modelName = computed(() => model.value?.name ?? chosen.value.model);

// As people read it: of a folder or file its last part.
export const shortName = (name: string): string => name.split("/").filter(Boolean).at(-1) ?? name;
