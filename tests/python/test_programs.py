"""Every program of programs.py runs unchanged in process and against a server.

The results are compared with the tests' small model, whose tokens join the same way wherever a text is cut. Another
model may go on differently behind a generation: a state in process continues on the tokens that were sampled, a server
gets the text and encodes it anew.
"""

import pytest

import programs

import espalier as sgl


@pytest.mark.parametrize("run", programs.PROGRAMS + programs.OWN_PROGRAMS, ids=lambda run: run.__name__)
def test_program_runs_in_process_and_over_http(run, engine, runtime, model):
    sgl.set_default_backend(engine)
    here = run()
    sgl.set_default_backend(runtime)
    there = run()
    assert there == here or "load_format" not in model


def test_there_are_programs_enough():
    assert len(programs.PROGRAMS) >= 20
