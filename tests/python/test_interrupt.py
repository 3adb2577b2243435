"""Ctrl-C while the library is waited for, and the end of the process while something runs."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

import espalier as sgl
from espalier import _espalier


def run(model, body, interrupt=True):
    """Runs a script in a process of its own; it prints "waiting" when Ctrl-C is to come."""
    script = textwrap.dedent(
        """
        import espalier as sgl, sys
        engine = sgl.Engine(**{model!r})
        sgl.set_default_backend(engine)

        @sgl.function
        def endless(s, i=0):
            s += "Count" + sgl.gen("x", max_tokens=4000, ignore_eos=True)
            for _ in range(500):
                s += sgl.gen(max_tokens=4000, ignore_eos=True)
            s += sgl.gen("last")

        {body}
        """
    ).format(model=model, body=textwrap.dedent(body).replace("\n", "\n"))
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        if interrupt:
            line = process.stdout.readline()
            assert line == "waiting\n", line + process.stderr.read()
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, out, err


WAITS = {
    "text": "endless.run().text()",
    "variable": "endless.run()['last']",
    "sync": "endless.run().sync()",
    "batch": "endless.run_batch([{'i': i} for i in range(3)])",
    "pieces": "[_ for _ in endless.run(stream=True).text_iter()]",
    "generate": "engine.generate(['x'] * 60, {'max_new_tokens': 4000, 'ignore_eos': True})",
    "join": "endless.run().fork(2).join()",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait(model, wait):
    body = f"""
try:
    print("waiting", flush=True)
    {WAITS[wait]}
except KeyboardInterrupt:
    print("interrupted")
sys.stdout.flush()
"""
    code, out, err = run(model, body)
    assert out == "interrupted\n" and code == 0, (code, out, err)


def test_ctrl_c_inside_a_function_reaches_it(model):
    body = """
@sgl.function
def waits(s):
    s += "Count" + sgl.gen("x", max_tokens=4000, ignore_eos=True)
    for i in range(500):
        s += sgl.gen(f"y{i}", max_tokens=4000, ignore_eos=True)
    print("waiting", flush=True)
    s["y499"]

try:
    waits.run()
except KeyboardInterrupt:
    print("interrupted")
"""
    code, out, err = run(model, body)
    assert out == "interrupted\n" and code == 0, (code, out, err)


@pytest.mark.parametrize("left", ["state = endless.run()", "state = endless.run(stream=True); it = state.text_iter(); next(it)"])
def test_the_process_ends_although_something_runs(model, left):
    code, out, err = run(model, left, interrupt=False)
    assert code == 0, (code, err)


def test_the_process_ends_although_nothing_was_shut_down(model):
    body = """
@sgl.function
def keeps(s):
    s["object"] = object()
    s += sgl.gen("x", max_tokens=3)
state = keeps.run()
group = state.fork(3)
"""
    code, out, err = run(model, body, interrupt=False)
    assert code == 0 and err == "", (code, err)


def test_the_library_keeps_a_built_in_method_without_python():
    """Its threads drop what they used whenever they are done, also when the interpreter is at its end."""
    for native in (sgl.token_length_normalized._native, sgl.greedy_token_selection._native):
        before = sys.getrefcount(native)
        selects = [_espalier.select("answer", ["yes", "no"], 0.0, native) for _ in range(3)]
        assert sys.getrefcount(native) == before and len(selects) == 3
