// Programs to begin with, as POST /v1/programs takes them.
import type { GraphNode, ProgramGraph } from "./graph";

const says = (stream: number, text: string): GraphNode => ({ stream, kind: "text", text });
const argument = (stream: number, name: string): GraphNode => ({ stream, kind: "argument", name });
const gen = (stream: number, name: string, options: Record<string, unknown>): GraphNode => ({ stream, kind: "gen", name, options });
const variable = (stream: number, name: string, of: number): GraphNode => ({ stream, kind: "variable", name, of });

const sides = ["colour", "shape", "taste"];
const judge: ProgramGraph = {
  version: 1, name: "judge", parameters: ["fruit"], streams: 4,
  nodes: [
    says(0, "Notes of a fruit grower about the "), argument(0, "fruit"), says(0, ".\n"),
    { stream: 0, kind: "fork", children: [1, 2, 3] },
    ...sides.flatMap((side, i) => [says(i + 1, `Its ${side}: `), gen(i + 1, side, { max_tokens: 24, stop: ["\n"] })]),
    { stream: 0, kind: "join", children: [1, 2, 3], mode: "gather_variable" },
    ...sides.flatMap((side, i) => [says(0, `${side}: `), variable(0, side, i + 1), says(0, "\n")]),
    says(0, "In one sentence: "), gen(0, "sum", { max_tokens: 40, stop: ["\n"] }),
    says(0, "\nWorth planting? "), { stream: 0, kind: "select", name: "verdict", choices: ["yes", "no", "only on a warm wall"] },
  ],
};
const steps: ProgramGraph = {
  version: 1, name: "two steps", parameters: ["topic"], streams: 1,
  nodes: [
    says(0, "A question about "), argument(0, "topic"), says(0, ": "), gen(0, "question", { max_tokens: 24, stop: ["\n"] }),
    says(0, "\nIts answer: "), gen(0, "answer", { max_tokens: 40, stop: ["\n"] }),
  ],
};

export const samples: [string, ProgramGraph, unknown][] = [
  ["Three judges, one verdict", judge, { fruit: "quince" }],
  ["Question and answer, three times", steps, [{ topic: "roots" }, { topic: "grafting" }, { topic: "frost" }]],
];
