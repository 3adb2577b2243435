// The scheduler, live: who runs and waits, how full the batch and the pool are, how fast tokens come, how long things take.
import { signal } from "@preact/signals";
import { bytes, count, duration, Notice } from "../shell/bits";
import { usePolling } from "../state/poll";
import { askState, model, type ModelState, serverState, serverTrouble, shortName } from "../state/server";
import { Bars, Lines } from "./charts";

interface Moment {
  at: number;
  made: number; // tokens a second since the moment before
  read: number;
  running: number;
  waiting: number;
}

const points = 120;
const history = signal<{ model: string; moments: Moment[]; last: { at: number; generated: number; computed: number } | null }>({ model: "", moments: [], last: null });

async function watch(): Promise<void> {
  await askState();
  const one = model.value;
  if (!one?.counters) return;
  const at = performance.now() / 1000;
  const old = history.value.model === one.name ? history.value : { model: one.name, moments: [], last: null };
  const generated = one.counters.generated_tokens ?? 0, computed = one.counters.computed_tokens ?? 0;
  const passed = old.last ? Math.max(0.1, at - old.last.at) : 1;
  const moment: Moment = {
    at, made: old.last ? Math.max(0, generated - old.last.generated) / passed : 0, read: old.last ? Math.max(0, computed - old.last.computed) / passed : 0,
    running: one.running ?? 0, waiting: one.waiting ?? 0,
  };
  history.value = { model: one.name, moments: [...old.moments, moment].slice(-points), last: { at, generated, computed } };
}

// Every place of the batch as a bud; those that are taken are open.
function Batch({ one }: { one: ModelState }) {
  const places = one.max_running ?? 0, running = one.running ?? 0;
  const drawn = Math.min(places, 128);
  return (
    <figure class="chart batch">
      <figcaption><span>Batch</span><b>{running}<small> of {places} places</small></b></figcaption>
      <div class="buds" role="img" aria-label={`${running} of ${places} places of the batch are taken, ${one.waiting} wait`}>
        {Array.from({ length: drawn }, (_, i) => <i class={i < running ? "open" : ""} />)}
      </div>
      <p class="note">{one.waiting ? `${count(one.waiting)} wait, with ${count(one.waiting_tokens ?? 0)} prompt tokens` : "Nobody waits"}</p>
    </figure>
  );
}

function Memory({ one }: { one: ModelState }) {
  const memory = one.memory!, pool = one.pool!;
  const used = pool.tokens - pool.free - pool.cached;
  const parts = [["weights", memory.weights], ["keys and values", memory.kv], ["states", memory.states], ["tower", memory.tower]] as const;
  const all = parts.reduce((sum, [, n]) => sum + n, 0);
  return (
    <figure class="chart memory">
      <figcaption><span>Memory</span><b>{bytes(serverState.value!.resident_bytes)}<small> resident</small></b></figcaption>
      <div class="bar-of-pool" role="img" aria-label={parts.map(([name, n]) => `${name} ${bytes(n)}`).join(", ")}>
        {parts.map(([name, n], i) => n > 0 && <i class={`part${i}`} style={{ width: `${(100 * n) / all}%` }} title={`${name}: ${bytes(n)}`} />)}
      </div>
      <dl>{parts.filter(([, n]) => n > 0).map(([name, n], i) => <div><dt><i class={`key part${i}`} />{name}</dt><dd>{bytes(n)}</dd></div>)}</dl>
      <figcaption><span>Token pool</span><b>{count(used)}<small> of {count(pool.tokens)} in use</small></b></figcaption>
      <div class="bar-of-pool" role="img" aria-label={`Of ${pool.tokens} tokens ${used} are in use, ${pool.cached} kept for others, ${pool.free} free`}>
        <i class="pinned" style={{ width: `${(100 * used) / pool.tokens}%` }} /><i class="held" style={{ width: `${(100 * pool.cached) / pool.tokens}%` }} />
      </div>
      <dl>
        <div><dt><i class="key pinned" />in use</dt><dd>{count(used)}</dd></div><div><dt><i class="key held" />kept in the tree</dt><dd>{count(pool.cached)}</dd></div>
        <div><dt><i class="key" />free</dt><dd>{count(pool.free)}</dd></div>
      </dl>
    </figure>
  );
}

const hist = [
  ["time_to_first_token", "Until the first token"], ["inter_token_latency", "Between two tokens"], ["queue", "In the queue"],
  ["step", "A step of the engine"], ["request_duration", "A whole request"],
] as const;

function Shown({ one }: { one: ModelState }) {
  const { moments } = history.value;
  const values = (of: (moment: Moment) => number) => moments.map(of);
  const counters = one.counters!;
  const found = counters.queried_tokens ? (100 * counters.cached_tokens!) / counters.queried_tokens : 0;
  const made = values((m) => m.made);
  return (
    <>
      <div class="charts">
        <Lines label="Generated" now={(made.at(-1) ?? 0).toFixed(0)} unit="tokens a second" points={points} series={[{ name: "generated", values: made, kind: "leafy" }]} />
        <Lines label="Prompts read" now={(values((m) => m.read).at(-1) ?? 0).toFixed(0)} unit="tokens a second" points={points} series={[{ name: "read", values: values((m) => m.read), kind: "fruity" }]} />
        <Lines label="Running and waiting" now={`${one.running} · ${one.waiting}`} unit="requests" points={points} most={4}
          series={[{ name: "running", values: values((m) => m.running), kind: "leafy" }, { name: "waiting", values: values((m) => m.waiting), kind: "fruity" }]} />
        <Batch one={one} />
        <Memory one={one} />
        {hist.map(([name, label]) => one.histograms?.[name] && <Bars label={label} histogram={one.histograms[name]!} />)}
        {one.histograms?.batch_size && <Bars label="Sequences in a step" histogram={one.histograms.batch_size} format={(n) => n.toFixed(0)} />}
      </div>
      <dl class="facts">
        <div><dt>requests</dt><dd>{count(counters.requests!)}</dd></div>
        <div><dt>prompt tokens</dt><dd>{count(counters.prompt_tokens!)}</dd></div>
        <div><dt>found in the tree</dt><dd>{found.toFixed(1)} %</dd></div>
        <div><dt>generated</dt><dd>{count(counters.generated_tokens!)}</dd></div>
        <div><dt>forced by a form</dt><dd>{count(counters.forced_tokens!)}</dd></div>
        <div><dt>guessed right</dt><dd>{count(counters.accepted_tokens!)}</dd></div>
        <div><dt>sent back to wait</dt><dd>{count(counters.preemptions!)}</dd></div>
        <div><dt>steps</dt><dd>{count(one.steps!)}</dd></div>
      </dl>
    </>
  );
}

export function LoadView() {
  usePolling(watch, 1000);
  const one = model.value, state = serverState.value;
  return (
    <div class="sheet wide load" tabIndex={0} role="region" aria-label="Load of the server">
      <header class="bar"><h2>Load</h2>
        {one && state && <p>{shortName(one.name)} on {one.isa}, {one.threads} {one.threads === 1 ? "thread" : "threads"} · version {state.version} · up {duration(Date.now() / 1000 - state.started_at)}</p>}
      </header>
      <Notice text={serverTrouble.value} />
      {one?.histograms ? <Shown one={one} /> : one && <p class="note">{one.name} is {one.state}{one.state === "loading" ? `, ${(100 * one.progress).toFixed(0)} %` : ""}.</p>}
    </div>
  );
}
