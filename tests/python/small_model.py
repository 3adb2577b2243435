"""The small model that the tests of programs run on."""

import json
import pathlib
import shutil

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
