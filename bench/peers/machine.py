"""What this machine is and gives, and who else used it meanwhile."""
import json
import os
import time


class Others:
    """The share of all processors that neither we nor our children used between entering and leaving."""

    @staticmethod
    def _busy():
        with open("/proc/stat") as file:
            v = [int(x) for x in file.readline().split()[1:9]]
        return (v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def _own():
        t = os.times()
        return t.user + t.system + t.children_user + t.children_system

    def __enter__(self):
        self.wall, self.busy, self.own = time.time(), self._busy(), self._own()
        return self

    def __exit__(self, *_):
        wall = time.time() - self.wall
        self.share = max(0.0, self._busy() - self.busy - (self._own() - self.own)) / wall / os.cpu_count()


def _value(path, key):
    """What stands behind `key:` in a file of /proc, or nothing."""
    with open(path) as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    return ""


def describe():
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as file:
            huge = file.read().partition("[")[2].partition("]")[0]
    except OSError:
        huge = "not there"
    return {"processor": _value("/proc/cpuinfo", "model name"), "processors": os.cpu_count(),
            "memory_gib": round(int(_value("/proc/meminfo", "MemTotal").split()[0]) / (1 << 20), 1), "huge_pages": huge}


def limits(runner, espalier):
    """Lines of `espalier bench kernels` that say what memory and multipliers give; its kernels are run only once, briefly."""
    printed = runner.run(espalier.command("bench", "kernels", "--kernels", "matmul", "--rows", "1", "--models", "smollm2",
                                          "--types", "q8_0", "--seconds-each", "0", "--json", "--threads", str(espalier.threads)))
    return [line for line in map(json.loads, printed.splitlines()) if "limit" in line]


def limit_text(line):
    if line["limit"] == "read":
        return f"memory, {line['threads']} thread(s), {line['pages']} pages: {line['gb_per_second']:.1f} GB/s"
    if line["limit"] == "used":
        return f"the best of these and of a second measurement: {line['gb_per_second']:.1f} GB/s, int8 {line['int8_gops']:.0f} GOP/s"
    return (f"multipliers, {line['threads']} thread(s), {line['isa']}: f32 {line['f32_gflops']:.0f} GFLOP/s, "
            f"bf16 {line['bf16_gflops']:.0f} GFLOP/s, int8 {line['int8_gops']:.0f} GOP/s")
