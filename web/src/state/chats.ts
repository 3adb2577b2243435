// Conversations: a tree of turns each, kept in this browser (IndexedDB). Whoever edits or asks again makes a branch; nothing
// is lost.
import { computed, signal } from "@preact/signals";
import { createStore, del, entries, set } from "idb-keyval";

export interface TokenSeen {
  text: string;
  logprob: number;
  others: { text: string; logprob: number }[]; // the likeliest, this one perhaps among them
}
export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
}
export interface Figures {
  prompt: number;
  cached: number;
  made: number;
  thought: number;
  firstMs: number; // until the first piece
  ms: number;
  answers: number; // that were made at once, of which `made` is told together
}
export interface Turn {
  id: string;
  parent: string; // "" begins the conversation
  role: "user" | "assistant" | "tool";
  text: string;
  pictures?: string[]; // data URLs
  thinking?: string;
  calls?: ToolCall[];
  results?: { id: string; text: string }[]; // of a tool turn
  tokens?: TokenSeen[];
  figures?: Figures;
  ended?: string; // finish_reason
  problem?: { text: string; code: string };
  running?: boolean;
  edited?: boolean;
  model?: string;
}
export interface Chat {
  id: string;
  title: string;
  system: string;
  turns: Turn[]; // in the order in which they were made
  shown: Record<string, string>; // of a fork (the parent's id): the branch that goes on
  beside: Record<string, boolean>; // forks whose branches are shown side by side
  changed: number;
}

export const newId = (): string => crypto.getRandomValues(new Uint32Array(2)).reduce((text, n) => text + n.toString(36), "");
const freshChat = (system = ""): Chat => ({ id: newId(), title: "", system, turns: [], shown: {}, beside: {}, changed: Date.now() });

export const chats = signal<Chat[]>([]);
export const currentId = signal("");
export const chat = computed<Chat>(() => chats.value.find((one) => one.id === currentId.value) ?? freshChat());
export const listed = computed(() => chats.value.filter((one) => one.turns.length > 0).sort((a, b) => b.changed - a.changed));

// --- the browser's store ---

let store: ReturnType<typeof createStore> | undefined;
try {
  store = createStore("espalier", "chats");
} catch {
  store = undefined; // no IndexedDB here: conversations last as long as the tab
}
const saving = new Map<string, number>();

function saveSoon(id: string): void {
  if (!store || saving.has(id)) return;
  saving.set(id, window.setTimeout(() => {
    saving.delete(id);
    const one = chats.value.find((each) => each.id === id);
    if (one && one.turns.length > 0) set(id, one, store).catch(() => undefined);
  }, 400));
}

export async function loadChats(): Promise<void> {
  begin("");
  try {
    const read = (await entries<string, Chat>(store)).map(([, one]) => one).filter(isChat);
    for (const one of read) for (const turn of one.turns) turn.running = false;
    const known = new Set(chats.value.map((one) => one.id));
    chats.value = [...chats.value, ...read.filter((one) => !known.has(one.id))];
  } catch {
    /* likewise */
  }
}

export const isChat = (value: unknown): value is Chat => {
  const one = value as Chat;
  return typeof one?.id === "string" && Array.isArray(one.turns) &&
    one.turns.every((turn) => typeof turn.id === "string" && typeof turn.text === "string" && typeof turn.parent === "string");
};

// --- changes ---

export function change(id: string, work: (one: Chat) => Partial<Chat>): void {
  chats.value = chats.value.map((one) => one.id === id ? { ...one, ...work(one), changed: Date.now() } : one);
  saveSoon(id);
}

export function changeTurn(id: string, turn: string, work: (turn: Turn) => Partial<Turn>): void {
  change(id, (one) => ({ turns: one.turns.map((each) => each.id === turn ? { ...each, ...work(each) } : each) }));
}

export function begin(system = chat.value.system): void {
  const empty = chats.value.find((one) => one.turns.length === 0);
  const next = empty ? { ...empty, system } : freshChat(system);
  chats.value = [next, ...chats.value.filter((one) => one.id !== next.id)];
  currentId.value = next.id;
}

export function add(id: string, turns: Turn[]): void {
  const first = turns[0]!;
  change(id, (one) => ({
    turns: [...one.turns, ...turns],
    shown: { ...one.shown, [first.parent]: first.id },
    beside: turns.length > 1 ? { ...one.beside, [first.parent]: true } : one.beside,
    title: one.title || (first.role === "user" ? first.text.trim().slice(0, 60) || "A picture" : ""),
  }));
}

export function remove(id: string): void {
  chats.value = chats.value.filter((one) => one.id !== id);
  if (store) del(id, store).catch(() => undefined);
  if (currentId.value === id) begin("");
}

// A turn and all behind it.
export function removeTurn(id: string, turn: string): void {
  change(id, (one) => {
    const gone = new Set([turn]);
    for (const each of one.turns) if (gone.has(each.parent)) gone.add(each.id);
    const shown = Object.fromEntries(Object.entries(one.shown).filter(([, child]) => !gone.has(child)));
    return { turns: one.turns.filter((each) => !gone.has(each.id)), shown };
  });
}

// --- reading ---

export const childrenOf = (one: Chat, parent: string): Turn[] => one.turns.filter((turn) => turn.parent === parent);

export function shownChild(one: Chat, parent: string): Turn | undefined {
  const all = childrenOf(one, parent);
  return all.find((turn) => turn.id === one.shown[parent]) ?? all.at(-1);
}

// From a turn on, the branch that is shown.
export function pathFrom(one: Chat, parent: string): Turn[] {
  const path: Turn[] = [];
  for (let next = shownChild(one, parent); next; next = shownChild(one, next.id)) path.push(next);
  return path;
}

export function pathTo(one: Chat, id: string): Turn[] {
  const path: Turn[] = [];
  for (let at = id; at !== "";) {
    const turn = one.turns.find((each) => each.id === at);
    if (!turn) break;
    path.unshift(turn);
    at = turn.parent;
  }
  return path;
}

// --- files ---

export function exportChats(which: Chat[]): void {
  const blob = new Blob([JSON.stringify({ format: "espalier-chats/1", chats: which }, null, 1)], { type: "application/json" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = which.length === 1 ? `espalier-${which[0]!.id}.json` : "espalier-chats.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// How many came in. Throws a sentence.
export function importChats(text: string): number {
  let read: { format?: string; chats?: unknown[] };
  try {
    read = JSON.parse(text);
  } catch {
    throw new Error("This file is no JSON; conversations are exported as .json by this page.");
  }
  if (read.format !== "espalier-chats/1" || !Array.isArray(read.chats) || !read.chats.every(isChat))
    throw new Error("This file holds no conversations of this page (format espalier-chats/1).");
  const taken = (read.chats as Chat[]).map((one) => ({
    ...freshChat(), ...one, turns: one.turns.map((turn) => ({
      ...turn, running: false, pictures: turn.pictures?.filter((url) => url.startsWith("data:image/")),
    })),
  }));
  const ids = new Set(taken.map((one) => one.id));
  chats.value = [...taken, ...chats.value.filter((one) => !ids.has(one.id))];
  for (const one of taken) saveSoon(one.id);
  if (taken[0]) currentId.value = taken[0].id;
  return taken.length;
}
