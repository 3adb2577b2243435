"""What the tests share: a small model with random weights, in process and behind a server of the built program.

Run by ctest (label python) with PYTHONPATH at the build's package; by hand: tests/python/run.sh [pytest arguments].
ESPALIER_TEST_MODEL names another model, e.g. smollm2-135m, for test_programs.py and test_defects.py; the rest counts on
one that costs nothing.
"""

import json
import os
import pathlib
import shutil

import pytest

import espalier as sgl

SOURCE = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = SOURCE / "tests" / "data" / "goldens" / "models" / "llama3-tied-gqa"
# Everything that could make two runs differ is fixed: threads are one for speed on a busy machine, not for results.
ARGUMENTS = {"threads": 1, "activations": "f32", "random_seed": 1}


def make_model(folder, context=4096):
    """One layer, random weights, 320 tokens that spell any text, a chat template, a long context."""
    folder.mkdir()
    config = json.loads((GOLDEN / "config.json").read_text())
    config.update(num_hidden_layers=1, max_position_embeddings=context, rope_scaling=None)
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(GOLDEN / name, folder / name)
    return folder


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
