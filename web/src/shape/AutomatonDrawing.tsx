// An automaton from left to right: states as knots, what leads on as wires with what is read on them.
import * as dagre from "@dagrejs/dagre";
import { useEffect, useMemo, useRef } from "preact/hooks";

export interface Automaton {
  nodes: { depth: number; end: boolean; more: boolean }[];
  edges: { from: number; to: number; label: string }[];
}

const most = 22; // letters on a wire
const mostAbove = 12; // above a knot there are wires of others at both sides
const short = (label: string, letters = most): string => {
  const seen = label.replaceAll("␠", "␣"); // as everywhere in the page
  return seen.length > letters ? `${seen.slice(0, letters - 1)}…` : seen;
};
const path = (points: { x: number; y: number }[]): string => {
  const [first, ...rest] = points as [{ x: number; y: number }, ...{ x: number; y: number }[]];
  let out = `M${first.x} ${first.y}`;
  for (let i = 0; i + 1 < rest.length; ++i) {
    const a = rest[i]!, b = rest[i + 1]!;
    const last = i + 2 === rest.length;
    out += `Q${a.x} ${a.y} ${last ? b.x : (a.x + b.x) / 2} ${last ? b.y : (a.y + b.y) / 2}`;
  }
  return rest.length === 1 ? `${out}L${rest[0]!.x} ${rest[0]!.y}` : out;
};

function layOut(automaton: Automaton) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 16, ranksep: 26, edgesep: 10, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  const loops = new Set(automaton.edges.filter((edge) => edge.from === edge.to).map((edge) => edge.from));
  automaton.nodes.forEach((_, i) => graph.setNode(String(i), { width: loops.has(i) ? 40 : 20, height: loops.has(i) ? 84 : 20 }));
  automaton.edges.forEach((edge, i) => edge.from !== edge.to &&
    graph.setEdge(String(edge.from), String(edge.to), { width: short(edge.label).length * 7 + 10, height: 16, labelpos: "c" }, String(i)));
  dagre.layout(graph);
  return graph;
}

// A state that stays where it is: a bow above it.
function Loops({ x, y, labels }: { x: number; y: number; labels: string[] }) {
  const text = short(labels.join(" "), mostAbove);
  return (
    <g class="way"><title>{labels.join("   ")}</title>
      <path d={`M${x - 6} ${y - 9}C${x - 18} ${y - 30} ${x + 18} ${y - 30} ${x + 6} ${y - 10}`} marker-end="url(#tip)" />
      <text x={x} y={y - 29} text-anchor="middle">{text}</text>
    </g>
  );
}

export function AutomatonDrawing({ automaton }: { automaton: Automaton }) {
  const graph = useMemo(() => layOut(automaton), [automaton]);
  const canvas = useRef<HTMLDivElement>(null);
  useEffect(() => { // where it begins is in sight
    const start = graph.node("0") as { y: number };
    canvas.current!.scrollTop = start.y - canvas.current!.clientHeight / 2;
  }, [graph]);
  const size = graph.graph();
  const width = Math.max(60, size.width ?? 0), height = Math.max(40, size.height ?? 0);
  return (
    <div class="canvas" ref={canvas} tabIndex={0} role="region" aria-label="Drawing of the automaton">
      <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img"
        aria-label={`An automaton of ${automaton.nodes.length} states and ${automaton.edges.length} ways between them`}>
        <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M1 1L7 4L1 7" class="tip" /></marker></defs>
        {graph.edges().map((name) => {
          const edge = graph.edge(name) as { points: { x: number; y: number }[]; x: number; y: number };
          const label = automaton.edges[Number(name.name)]!.label;
          return (
            <g class="way"><title>{label}</title><path d={path(edge.points)} marker-end="url(#tip)" />
              <rect x={edge.x - short(label).length * 3.5 - 3} y={edge.y - 8} width={short(label).length * 7 + 6} height="16" rx="2" />
              <text x={edge.x} y={edge.y + 4} text-anchor="middle">{short(label)}</text></g>
          );
        })}
        {automaton.nodes.map((state, i) => {
          const { x, y } = graph.node(String(i)) as { x: number; y: number };
          const loops = automaton.edges.filter((edge) => edge.from === i && edge.to === i).map((edge) => edge.label);
          return (
            <g class={`state${state.end ? " end" : ""}${state.more ? " more" : ""}${i === 0 ? " start" : ""}`} transform={`translate(${x} ${y})`}>
              {loops.length > 0 && <Loops x={0} y={0} labels={loops} />}{state.end && <circle r="9.5" class="ring" />}<circle r="5.5" />
            </g>
          );
        })}
      </svg>
    </div>
  );
}
