"""sass.py [--arch 90a] [--library FILE] NAME...: which instructions the code of kernels has, and what it takes.

A kernel is named by a part of its name as build/cuda/kernels.txt has it. Instructions: products of tensor cores (HGMMA of a
warp group, HMMA of floats, IMMA of integers), of four bytes (IDP), copies by the tensor memory accelerator (UTMALDG), loads of
matrices (LDSM). Spills are loads and stores of a thread's own memory. Ends with 1 when no kernel has one of the names."""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

from resources import demangled

INSTRUCTIONS = ("HGMMA", "UTMALDG", "LDSM", "HMMA", "IMMA", "IDP")
SPILLS = ("STL", "LDL")
FUNCTION = re.compile(r"Function\s*:\s*(\S+)")
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)")
USAGE = re.compile(r"(REG|SHARED):(\d+)")


def cuobjdump(toolkit, *arguments):
    """Lines of what the toolkit's cuobjdump says; it finds nvdisasm by PATH."""
    folder = toolkit / "nvidia/cu13/bin"
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    with subprocess.Popen([folder / "cuobjdump", *arguments], stdout=subprocess.PIPE, text=True, env=environment) as told:
        yield from told.stdout
    if told.returncode != 0:
        sys.exit(f"sass: cuobjdump failed ({told.returncode})")


def instructions(lines):
    """How many of each instruction the kernels have, by mangled name."""
    counts, kernel = collections.defaultdict(collections.Counter), None
    for line in lines:
        if found := FUNCTION.search(line):
            kernel = found[1]
        elif kernel and (found := INSTRUCTION.search(line)):
            counts[kernel][found[1]] += 1
    return counts


def usage(lines):
    """Registers and shared memory of the kernels, by mangled name."""
    taken, kernel = {}, None
    for line in lines:
        if found := re.search(r"Function (\S+):", line):
            kernel = found[1]
        elif kernel and (found := dict(USAGE.findall(line))):
            taken[kernel] = found
    return taken


def main():
    root = pathlib.Path(__file__).resolve().parents[2] / "build/cuda"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--arch", default="90a")
    parser.add_argument("--library", type=pathlib.Path, default=root / "libespalier_cuda.so", help="or an object of build/cuda/src")
    args = parser.parse_args()
    toolkit = pathlib.Path(os.environ.get("ESPALIER_CUDA_TOOLKIT") or root / "toolkit")
    of_arch = ("--gpu-architecture", f"sm_{args.arch}", args.library)
    taken = usage(cuobjdump(toolkit, "--dump-resource-usage", *of_arch))
    names = demangled(sorted(taken))
    wanted = {kernel: name for kernel, name in names.items() if any(part in name for part in args.names)}
    if not wanted:
        sys.exit(f"sass: {args.library} has no such kernel for sm_{args.arch}")
    counts = instructions(cuobjdump(toolkit, "--dump-sass", *of_arch))
    width = max(map(len, wanted.values()))
    heads = (*INSTRUCTIONS, "spills", "registers", "shared")
    print(f"{'kernel':{width}}", *(f"{head:>9}" for head in heads))
    for kernel, name in sorted(wanted.items(), key=lambda item: item[1]):
        cells = [counts[kernel][one] for one in INSTRUCTIONS] + [sum(counts[kernel][one] for one in SPILLS)]
        print(f"{name:{width}}", *(f"{cell:>9}" for cell in (*cells, taken[kernel]["REG"], taken[kernel].get("SHARED", 0))))


if __name__ == "__main__":
    main()
