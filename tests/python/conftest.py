"""What the tests share: a small model with random weights, in process and behind a server of the built program.

Run by ctest (label python) with PYTHONPATH at the build's package; by hand: tests/python/run.sh [pytest arguments].
ESPALIER_TEST_MODEL names another model, e.g. smollm2-135m, for test_programs.py and test_defects.py; the rest counts on
one that costs nothing.
"""

import os

import pytest

import espalier as sgl
from small_model import ARGUMENTS, make_model


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The keyword arguments that load the tests' model."""
    named = os.environ.get("ESPALIER_TEST_MODEL")
    if named:
        return {"model_path": named, **ARGUMENTS}
    folder = make_model(tmp_path_factory.mktemp("models") / "tiny")
    return {"model_path": str(folder), "load_format": "dummy", **ARGUMENTS}


@pytest.fixture(scope="session")
def engine(model):
    with sgl.Engine(**model) as engine:
        yield engine


@pytest.fixture(scope="session")
def runtime(model):
    with sgl.Runtime(**model) as runtime:
        yield runtime


@pytest.fixture(params=["in process", "over HTTP"])
def backend(request):
    """Both ways to a model, as the default back end."""
    chosen = request.getfixturevalue("engine" if request.param == "in process" else "runtime")
    sgl.set_default_backend(chosen)
    yield chosen
    sgl.set_default_backend(None)


@pytest.fixture
def local(engine):
    sgl.set_default_backend(engine)
    yield engine
    sgl.set_default_backend(None)
