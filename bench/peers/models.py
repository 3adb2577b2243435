"""The model files that are measured: those made for the comparison by name, or any GGUF file by path."""
import dataclasses
import os

NAMES = {"smol-Q8_0": "smol/smol-Q8_0.gguf", "smol-Q4_1": "smol/smol-Q4_1.gguf", "1b-Q4_0": "dummy1b/dummy1b-Q4_0.gguf",
         "1b-Q8_0": "dummy1b/dummy1b-Q8_0.gguf", "1b-BF16": "dummy1b/dummy1b-BF16.gguf"}


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    gguf: str
    hf: str  # the same model in the Hugging Face form, for peers that read no GGUF; empty where there is none


def find(wanted, folder):
    path = os.path.join(folder, NAMES[wanted]) if wanted in NAMES else wanted
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path} is not there; --models takes {', '.join(NAMES)} (in --models-dir) or GGUF files")
    hf = os.path.join(os.path.dirname(os.path.abspath(path)), "hf")
    name = wanted if wanted in NAMES else os.path.basename(path).removesuffix(".gguf")
    return Model(name, path, hf if os.path.isdir(hf) else "")
