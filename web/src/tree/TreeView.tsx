// The prefix tree, live: what the server remembers of prompts, how much each part is used, and what it lets go of.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { sentenceOf } from "../net/api";
import { count, Notice } from "../shell/bits";
import { usePolling } from "../state/poll";
import { layOut, type Placed, rowHeight } from "./layout";
import { before, happenings, look, search, type Tree, tree, type TreeNode, trouble } from "./watch";

const letter = 6.7; // width of one on a wire
const thickness = (node: TreeNode): number => Math.min(5.5, 2 + 0.7 * Math.log2(1 + node.hits));
const oneLine = (text: string): string => text.replaceAll("\n", "⏎").replaceAll("\t", " ");
const labelOf = (one: Placed): string => {
  const room = Math.floor((one.to - one.x - 12) / letter);
  const text = oneLine(one.node.text ?? `${one.node.end - one.node.begin} tokens`);
  return text.length > room ? `${text.slice(0, Math.max(1, room - 1))}…` : text;
};
const described = (node: TreeNode): string =>
  `${count(node.end - node.begin)} tokens, positions ${node.begin} to ${node.end}, used ${node.hits} times${node.pinned ? ", in use" : ""}`;

// How lately: 0 (just now) to 3.
function ageOf(node: TreeNode, clock: number): number {
  const behind = clock - node.last_use;
  return behind <= 2 ? 0 : behind <= 12 ? 1 : behind <= 60 ? 2 : 3;
}

function Arm({ one, clock, fresh, gone, on, found, onPick }: {
  one: Placed; clock: number; fresh?: boolean; gone?: boolean; on?: boolean; found?: boolean; onPick?: () => void;
}) {
  const { node, x, to, y, fromX, fromY } = one;
  const bend = 9;
  const elbow = fromY === y ? "" : `M${fromX} ${fromY}V${y - bend}Q${fromX} ${y} ${fromX + bend} ${y}H${x}`;
  const names = ["arm", `age${ageOf(node, clock)}`, node.pinned ? "pinned" : "", fresh ? "fresh" : "", gone ? "gone" : "", on ? "on" : "", found ? "found" : ""];
  return (
    <g class={names.filter(Boolean).join(" ")} role={gone ? undefined : "treeitem"} tabindex={gone ? undefined : on ? 0 : -1} data-node={node.id}
      aria-label={gone ? undefined : `${labelOf(one)}: ${described(node)}`} aria-selected={gone ? undefined : on} aria-level={gone ? undefined : depthOf(one)} aria-hidden={gone} onClick={onPick}>
      <path class="touch" d={`M${x} ${y - 6}H${to}`} />
      {elbow && <path class="wood" d={elbow} stroke-width="1.8" />}
      <path class="wood" d={`M${fromY === y ? fromX : x} ${y}H${to}`} stroke-width={thickness(node)} />
      <text x={x + 8} y={y - 7}>{labelOf(one)}</text>
      {node.pinned && <path class="knot" d={`M${to - 9} ${y - 5}l6 10M${to - 3} ${y - 5}l-6 10`} />}
      {node.leaf ? <circle class="fruit" cx={to + 2} cy={y} r={3 + Math.min(4, Math.log2(1 + node.hits))} /> : <circle class="bud" cx={to} cy={y} r="2.4" />}
      {node.more && <path class="dots" d={`M${to + 9} ${y}h.1m5 0h.1m5 0h.1`} />}
    </g>
  );
}

const depthOf = (one: Placed): number => {
  let depth = 1;
  for (let at = one.parent; at; at = at.parent) ++depth;
  return depth;
};

// The nodes that the look before had and this one has not, where they stood.
function goneOf(old: Tree | null, now: Tree): Placed[] {
  if (!old || now.more || now.evicted_tokens === old.evicted_tokens) return [];
  const there = new Set(now.nodes.map((node) => node.id.split(".")[0]));
  return layOut(old).all.filter((one) => !there.has(one.node.id.split(".")[0]));
}

