// Calls to the server that this page came from, and what becomes of a refusal: a Problem whose message is a sentence.
import { effect, signal } from "@preact/signals";

export const base = location.pathname.replace(/\/$/, "");

const kept = (area: () => Storage, name: string): string => {
  try {
    return area().getItem(name) ?? "";
  } catch {
    return ""; // storage is switched off: nothing is kept
  }
};
export function keep(area: () => Storage, name: string, value: string): void {
  try {
    if (value) area().setItem(name, value);
    else area().removeItem(name);
  } catch {
    /* likewise */
  }
}

// The key stays in this tab, unless it is to be remembered.
export const rememberKey = signal(kept(() => localStorage, "espalier.key") !== "");
export const key = signal(kept(() => sessionStorage, "espalier.key") || kept(() => localStorage, "espalier.key"));
export const keyWanted = signal(false);
effect(() => {
  keep(() => sessionStorage, "espalier.key", key.value);
  keep(() => localStorage, "espalier.key", rememberKey.value ? key.value : "");
});

export class Problem extends Error {
  constructor(message: string, readonly status = 0, readonly code = "", readonly field = "") {
    super(message);
  }
}

async function refusalOf(response: Response): Promise<Problem> {
  const text = await response.text();
  try {
    const error = JSON.parse(text).error;
    return new Problem(error.message, response.status, String(error.code ?? ""), error.param ?? "");
  } catch {
    return new Problem(text.slice(0, 300) || `The server answered ${response.status}.`, response.status);
  }
}

export interface Ask {
  body?: unknown;
  signal?: AbortSignal;
}

export async function ask(path: string, { body, signal }: Ask = {}): Promise<Response> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key.value) headers.Authorization = `Bearer ${key.value}`;
  let response: Response;
  try {
    response = await fetch(base + path, {
      method: body === undefined ? "GET" : "POST", headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (failure) {
    if (signal?.aborted) throw failure;
    throw new Problem("The server cannot be reached. Is it still running?");
  }
  if (response.ok) {
    keyWanted.value = false;
    return response;
  }
  const problem = await refusalOf(response);
  if (problem.status === 401) keyWanted.value = true;
  throw problem;
}

export async function askJson<T>(path: string, more: Ask = {}): Promise<T> {
  return (await ask(path, more)).json() as Promise<T>;
}

export const wasStopped = (failure: unknown): boolean => failure instanceof DOMException && failure.name === "AbortError";
export const sentenceOf = (failure: unknown): string => failure instanceof Error ? failure.message : String(failure);
