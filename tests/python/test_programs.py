"""Every program of programs.py runs unchanged in process and against a server, with the same result."""

import pytest

import programs

import espalier as sgl




@pytest.mark.parametrize("run", programs.PROGRAMS, ids=lambda run: run.__name__)
def test_program_gives_the_same_in_process_and_over_http(run, engine, runtime):
    sgl.set_default_backend(engine)
    here = run()
    sgl.set_default_backend(runtime)
    assert run() == here


def test_there_are_programs_enough():
    assert len(programs.PROGRAMS) >= 20