function step(all: Placed[], from: Placed, key: string): Placed | undefined {
  const siblings = from.parent?.children ?? all.filter((one) => !one.parent);
  const at = siblings.indexOf(from);
  switch (key) {
    case "ArrowRight": return from.children[0];
    case "ArrowLeft": return from.parent ?? undefined;
    case "ArrowDown": return siblings[at + 1] ?? (from.parent ? step(all, from.parent, key) : undefined);
    case "ArrowUp": return siblings[at - 1] ?? from.parent ?? undefined;
    case "Home": return all[0];
    case "End": return all.at(-1);
    default: return undefined;
  }
}

function Wall({ now, picked, found, onPick }: { now: Tree; picked: string; found: Set<string>; onPick: (id: string) => void }) {
  const canvas = useRef<HTMLDivElement>(null);
  const drawn = useMemo(() => layOut(now), [now]);
  const gone = useMemo(() => goneOf(before.value, now), [now]);
  const known = useMemo(() => new Set(before.value?.nodes.map((node) => node.id)), [now]);
  const current = drawn.all.find((one) => one.node.id === picked) ?? drawn.all[0];
  const keys = (event: KeyboardEvent) => {
    const next = current && step(drawn.all, current, event.key);
    if (!next) return;
    event.preventDefault();
    onPick(next.node.id);
    requestAnimationFrame(() => canvas.current?.querySelector<SVGGElement>(`[data-node="${next.node.id}"]`)?.focus());
  };
  const height = Math.max(drawn.height, ...gone.map((one) => one.y + rowHeight)) + 10;
  return (
    <div class="canvas" ref={canvas}>
      <svg width={drawn.width} height={height} role={drawn.all.length > 0 ? "tree" : "img"} aria-label="The prefix tree" onKeyDown={keys}>
        <g class="wires" aria-hidden="true">{Array.from({ length: Math.ceil(height / rowHeight) }, (_, i) => <path d={`M0 ${30 + i * rowHeight}H${Math.max(drawn.width, 3000)}`} />)}</g>
        {drawn.trunk.length > 0 && <path class="trunk-line" d={`M34 ${drawn.trunk.at(-1)}V6`} aria-hidden="true" />}
        {gone.map((one) => <Arm key={`gone ${one.node.id}`} one={one} clock={now.clock} gone />)}
        {drawn.all.map((one) => (
          <Arm key={one.node.id} one={one} clock={now.clock} fresh={before.value !== null && !known.has(one.node.id)} on={one === current}
            found={found.has(one.node.id)} onPick={() => onPick(one.node.id)} />
        ))}
      </svg>
    </div>
  );
}

function Pool({ now }: { now: Tree }) {
  const share = (tokens: number) => `${(100 * tokens) / Math.max(1, now.pool_tokens)}%`;
  const rate = now.asked_tokens > 0 ? (100 * now.hit_tokens) / now.asked_tokens : 0;
  return (
    <div class="pool">
      <div class="bar-of-pool" role="img" aria-label={`${now.pinned_tokens} tokens in use, ${now.held_tokens - now.pinned_tokens} kept, of ${now.pool_tokens}`}>
        <i class="pinned" style={{ width: share(now.pinned_tokens) }} /><i class="held" style={{ width: share(now.held_tokens - now.pinned_tokens) }} />
      </div>
      <dl class="facts">
        <div><dt>kept</dt><dd>{count(now.held_tokens)} <small>of {count(now.pool_tokens)} tokens</small></dd></div>
        <div><dt>in use</dt><dd>{count(now.pinned_tokens)}</dd></div>
        <div><dt>nodes</dt><dd>{count(now.held_nodes)}</dd></div>
        <div><dt>found again</dt><dd>{rate.toFixed(1)} % <small>of prompt tokens</small></dd></div>
        <div><dt>evicted</dt><dd>{count(now.evicted_tokens)}</dd></div>
      </dl>
    </div>
  );
}

