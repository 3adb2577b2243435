"""Upstream's front ends, as its packages have them, drive our server: the programs of tests/python/programs.py and the
calls of calls.py come out as they do with our own front end over HTTP on the same server, at temperature 0.

Run by run.sh, which makes the virtual environments (venvs.sh) and needs a package index once; under ctest only with
ESPALIER_LONG_TESTS (make test-all). Each front end plays everything once, in a process of its own (play.py, where the
two things that are not upstream's own are written down). ESPALIER_TEST_MODEL names another model than the small one, e.g.
smollm2-135m (minutes).
"""

import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "server"), str(HERE.parent / "python")]

import harness  # noqa: E402
import small_model  # noqa: E402

VERSIONS = (HERE / "VERSIONS").read_text().split()
EVERY = tuple(VERSIONS)
NAMED_MODEL = os.environ.get("ESPALIER_TEST_MODEL")
OF_THE_VOCABULARY = {"openai_types", "openai_select"}  # need the tokenizer.json of the served model
V03, V04, V05 = VERSIONS


@dataclasses.dataclass
class Fault:
    """Why a program does not come out with some front ends: by their own fault, unless the reason says otherwise."""

    front_ends: tuple
    error: str  # stands in what the program fails with
    reason: str
    always: bool = True


NO_N = Fault((V03,), "unexpected keyword argument 'n'", "gen() of 0.3 has no n")
SAMPLES = "[defect] n > 1: the reply is a list, and RuntimeEndpoint indexes it by key"
NO_STOP_REGEX = Fault((V03, V04), "unexpected keyword argument 'stop_regex'", "gen() has stop_regex from 0.5 on")
TWO_LENGTHS = Fault(
    (V04, V05), "'max_completion_tokens'", "the OpenAI back end gives completions (streamed or typed) chat's length too"
)
NOTHING_TO_SCORE = "this model has no begin token, so the first token of all has no probability"
FAULTS = {
    "parallel_sampling": [NO_N, Fault((V04, V05), "KeyError: 'words'", SAMPLES)],
    "openai_several_completions": [NO_N],
    "openai_several_answers": [NO_N],
    "batch_as_a_generator": [Fault((V03,), "'generator_style'", "run_batch() has generator_style from 0.4 on")],
    "a_stop_expression": [NO_STOP_REGEX],
    "reasoning_apart": [
        Fault((V03,), "no attribute 'separate_reasoning'", "0.3 has no separate_reasoning"),
        Fault((V05,), "No module named 'transformers'", "the parser of 0.5 lies in the server's package, which needs torch"),
    ],
    "scores_with_nothing_before": [
        Fault(("espalier",), "text is empty", NOTHING_TO_SCORE),
        Fault((V03,), "'float' and 'NoneType'", NOTHING_TO_SCORE),
        Fault((V04, V05), "division by zero", NOTHING_TO_SCORE),
    ],
    "a_compiled_program": [
        Fault((V05,), "no attribute 'compile'", "compile mode went after 0.4"),
    ],
    "openai_completion_streamed": [TWO_LENGTHS],
    "openai_types": [TWO_LENGTHS],
    "openai_chat_selects": [Fault(EVERY, "select/choices is not supported for chat models", "not for chat models")],
}


def names():
    """Of the programs and the calls, read off their sources: they import a front end, which is not there here."""
    found = []
    for file, mark in ((HERE.parent / "python" / "programs.py", "@program"), (HERE / "calls.py", "@call")):
        lines = file.read_text().splitlines()
        found += [below[len("def ") : below.index("(")] for line, below in zip(lines, lines[1:]) if line == mark]
    return found


NAMES = names()


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """Its name or folder, the flags to load it."""
    if NAMED_MODEL:
        return NAMED_MODEL, []
    return small_model.make_model(tmp_path_factory.mktemp("models") / "tiny"), ["--load-format", "dummy"]


@pytest.fixture(scope="session")
def play(model, tmp_path_factory):
    """play(front end): what came of every program, by name."""
    folder, flags = model
    flags = [*flags, "--random-seed", "1"]
    results = tmp_path_factory.mktemp("results")
    told = {}
    with harness.Server(*flags, model=folder) as server, harness.Server(*flags, "--api-key", "letmein", model=folder) as guarded:
        urls = [f"http://127.0.0.1:{s.port}" for s in (server, guarded)]

        def run(front_end):
            if front_end not in told:
                told[front_end] = played(front_end, urls, results / f"{front_end}.json")
            return told[front_end]

        yield run


def played(front_end, urls, results):
    ours = front_end == "espalier"
    python = sys.executable if ours else str(ROOT / "build" / "upstream-venv" / front_end / "bin" / "python")
    tokenizer = small_model.GOLDEN / "tokenizer.json"
    environment = {**os.environ, "ESPALIER_TEST_TOKENIZER": str(tokenizer), "PYTHONDONTWRITEBYTECODE": "1"}
    if not ours:
        environment.pop("PYTHONPATH", None)
    command = [python, str(HERE / "play.py"), "espalier" if ours else "sglang", *urls, str(results)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", timeout=900)
    assert done.returncode == 0 and results.exists(), f"{front_end} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    return json.loads(results.read_text())


def differences(expected, got, place=""):
    """Where two values of JSON differ; numbers may by rounding, since means are taken in different orders."""
    if isinstance(expected, dict) and isinstance(got, dict) and expected.keys() == got.keys():
        return [d for key in expected for d in differences(expected[key], got[key], f"{place}.{key}")]
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        return [d for i, (e, g) in enumerate(zip(expected, got)) for d in differences(e, g, f"{place}[{i}]")]
    if isinstance(expected, float) and isinstance(got, float) and math.isclose(expected, got, rel_tol=1e-9, abs_tol=1e-9):
        return []
    return [] if expected == got else [f"{place}: {expected!r} is expected, {got!r} came"]


def failure(told):
    return f"{told['error']}\n{told.get('trace', '')}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("front_end", ["espalier", *VERSIONS])
def test_front_end_drives_our_server(front_end, name, play):
    if NAMED_MODEL and name in OF_THE_VOCABULARY:
        pytest.skip("needs the vocabulary of the small model")
    told = play(front_end)[name]
    fault = next((f for f in FAULTS.get(name, ()) if front_end in f.front_ends), None)
    if fault and "error" in told:
        assert fault.error in told["error"], failure(told)
        pytest.xfail(fault.reason)
    assert not (fault and fault.always), f"{front_end} can do it: {fault.reason!r} is not so any more"
    assert "error" not in told, failure(told)
    expected = play("espalier")[name]
    if "result" in expected:
        different = differences(expected["result"], told["result"])
        assert not different, "\n".join(different[:8])


def test_nothing_is_left_out(play):
    assert len(set(NAMES)) == len(NAMES) >= 70 and FAULTS.keys() <= set(NAMES)
    assert all(play(front_end).keys() == set(NAMES) for front_end in ("espalier", *VERSIONS))
