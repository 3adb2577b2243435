// A program of the language, run inside the server: its graph is drawn, and its nodes fill as they finish.
import { useMemo, useRef, useState } from "preact/hooks";
import { ask, sentenceOf, wasStopped } from "../net/api";
import { eventsOf } from "../net/events";
import { count, Growing, Notice } from "../shell/bits";
import { written } from "../state/program";
import { modelName } from "../state/server";
import { samplingFields } from "../state/settings";
import { type Box, layOut, type ProgramGraph, type Wire } from "./graph";
import { samples } from "./samples";

interface Event {
  type: "program" | "node" | "node_end" | "run_end" | "end";
  graph?: ProgramGraph;
  report?: unknown[];
  run?: number;
  node?: number;
  delta?: string;
  value?: string | string[];
  meta?: { completion_tokens?: number; cached_tokens?: number };
  error?: { message: string };
  errors?: Record<string, { message: string }>;
  usage?: { calls: number; prompt_tokens: number; completion_tokens: number; cached_tokens: number };
}
interface NodeSeen {
  text: string;
  done: boolean;
  tokens?: number;
}
interface RunSeen {
  nodes: Map<number, NodeSeen>;
  ended: boolean;
  errors: string[];
}

function BoxView({ box, run }: { box: Box; run: RunSeen | undefined }) {
  const seen = box.kind === "call" ? run?.nodes.get(box.nodes[0]!) : undefined;
  const state = box.kind !== "call" ? "" : seen?.done ? " done" : seen ? " running" : "";
  const text = seen ? seen.text : box.text.trim();
  return (
    <li class={`box ${box.kind}${state}`} style={{ left: `${box.x - box.width / 2}px`, top: `${box.y - box.height / 2}px`, width: `${box.width}px`, height: `${box.height}px` }}
      title={text || box.title} aria-label={box.kind === "call" ? `${box.title}: ${seen ? (seen.done ? text : "running") : "not yet"}` : box.text || box.title}>
      {box.kind === "call" && <b>{box.title}{seen?.tokens !== undefined && <small>{seen.tokens} tokens</small>}</b>}
      {(box.kind === "call" || box.kind === "says") && <span>{text}</span>}
    </li>
  );
}

function Drawing({ graph, run }: { graph: ProgramGraph; run: RunSeen | undefined }) {
  const { boxes, wires, width, height } = useMemo(() => layOut(graph), [graph]);
  const curve = ({ from, to }: Wire) => {
    const y1 = from.y + from.height / 2, y2 = to.y - to.height / 2, middle = (y1 + y2) / 2;
    return `M${from.x} ${y1}C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${y2}`;
  };
  return (
    <div class="canvas" tabIndex={0} role="region" aria-label="The program's graph">
      <div class="boxes" style={{ width: `${width}px`, height: `${height}px` }}>
        <svg width={width} height={height} aria-hidden="true">{wires.map((wire) => <path class={wire.carries ? "carries" : ""} d={curve(wire)} />)}</svg>
        <ul aria-label="Nodes">{boxes.map((box) => <BoxView key={box.id} box={box} run={run} />)}</ul>
      </div>
    </div>
  );
}

function readProgram(text: string): { graph: ProgramGraph | null; trouble: string } {
  try {
    const graph = JSON.parse(text) as ProgramGraph;
    if (!Array.isArray(graph.nodes)) return { graph: null, trouble: "The program has no list \"nodes\"; docs/language.md tells of graphs." };
    return { graph, trouble: "" };
  } catch (failure) {
    return { graph: null, trouble: `The program is no JSON yet: ${(failure as Error).message}` };
  }
}

function take(runs: RunSeen[], event: Event): RunSeen[] {
  const out = [...runs];
  const run = { ...(out[event.run!] ?? { nodes: new Map(), ended: false, errors: [] }) };
  run.nodes = new Map(run.nodes);
  const node = run.nodes.get(event.node!) ?? { text: "", done: false };
  if (event.type === "node") run.nodes.set(event.node!, { ...node, text: node.text + event.delta });
  if (event.type === "node_end") {
    const value = Array.isArray(event.value) ? event.value.join(" | ") : event.value ?? node.text;
    run.nodes.set(event.node!, { text: value, done: true, tokens: event.meta?.completion_tokens });
  }
  if (event.type === "run_end") {
    run.ended = true;
    run.errors = [event.error?.message, ...Object.values(event.errors ?? {}).map((error) => error.message)].filter((text) => text !== undefined);
  }
  out[event.run!] = run;
  return out;
}