function Search({ onFound, onPick }: { onFound: (ids: Set<string>) => void; onPick: (id: string) => void }) {
  const [text, setText] = useState("");
  const [hits, setHits] = useState<TreeNode[] | null>(null);
  const [wrong, say] = useState("");
  useEffect(() => {
    if (!text.trim()) {
      setHits(null);
      say("");
      onFound(new Set());
      return;
    }
    let current = true;
    const timer = setTimeout(async () => {
      try {
        const found = (await search(text)).nodes.filter((node) => node.snippet);
        if (!current) return;
        setHits(found);
        onFound(new Set(found.map((node) => node.id)));
        say("");
      } catch (failure) {
        if (current) say(sentenceOf(failure));
      }
    }, 250);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [text]);
  return (
    <section class="search" aria-label="Search by text">
      <label class="field wide"><span>Search by text</span><input type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} placeholder="words of a prompt" /></label>
      <Notice text={wrong} />
      {hits && <p class="note" role="status">{hits.length === 0 ? "No prefix has it." : `${hits.length} ${hits.length === 1 ? "node ends" : "nodes end"} with it or hold it.`}</p>}
      <ul>{hits?.slice(0, 12).map((node) => <li><button type="button" onClick={() => onPick(node.id)}><code>{oneLine(node.snippet!).slice(0, 90)}</code></button></li>)}</ul>
    </section>
  );
}

const verbs = { grew: "grew by", evicted: "let go of", used: "used again" };

function News() {
  return (
    <section class="news" aria-label="What happens">
      <h3>What happens</h3>
      <ol aria-live="polite">
        {happenings.value.slice(0, 20).map((one) => (
          <li key={one.key} class={one.kind}><time>{one.at.toLocaleTimeString("en-GB")}</time> {verbs[one.kind]} <b>{count(one.tokens)}</b> tokens{one.text && <> <code>{oneLine(one.text)}</code></>}</li>
        ))}
      </ol>
      {happenings.value.length === 0 && <p class="note">Nothing since you came here. Ask something, and see the tree grow.</p>}
    </section>
  );
}

function Picked({ node }: { node: TreeNode | undefined }) {
  if (!node) return null;
  const tokens = node.end - node.begin;
  return (
    <section class="picked" aria-label="The chosen node">
      <h3>{count(tokens)} tokens</h3>
      <p class="note">Positions {count(node.begin)} to {count(node.end)} · used {count(node.hits)} {node.hits === 1 ? "time" : "times"} · {node.pinned ? "in use now" : "may be evicted"}</p>
      {node.text !== undefined && <pre tabIndex={0}>{node.text}{(node.text_tokens ?? 0) < tokens && <i> … {count(tokens - node.text_tokens!)} more</i>}</pre>}
    </section>
  );
}

export function TreeView() {
  const [paused, pause] = useState(false);
  const [picked, pick] = useState("");
  const [found, setFound] = useState(new Set<string>());
  usePolling(look, 700, !paused);
  const now = tree.value;
  const node = now?.nodes.find((one) => one.id === picked);
  return (
    <div class="sheet wide tree">
      <header class="bar"><h2>Tree</h2>
        <p>What the server remembers of prompts, so that the same beginning is never computed twice.</p>
        <span class="deeds"><button type="button" aria-pressed={paused} onClick={() => pause(!paused)}>{paused ? "Go on" : "Hold still"}</button></span>
      </header>
      <Notice text={trouble.value} />
      {now && (
        <>
          <Pool now={now} />
          <div class="beside">
            <section class="wall" aria-label="Drawing">
              {now.nodes.length === 0 ? <p class="note">The tree is bare: no prompt has been read yet.</p> : <Wall now={now} picked={picked} found={found} onPick={pick} />}
              {now.more && <p class="note">Of {count(now.held_nodes)} nodes {count(now.nodes.length)} are drawn: the upper and the newest ones.</p>}
            </section>
            <aside class="notes" aria-label="About the tree">
              {now.texts ? <Search onFound={setFound} onPick={pick} /> : <p class="note">The texts of prompts are shown with the admin key only.</p>}
              <Picked node={node} />
              <News />
            </aside>
          </div>
        </>
      )}
    </div>
  );
}
