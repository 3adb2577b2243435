// A program's graph as boxes and wires: what is said between two calls is one box, a call is a box, forks and joins are knots.
import * as dagre from "@dagrejs/dagre";

export interface GraphNode {
  stream: number;
  kind: string;
  text?: string;
  name?: string;
  role?: string;
  of?: number;
  choices?: string[];
  children?: number[];
  mode?: string;
  options?: Record<string, unknown>;
}
export interface ProgramGraph {
  version: number;
  name: string;
  parameters: string[];
  streams: number;
  nodes: GraphNode[];
}
export interface Box {
  id: string;
  kind: "says" | "call" | "fork" | "join";
  nodes: number[]; // of the graph
  title: string;
  text: string;
  x: number;
  y: number;
  width: number;
  height: number;
}
export interface Wire {
  from: Box;
  to: Box;
  carries: boolean; // a variable, not what comes next
}

const calls = new Set(["gen", "select", "sample"]);
const silent = new Set(["role_begin", "role_end", "scope_begin", "scope_end", "movable_begin", "movable_end", "chain", "reasoning_end"]);

function partOf(node: GraphNode): string {
  switch (node.kind) {
    case "text": return node.text ?? "";
    case "argument": return `{${node.name}}`;
    case "variable": return `‹${node.name}›`;
    case "role_begin": return `[${node.role ?? node.name ?? ""}] `;
    default: return silent.has(node.kind) ? "" : `‹${node.kind}›`;
  }
}

function boxesOf(graph: ProgramGraph): { boxes: Box[]; next: [string, string, boolean][] } {
  const boxes: Box[] = [];
  const last = new Map<number, Box>(); // of each stream
  const begins = new Map<number, Box>(); // the fork that a stream begins at
  const maker = new Map<string, Box>(); // of a stream's variable
  const next: [string, string, boolean][] = [];
  const open = (kind: Box["kind"], i: number, title: string, size: [number, number]): Box => {
    const stream = graph.nodes[i]!.stream;
    const box: Box = { id: `b${boxes.length}`, kind, nodes: [], title, text: "", x: 0, y: 0, width: size[0], height: size[1] };
    const from = last.get(stream) ?? begins.get(stream);
    if (from && !(from.kind === "fork" && kind === "join")) next.push([from.id, box.id, false]); // that is what the branches do
    last.set(stream, box);
    boxes.push(box);
    return box;
  };
  graph.nodes.forEach((node, i) => {
    if (calls.has(node.kind)) {
      const name = node.name ?? "";
      const box = open("call", i, name || node.kind, [190, 74]);
      box.nodes.push(i);
      maker.set(`${node.stream} ${name}`, box);
    } else if (node.kind === "fork" || node.kind === "join") {
      const box = open(node.kind, i, node.kind, [26, 26]);
      box.nodes.push(i);
      for (const child of node.children ?? []) {
        if (node.kind === "fork") begins.set(child, box);
        else if (last.has(child)) next.push([last.get(child)!.id, box.id, false]);
      }
    } else {
      const text = partOf(node);
      const now = last.get(node.stream);
      const box = now?.kind === "says" ? now : text ? open("says", i, "", [190, 44]) : undefined;
      if (!box) return;
      box.nodes.push(i);
      box.text += text;
      const from = node.kind === "variable" ? maker.get(`${node.of ?? node.stream} ${node.name}`) : undefined;
      if (from) next.push([from.id, box.id, true]);
    }
  });
  return { boxes, next };
}

export function layOut(program: ProgramGraph): { boxes: Box[]; wires: Wire[]; width: number; height: number } {
  const { boxes, next } = boxesOf(program);
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 22, ranksep: 30, marginx: 14, marginy: 14 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const box of boxes) graph.setNode(box.id, { width: box.width, height: box.height });
  next.forEach(([from, to], i) => graph.setEdge(from, to, {}, String(i)));
  dagre.layout(graph);
  for (const box of boxes) Object.assign(box, { x: graph.node(box.id).x, y: graph.node(box.id).y });
  const named = new Map(boxes.map((box) => [box.id, box]));
  const wires = next.map(([from, to, carries]) => ({ from: named.get(from)!, to: named.get(to)!, carries }));
  const size = graph.graph();
  return { boxes, wires, width: size.width ?? 0, height: size.height ?? 0 };
}
