// Where the nodes of a prefix tree stand: trained like an espalier. Every leaf has a wire of its own; a node's first child goes
// on along its wire, the others leave it downwards. Lengths grow with the logarithm of the tokens.
import type { Tree, TreeNode } from "./watch";

export interface Placed {
  node: TreeNode;
  x: number; // where it begins and ends
  to: number;
  y: number;
  fromX: number; // where its parent ends
  fromY: number;
  children: Placed[];
  parent: Placed | null;
}

export const rowHeight = 30;
const left = 34, top = 30;
const lengthOf = (node: TreeNode): number => 44 + 19 * Math.log2(1 + node.end - node.begin);

export function layOut(tree: Tree): { all: Placed[]; width: number; height: number; trunk: number[] } {
  const placed = new Map<string, Placed>();
  const roots: Placed[] = [];
  const byAge = [...tree.nodes].sort((a, b) => a.begin - b.begin || Number.parseInt(a.id, 10) - Number.parseInt(b.id, 10));
  for (const node of byAge) {
    const parent = node.parent === null ? null : placed.get(node.parent) ?? null;
    const one: Placed = { node, x: 0, to: 0, y: 0, fromX: left, fromY: 0, children: [], parent };
    placed.set(node.id, one);
    (parent ? parent.children : roots).push(one);
  }
  let row = 0, width = 0;
  const trunk: number[] = [];
  const all: Placed[] = [];
  const stack: [Placed, boolean][] = roots.reverse().map((one) => [one, false]);
  while (stack.length > 0) { // depth first, without recursion
    const [one, straight] = stack.pop()!;
    if (!straight) ++row;
    one.y = top + (row - 1) * rowHeight;
    one.fromX = one.parent ? one.parent.to : left;
    one.fromY = one.parent ? one.parent.y : one.y;
    one.x = one.parent ? one.parent.to + (straight ? 5 : 16) : left;
    one.to = one.x + lengthOf(one.node);
    width = Math.max(width, one.to);
    if (!one.parent) trunk.push(one.y);
    all.push(one);
    for (let i = one.children.length - 1; i >= 0; --i) stack.push([one.children[i]!, i === 0]);
  }
  return { all, width: width + 60, height: top + row * rowHeight, trunk };
}
