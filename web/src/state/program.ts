// The program that the view Program shows and runs, and the arguments that it is given.
import { samples } from "../program/samples";
import { kept } from "./kept";

const [, first, given] = samples[0]!;
export const written = kept("espalier.program", { program: JSON.stringify(first, null, 1), arguments: JSON.stringify(given) });
