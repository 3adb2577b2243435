"""What is known of a server while it is soaked: its process (/proc), its /metrics, and what its clients saw; the CPU it may use."""
import collections
import contextlib
import math
import os
import pathlib
import re
import threading
import time

MIB = 1 << 20
# Columns of the CSV, in order.
COLUMNS = ("seconds", "at_rest", "rss_mib", "anonymous_mib", "descriptors", "threads", "disk_mib", "cached_tokens", "cache_share", "models_loaded",
           "model_loads", "requests", "answered", "refused", "cut", "wrong", "p50_ms", "p99_ms", "cpu_share")
SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})? (\S+)$")


def summed(metrics, name):
    """The sum of a metric's samples (one a model) in a page of /metrics; 0 where there is none."""
    return sum(float(found.group(3)) for line in metrics.splitlines() if (found := SAMPLE.match(line)) and found.group(1) == name)


def of_process(pid):
    """Resident and anonymous memory in MiB, descriptors, threads."""
    proc = pathlib.Path("/proc", str(pid))
    status = (proc / "status").read_text()
    field = lambda name: int(re.search(rf"^{name}:\s+(\d+)", status, re.M).group(1))
    return {"rss_mib": field("VmRSS") / 1024, "anonymous_mib": field("RssAnon") / 1024, "threads": field("Threads"),
            "descriptors": len(os.listdir(proc / "fd"))}


def of_disk(folders):
    """MiB of the files below the folders; files may leave meanwhile."""
    size = 0
    for folder in folders:
        for path, _, names in os.walk(folder):
            for name in names:
                try:
                    size += os.lstat(os.path.join(path, name)).st_size
                except FileNotFoundError:
                    pass
    return size / MIB


def cpu_seconds(pid):
    """What the process has used of processors, all threads together."""
    fields = pathlib.Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Pace:
    """Holds clients back so that `spent()` CPU seconds stay at `share` of one core; what was not used is not saved up for long."""
    SAVED = 0.5  # CPU seconds

    def __init__(self, share, spent, clock=time.monotonic, sleep=time.sleep):
        self.share, self.spent, self.clock, self.sleep = share, spent, clock, sleep
        self.mutex = threading.Lock()
        self.began, self.used_before = clock(), spent()

    def behind(self):
        """CPU seconds that were used beyond what may be by now; negative: so many are left."""
        with self.mutex:
            ahead = (self.clock() - self.began) * self.share - (self.spent() - self.used_before)
            if ahead > self.SAVED:
                self.began += (ahead - self.SAVED) / self.share
                ahead = self.SAVED
            return -ahead

    def wait(self, over):
        while not over.is_set() and (behind := self.behind()) > 0:
            self.sleep(min(1.0, 0.01 + behind / self.share))


class Gate:
    """Lets clients through, or lets nobody in until all are out."""

    def __init__(self):
        self.changed = threading.Condition()
        self.inside, self.shut = 0, False

    def __enter__(self):
        with self.changed:
            self.changed.wait_for(lambda: not self.shut)
            self.inside += 1

    def __exit__(self, *_):
        with self.changed:
            self.inside -= 1
            self.changed.notify_all()

    @contextlib.contextmanager
    def closed(self, seconds=120):
        with self.changed:
            self.shut = True
            empty = self.changed.wait_for(lambda: self.inside == 0, seconds)
        try:
            if not empty:
                raise TimeoutError(f"{self.inside} clients still waited for an answer after {seconds} seconds")
            yield
        finally:
            with self.changed:
                self.shut = False
                self.changed.notify_all()


class Seen:
    """What clients saw: outcomes, counted; milliseconds since the last look. Any thread."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.outcomes = collections.Counter()  # answered, refused, cut, wrong
        self.kinds = collections.Counter()
        self.statuses = collections.Counter()
        self.faults = []
        self.latencies = []

    def note(self, kind, outcome, milliseconds=None, status=None, fault=None):
        with self.mutex:
            self.outcomes[outcome] += 1
            self.kinds[kind] += 1
            self.statuses[kind, status] += 1
            if milliseconds is not None:
                self.latencies.append(milliseconds)
            if fault and len(self.faults) < 20:
                self.faults.append(f"{kind}: {fault}")

    def take(self):
        """The columns that clients know."""
        with self.mutex:
            latencies, self.latencies = sorted(self.latencies), []
            row = {name: self.outcomes[name] for name in ("answered", "refused", "cut", "wrong")}
        return {**row, "requests": sum(row.values()), "p50_ms": quantile(latencies, 0.5), "p99_ms": quantile(latencies, 0.99)}


def quantile(ascending, share):
    return ascending[min(len(ascending) - 1, math.floor(share * len(ascending)))] if ascending else math.nan


class Watch:
    """Samples of a server as rows of the CSV."""

    def __init__(self, server, seen, folders):
        self.server, self.seen, self.folders = server, seen, folders
        self.began = self.last = time.monotonic()
        self.used = self.cpu()

    def cpu(self):
        """CPU seconds of server and clients."""
        return cpu_seconds(self.server.process.pid) + time.process_time()

    def sample(self, at_rest=False):
        metrics = self.server.get("/metrics").body.decode()
        now, used = time.monotonic(), self.cpu()
        capacity = summed(metrics, "espalier_kv_cache_tokens_capacity")
        cached = capacity - summed(metrics, "espalier_kv_available_tokens")
        row = {"seconds": now - self.began, "at_rest": int(at_rest), **of_process(self.server.process.pid), "disk_mib": of_disk(self.folders),
               "cached_tokens": cached, "cache_share": cached / capacity if capacity else 0.0,
               "models_loaded": summed(metrics, "espalier_model_loaded"), "model_loads": summed(metrics, "espalier_model_loads_total"),
               **self.seen.take(), "cpu_share": (used - self.used) / max(1e-9, now - self.last)}
        self.last, self.used = now, used
        return row


def as_line(row):
    return ",".join(f"{row[name]:.6g}" if isinstance(row[name], float) else str(row[name]) for name in COLUMNS)


def read_csv(path):
    """Columns by name, as lists of floats."""
    head, *lines = pathlib.Path(path).read_text().splitlines()
    names = head.split(",")
    rows = [line.split(",") for line in lines if line.count(",") == len(names) - 1]
    return {name: [float(row[i]) for row in rows] for i, name in enumerate(names)}
