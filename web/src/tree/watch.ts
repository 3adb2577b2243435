// The prefix tree as the server tells it, look by look, and what happened between two looks.
import { signal } from "@preact/signals";
import { askJson, sentenceOf } from "../net/api";
import { modelName } from "../state/server";

export interface TreeNode {
  id: string; // "index.generation"
  parent: string | null;
  scope: number;
  begin: number;
  end: number;
  hits: number;
  last_use: number;
  pinned: boolean;
  leaf: boolean;
  more: boolean;
  text?: string;
  text_tokens?: number;
  snippet?: string;
}
export interface Tree {
  model: string;
  texts: boolean;
  more: boolean;
  clock: number;
  held_nodes: number;
  held_tokens: number;
  pinned_tokens: number;
  scopes: number;
  pool_tokens: number;
  asked_tokens: number;
  hit_tokens: number;
  inserted_tokens: number;
  evicted_tokens: number;
  found?: number;
  nodes: TreeNode[];
}
export interface Happening {
  key: number;
  at: Date;
  kind: "grew" | "evicted" | "used";
  tokens: number;
  text: string;
}

export const tree = signal<Tree | null>(null);
export const before = signal<Tree | null>(null);
export const trouble = signal("");
export const happenings = signal<Happening[]>([]);
const most = 60;
let keys = 0;

const indexOf = (node: TreeNode): string => node.id.split(".")[0]!;
const startOf = (node: TreeNode): string => (node.text ?? "").trim().slice(0, 60);

function note(kind: Happening["kind"], tokens: number, text: string): Happening {
  return { key: ++keys, at: new Date(), kind, tokens, text };
}

// A look says what is there; what came and went follows from two of them.
function compare(old: Tree, now: Tree): Happening[] {
  const out: Happening[] = [];
  const there = new Map(now.nodes.map((node) => [indexOf(node), node]));
  const were = new Map(old.nodes.map((node) => [indexOf(node), node]));
  const evicted = now.evicted_tokens - old.evicted_tokens;
  if (evicted > 0) {
    const gone = old.nodes.filter((node) => {
      const next = there.get(indexOf(node));
      return !next || (next.begin === node.begin && next.end < node.end);
    });
    const largest = gone.sort((a, b) => b.end - b.begin - (a.end - a.begin))[0];
    out.push(note("evicted", evicted, largest ? startOf(largest) : ""));
  }
  const grown = now.inserted_tokens - old.inserted_tokens;
  if (grown > 0) {
    const fresh = now.nodes.filter((node) => !were.has(indexOf(node)) || were.get(indexOf(node))!.end < node.end);
    const largest = fresh.sort((a, b) => b.last_use - a.last_use)[0];
    out.push(note("grew", grown, largest ? startOf(largest) : ""));
  }
  const hit = now.hit_tokens - old.hit_tokens;
  if (hit > 0) {
    const used = now.nodes.filter((node) => (were.get(indexOf(node))?.hits ?? 0) < node.hits).sort((a, b) => b.last_use - a.last_use)[0];
    out.push(note("used", hit, used ? startOf(used) : ""));
  }
  return out;
}

export async function look(): Promise<void> {
  try {
    const now = await askJson<Tree>(`/v1/cache/tree?limit=400&tokens=160&model=${encodeURIComponent(modelName.value)}`);
    const old = tree.value;
    if (old && old.model === now.model) {
      const news = compare(old, now);
      if (news.length > 0) happenings.value = [...news.reverse(), ...happenings.value].slice(0, most);
    }
    before.value = old?.model === now.model ? old : null;
    tree.value = now;
    trouble.value = "";
  } catch (failure) {
    trouble.value = sentenceOf(failure);
  }
}

export const search = (text: string): Promise<Tree> =>
  askJson<Tree>(`/v1/cache/tree?limit=50&tokens=60&search=${encodeURIComponent(text)}&model=${encodeURIComponent(modelName.value)}`);
