"""resources.py [--to FILE] [--may-spill FILE] LOG...: what kernels take of registers, stack and shared memory, out of what
`nvcc -Xptxas -v` says.

Kernels that differ only in their templates are one line here, and one each in FILE. A kernel that spills registers and is not
named in the file of those that may ends it with 1. Shared memory is what a kernel declares: what a launch adds is not known."""
import argparse
import collections
import dataclasses
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")
NAMESPACES = re.compile(r"(\w+|\(anonymous namespace\))::")


@dataclasses.dataclass
class Usage:
    """What one kernel takes on one architecture; bytes of a thread, shared ones of a block."""
    kernel: str
    arch: str
    registers: int = 0
    stack: int = 0
    spilled: int = 0
    shared: int = 0


def read(log):
    """The kernels of a log, one after the other."""
    usage = None
    for line in log.read_text(errors="replace").splitlines():
        if found := ENTRY.search(line):
            usage = Usage(*found.groups())
        elif usage and (found := FRAME.search(line)):
            usage.stack, stores, loads = map(int, found.groups())
            usage.spilled = stores + loads
        elif usage and (found := USED.search(line)):
            usage.registers, usage.shared = int(found[1]), int(found[2] or 0)
            yield usage
            usage = None


def demangled(names):
    """Short names: no namespaces, parameters and casts."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, map(shortened, text.splitlines())))


def shortened(name):
    name = NAMESPACES.sub("", name.removeprefix("void "))
    if name.endswith(")"):  # the parameters: up to the bracket that opens them
        depth = 0
        for at in range(len(name) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(name[at], 0)
            if depth == 0:
                name = name[:at]
                break
    return re.sub(r"\((\w+)\)(-?\d+)", r"\2", name)


def span(values):
    least, most = min(values), max(values)
    return str(least) if least == most else f"{least}-{most}"


def table(groups):
    """Lines of `name -> usages`."""
    width = max((len(name) for name in groups), default=0)
    yield f"{'kernel':{width}}  kinds  registers  stack  spilled  shared"
    for name, usages in sorted(groups.items()):
        kinds = len({usage.kernel for usage in usages})
        cells = [span([getattr(usage, of) for usage in usages]) for of in ("registers", "stack", "spilled", "shared")]
        yield "{:{}}  {:>5}  {:>9}  {:>5}  {:>7}  {:>6}".format(name, width, kinds, *cells)


def grouped(usages, name_of):
    groups = collections.defaultdict(list)
    for usage in usages:
        groups[name_of(usage)].append(usage)
    return groups


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=pathlib.Path, help="file for one line a kernel and architecture")
    parser.add_argument("--may-spill", type=pathlib.Path)
    parser.add_argument("logs", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    usages = [usage for log in args.logs for usage in read(log)]
    names = demangled(sorted({usage.kernel for usage in usages}))
    for usage in usages:
        usage.kernel = names[usage.kernel]
    if args.to:
        args.to.write_text("\n".join(table(grouped(usages, lambda u: f"sm_{u.arch:4} {u.kernel}"))) + "\n")
    print("\n".join(table(grouped(usages, lambda u: u.kernel.split("<")[0]))))
    lines = args.may_spill.read_text().splitlines() if args.may_spill else []
    allowed = {line.split("#")[0].strip() for line in lines} - {""}
    spilling = sorted({(u.kernel, u.arch, u.spilled) for u in usages if u.spilled and u.kernel not in allowed})
    for kernel, arch, spilled in spilling:
        print(f"cuda: {kernel} spills {spilled} bytes of registers on sm_{arch}", file=sys.stderr)
    return 1 if spilling else 0


if __name__ == "__main__":
    sys.exit(main())
