"""The golden model with three of its tokens renamed to marks of fill in the middle."""
import contextlib
import pathlib
import shutil
import tempfile

from harness import MODEL

PREFIX, SUFFIX, MIDDLE = "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"


@contextlib.contextmanager
def infill_model():
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "model"
        shutil.copytree(MODEL, copy)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            text = (copy / name).read_text()
            for old, new in (("<|user|>", PREFIX), ("<|assistant|>", SUFFIX), ("<|system|>", MIDDLE)):
                text = text.replace(old, new)
            (copy / name).write_text(text)
        yield copy
