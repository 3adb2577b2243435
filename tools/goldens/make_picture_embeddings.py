"""Last rows of the text model of image-and-text goldens: what --is-embedding gives of their prompts, in one small file.

    python make_picture_embeddings.py GOLDENS/tools GOLDENS/models OUT.json NAME...
"""
import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import goldenlib  # noqa: E402
import mmlib  # noqa: E402

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
found = {}
for name in sys.argv[4:]:
    folder = Path(sys.argv[2]) / name
    golden = json.loads((folder / "golden.json").read_text())
    model, tensors = goldenlib.reload(folder, golden["architecture"]), load_file(str(folder / "tensors.safetensors"))
    rows = []
    model.get_output_embeddings().register_forward_pre_hook(lambda module, given: rows.append(given[0][0, -1]))
    found[name] = {}
    for case in golden["cases"]:
        with torch.no_grad():
            mmlib.fwd(model, golden["kind"], case["tokens"], mmlib.px_of(tensors, case["name"]))
        row = rows[-1].float()
        found[name][case["name"]] = [round(float(x), 7) for x in row / row.norm()]
Path(sys.argv[3]).write_text(json.dumps(found))
