"""instructions.py [--page FILE] [--objects DIR]: the tables of docs/devices/kernels.md, out of the objects that tools/cuda.sh compiled:
what the code of the main kernels has of tensor cores and copies on each architecture, and how full their innermost loops are.

Names of kernels are those of build/cuda/kernels.txt. A cell: registers of a thread, then instructions as they stand in the code (not
how often they run): products of tensor cores (HGMMA: of a warp group, HMMA: of floats, IMMA: of integers), loads of matrices (LDSM),
copies to shared memory (UTMALDG: by the tensor memory accelerator, LDGSTS: by a thread), and loads and stores of a thread's own memory
(spills of registers, or arrays that are indexed; tools/cuda/resources.py tells them apart and refuses spills).
With --page the lines between the page's two marks become the tables; without, they are printed."""
import argparse
import collections
import os
import pathlib
import re
import sys

from resources import demangled
from sass import INSTRUCTION, cuobjdump, usage

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHS = ("80", "89", "90a", "100a", "120")
PRODUCTS, OTHERS, OWN = ("HGMMA", "HMMA", "IMMA"), ("LDSM", "UTMALDG", "LDGSTS"), ("STL", "LDL")
MARKS = ("<!-- tables of tools/cuda/instructions.py: begin -->", "<!-- tables of tools/cuda/instructions.py: end -->")
# What it does, the object, a pattern of its name.
KERNELS = (
    ("bf16, many rows, `wgmma`", "kernels/cuda/products/multiply_hopper", r"multiply_hopper<Bf16Panels, 192, 2>"),
    ("bf16, many rows, `mma`", "kernels/cuda/products/multiply_tensor", r"multiply_many<ManyShape<4, .*"),
    ("bf16, up to 8 rows", "kernels/cuda/products/multiply_tensor", r"multiply_few<1>"),
    ("8 bits (Q8_0), many rows", "kernels/cuda/products/multiply_legacy", r"multiply<Q8_0, 2, 4>"),
    ("8 bits (Q8_0), up to 8 rows", "kernels/cuda/products/multiply_legacy", r"multiply<Q8_0>"),
    ("4 bits (Q4_K), many rows", "kernels/cuda/products/multiply_super", r"multiply<Q45_K<false>, 2, 4>"),
    ("4 bits (Q4_K), up to 8 rows", "kernels/cuda/products/multiply_super", r"multiply<Q45_K<false>>"),
    ("4 bits (GPTQ, AWQ by 128), many rows", "kernels/cuda/products/multiply_group", r"multiply<Group<\d+, 4, 4>, 2, 4>"),
    ("4 bits (GPTQ, AWQ by 128), up to 8 rows", "kernels/cuda/products/multiply_group", r"multiply<Group<\d+, 4, 4>>"),
    ("FP8 by 128, many rows, `wgmma`", "kernels/cuda/products/multiply_hopper", r"multiply_hopper<Fp8Panels, 128, 2>"),
    ("FP8 by 128, many rows, `mma`", "kernels/cuda/products/multiply_float_codes", r"multiply_many<Eight<128>, ManyShape<2, .*"),
    ("FP8 by 128, up to 8 rows", "kernels/cuda/products/multiply_float_codes", r"multiply_few<Eight<128>, 1>"),
    ("attention (head of 128), few queries", "kernels/cuda/attention/tensor/attend_tensor_128", r"attend_few<.*"),
    ("attention (head of 128), many queries", "kernels/cuda/attention/tensor/attend_tensor_128", r"attend_many<.*"),
    ("latent attention, 16 queries", "kernels/cuda/attention/latent/attend_latent_16", r"attend_latent<LatentShape<1, true>>"),
    ("latent attention, 64 queries", "kernels/cuda/attention/latent/attend_latent_64", r"attend_latent<LatentShape<4, true>>"),
    ("exact attention (bf16), a row", "kernels/cuda/attention/attention_bf16", r"attend_row<\d+, 0>"),
    ("exact attention (bf16), a tile", "kernels/cuda/attention/attention_bf16", r"attend_tile<\d+, 0, 4>"),
    ("recurrence (keys of 128)", "kernels/cuda/recurrences/recurrence", r"recur_kernel<Form<128, true, 0>>"),
    ("tokens: sums and maxima of logits", "device/library/sample", r"scan_blocks"),
    ("tokens: the choice", "device/library/sample", r"pick_token"),
    ("norms, gates, rotations, stores", "device/library/rows", r"rows_kernel"),
)
# Those whose innermost loop has nothing that is mostly stepped over.
LOOPS = tuple(label for label, *_ in KERNELS if "many rows" in label or "latent" in label)
LINE = re.compile(r"/\*([0-9a-f]{4,})\*/")
JUMP = re.compile(r"\bBRA\b[^;]*?\b0x([0-9a-f]+)\s*;")
# Cycles of a quarter of an H100's multiprocessor for one product of a warp, at the device's peak (4,096 floating-point or 8,192 whole
# operations a cycle and multiprocessor).
CYCLES = {"HMMA.16816": 4, "IMMA.16832": 4, "IMMA.16816": 2}
OF_WARP_GROUP = re.compile(r"HGMMA\.64x(\d+)x16\b")  # all four quarters together, half a cycle for each row


