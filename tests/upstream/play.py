"""Runs programs with one front end against a server and writes what came of each into a file; test_upstream.py starts it
in the virtual environment of that front end.

    play.py FRONT_END SERVER_URL GUARDED_URL RESULTS

FRONT_END is "sglang" (the one installed here) or "espalier". The programs say `import espalier as sgl` and are run as
they are: for "sglang" the modules of the package sglang are known under the name espalier as well, nothing inside them
is changed. GUARDED_URL is of a server that wants the key "letmein". RESULTS becomes {"program": {"result": ...}, or
{"error": "KeyError: 'x'", "trace": "..."}, ...}, with "seconds".

Two things are not upstream's own:
  - sglang 0.5's __init__ patches the library transformers first, through a module that imports torch and Triton. A
    front end needs neither: an empty module takes its place (`without_transformers`), and all else is as installed.
  - stand_in/tiktoken_ext/openai_public.py, see there.
"""

import importlib
import json
import pathlib
import sys
import threading
import time
import traceback
import types

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 30  # for one program: upstream may wait for ever where one failed
TRIES = 4  # of a program that may fail by a race of upstream's: calls.RACES


def without_transformers():
    name = "sglang.srt.utils.hf_transformers_patches"
    module = types.ModuleType(name)
    module.apply_all = lambda: None
    sys.modules[name] = module


def take_front_end(name):
    if name == "sglang":
        without_transformers()
        importlib.import_module("sglang")
        for module in [m for m in sys.modules if m == "sglang" or m.startswith("sglang.")]:
            sys.modules["espalier" + module[len("sglang") :]] = sys.modules[module]
    return importlib.import_module("espalier")


def attempt(run):
    """What it returned, as JSON has it, or how it failed; on a thread that may stay behind."""
    told = {}
    began = time.monotonic()

    def work():
        try:
            told["result"] = json.loads(json.dumps(run()))
        except BaseException as failure:
            told["error"] = f"{type(failure).__name__}: {failure}"
            told["trace"] = traceback.format_exc()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return (dict(told) or {"error": f"Hung: not done after {SECONDS} s"}) | {"seconds": time.monotonic() - began}


def main(front_end, url, guarded_url, results):
    sys.path[:0] = [str(HERE / "stand_in"), str(HERE.parent / "python")]
    sgl = take_front_end(front_end)
    import calls
    import programs

    # One format of conversations for all: upstream guesses it from the model's path, Espalier asks the server.
    sgl.set_default_backend(sgl.RuntimeEndpoint(url, chat_template_name="chatml"))
    calls.URL, calls.GUARDED_URL = url, guarded_url
    told = {}
    for run in programs.PROGRAMS + calls.CALLS:
        for _ in range(TRIES if run.__name__ in calls.RACES else 1):
            told[run.__name__] = attempt(run)
            if "result" in told[run.__name__]:
                break
    pathlib.Path(results).write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    import os

    os._exit(0)  # threads that wait for ever are left where they are