export function ProgramView() {
  const [running, setRunning] = useState(false);
  const [trouble, say] = useState("");
  const [compiled, setCompiled] = useState<ProgramGraph | null>(null);
  const [runs, setRuns] = useState<RunSeen[]>([]);
  const [at, choose] = useState(0);
  const [usage, setUsage] = useState<Event["usage"]>();
  const control = useRef<AbortController>(undefined);
  const read = useMemo(() => readProgram(written.value.program), [written.value.program]);
  const write = (change: Partial<typeof written.value>) => {
    written.value = { ...written.value, ...change };
    setCompiled(null);
    setRuns([]);
    setUsage(undefined);
  };

  const start = async () => {
    let seen: RunSeen[] = [], frame = 0;
    setCompiled(null);
    setRuns([]);
    setUsage(undefined);
    say("");
    setRunning(true);
    control.current = new AbortController();
    try {
      const { max_tokens: _, ...options } = samplingFields(false);
      const body = { model: modelName.value, program: read.graph, arguments: JSON.parse(written.value.arguments || "{}"), sampling_params: options, stream: true };
      for await (const event of eventsOf<Event>(await ask("/v1/programs", { body, signal: control.current.signal }))) {
        if (event.type === "program") setCompiled(event.graph!);
        else if (event.type === "end") setUsage(event.usage);
        else {
          seen = take(seen, event);
          frame ||= requestAnimationFrame(() => { frame = 0; setRuns(seen); });
        }
      }
    } catch (failure) {
      if (!wasStopped(failure)) say(sentenceOf(failure));
    }
    cancelAnimationFrame(frame);
    setRuns(seen);
    setRunning(false);
  };
  const graph = compiled ?? read.graph;
  const errors = runs.flatMap((run) => run?.errors ?? []);
  return (
    <div class="sheet wide program">
      <header class="bar"><h2>Program</h2>
        <p>{graph ? `${graph.name}: ${graph.streams} ${graph.streams === 1 ? "stream" : "streams"}, ${graph.nodes.length} nodes${compiled ? " as compiled" : ""}` : ""}</p>
        <span class="deeds">
          {runs.length > 1 && (
            <label class="field"><span>Run</span>
              <select value={at} onChange={(event) => choose(Number(event.currentTarget.value))}>{runs.map((run, i) => <option value={i}>{i + 1}{run?.ended ? ", ended" : ""}</option>)}</select>
            </label>
          )}
          {running ? <button type="button" class="stop" onClick={() => control.current?.abort()}>Stop</button>
            : <button type="button" class="main" disabled={!read.graph} onClick={() => void start()}>Run it</button>}
        </span>
      </header>
      <Notice text={trouble || errors.join(" ")} />
      <div class="beside">
        <section class="wall" aria-label="Graph">
          {graph && !read.trouble && <Drawing graph={graph} run={runs[Math.min(at, Math.max(0, runs.length - 1))]} />}
          {usage && <p class="note" role="status">{usage.calls} calls, {count(usage.completion_tokens)} tokens made; {count(usage.cached_tokens)} of {count(usage.prompt_tokens)} prompt tokens came from the tree.</p>}
        </section>
        <aside class="notes" aria-label="The program's text">
          <label class="field"><span>Begin with</span>
            <select onChange={(event) => {
              const sample = samples[event.currentTarget.selectedIndex]!;
              write({ program: JSON.stringify(sample[1], null, 1), arguments: JSON.stringify(sample[2]) });
            }}>{samples.map(([name]) => <option>{name}</option>)}</select>
          </label>
          <label class="field wide"><span>Arguments (a list: a run for each)</span>
            <Growing mono label="Arguments, as JSON" value={written.value.arguments} onInput={(text) => write({ arguments: text })} />
          </label>
          <label class="field wide"><span>The graph, as JSON</span>
            <textarea class="mono" rows={16} spellcheck={false} aria-label="The graph, as JSON" aria-invalid={read.trouble !== ""} value={written.value.program} onInput={(event) => write({ program: event.currentTarget.value })} />
          </label>
          {read.trouble && <p class="problem" role="status">{read.trouble}</p>}
        </aside>
      </div>
    </div>
  );
}