class Code:
    """The instructions of one kernel: address and text, in order."""

    def __init__(self):
        self.lines = []

    def counts(self, lines=None):
        return collections.Counter(name for _, name, _ in (self.lines if lines is None else lines))

    def loops(self):
        """Innermost loops with products of tensor cores: their lines."""
        spans = []
        for at, name, text in self.lines:
            if name == "BRA" and (found := JUMP.search(text)):
                to = int(found[1], 16)
                if to < at:
                    spans.append((to, at))
        inner = [s for s in spans if not any(o != s and s[0] <= o[0] and o[1] <= s[1] and self.has_products(o) for o in spans)]
        return [self.within(span) for span in inner if self.has_products(span)]

    def within(self, span):
        return [line for line in self.lines if span[0] <= line[0] <= span[1]]

    def has_products(self, span):
        return any(name in PRODUCTS for _, name, _ in self.within(span))


def names_of(of):
    """The kernels of an object for an architecture: short name -> mangled name, and what they take by mangled name."""
    taken = usage(cuobjdump(*of[:1], "--dump-resource-usage", *of[1:]))
    return {short.replace("> >", ">>").replace("> >", ">>"): name for name, short in demangled(sorted(taken)).items()}, taken


def read(of, kernel):
    code = Code()
    for line in cuobjdump(*of[:1], "--dump-sass", "--function", kernel, *of[1:]):
        if found := INSTRUCTION.search(line):
            code.lines.append((int(LINE.search(line)[1], 16), found[1], line))
    return code


def find(kernels, pattern):
    wanted = sorted(name for name in kernels if re.fullmatch(pattern, name))
    if not wanted:
        sys.exit(f"instructions: no kernel is called {pattern}")
    return kernels[wanted[0]]


def cell(code, taken):
    counts = code.counts()
    parts = [taken["REG"]] + [f"{counts[name]} {name}" for name in (*PRODUCTS, *OTHERS) if counts[name]]
    own = sum(counts[name] for name in OWN)
    return ", ".join(parts + ([f"{own} of own memory"] if own else []))


def cycles_of(text):
    if found := OF_WARP_GROUP.search(text):
        return int(found[1]) // 2
    return sum(of for kind, of in CYCLES.items() if kind in text)


def loop_row(label, code):
    """Of the loop with the most products: what issues beside them, and the share of the peak that this leaves."""
    loop = max(code.loops(), key=lambda lines: sum(code.counts(lines)[name] for name in PRODUCTS))
    cycles = sum(cycles_of(text) for _, name, text in loop if name in PRODUCTS)
    products = sum(code.counts(loop)[name] for name in PRODUCTS)
    return f"| {label} | {products} | {len(loop)} | {cycles} | {min(100, round(100 * cycles / len(loop)))} % |"


def tables(objects, toolkit):
    rows, loops = [], []
    for label, name, pattern in KERNELS:
        cells = []
        for arch in ARCHS:
            of = (toolkit, "--gpu-architecture", f"sm_{arch}", objects / f"{name}.cu.o")
            names, taken = names_of(of)
            kernel = find(names, pattern)
            code = read(of, kernel)
            cells.append(cell(code, taken[kernel]))
            if arch == "90a" and label in LOOPS:
                loops.append(loop_row(label, code))
        rows.append(f"| {label} | " + " | ".join(cells) + " |")
    yield "| kernel | " + " | ".join(f"sm_{arch}" for arch in ARCHS) + " |"
    yield "|---" * (len(ARCHS) + 1) + "|"
    yield from rows
    yield ""
    yield "| innermost loop on sm_90a | products | all instructions | cycles of tensor cores | at most, of their peak |"
    yield "|---|---|---|---|---|"
    yield from loops


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--objects", type=pathlib.Path, default=ROOT / "build/cuda/src")
    args = parser.parse_args()
    toolkit = pathlib.Path(os.environ.get("ESPALIER_CUDA_TOOLKIT") or ROOT / "build/cuda/toolkit")
    lines = "\n".join(tables(args.objects, toolkit))
    if not args.page:
        print(lines)
        return
    text = args.page.read_text()
    before, rest = text.split(MARKS[0])
    args.page.write_text(f"{before}{MARKS[0]}\n{lines}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


if __name__ == "__main__":
    main()
