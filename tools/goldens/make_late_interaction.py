"""Vectors of every token by ColQwen2 around a golden of Qwen2-VL, whose projection is a formula: test_embeddings.py makes the same
checkpoint of the same golden.

    python make_late_interaction.py GOLDENS/tools GOLDENS/models/mm-qwen2-vl OUT.json
"""
import json
import math
import sys
import warnings
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import goldenlib  # noqa: E402
import mmlib  # noqa: E402

WIDTH = 8
torch.set_num_threads(1)
warnings.filterwarnings("ignore")
folder = Path(sys.argv[2])
golden = json.loads((folder / "golden.json").read_text())
inner, tensors = goldenlib.reload(folder, golden["architecture"]), load_file(str(folder / "tensors.safetensors"))
config = transformers.ColQwen2Config(vlm_config=inner.config, embedding_dim=WIDTH)
model = transformers.ColQwen2ForRetrieval(config).eval()
model.vlm.load_state_dict(inner.model.state_dict())
hidden = inner.config.get_text_config().hidden_size
with torch.no_grad():
    model.embedding_proj_layer.weight.copy_(torch.tensor([[math.sin(1 + 7 * i + 3 * j) for j in range(hidden)] for i in range(WIDTH)]))
    model.embedding_proj_layer.bias.copy_(torch.tensor([math.cos(i) for i in range(WIDTH)]))
    model.to(torch.float32)
    rows = {}
    for case in golden["cases"]:
        ids = torch.tensor([case["tokens"]])
        px = mmlib.px_of(tensors, case["name"])
        hooked = []
        handle = inner.get_output_embeddings().register_forward_pre_hook(lambda module, given: hooked.append(given[0][0]))
        mmlib.fwd(inner, golden["kind"], case["tokens"], px)
        handle.remove()
        given = model.embedding_proj_layer(hooked[-1].float())
        given = given / given.norm(dim=-1, keepdim=True)
        if px is None or not px:  # the class itself, where it needs no positions of pictures
            own = model(input_ids=ids, attention_mask=torch.ones_like(ids)).embeddings[0]
            print(case["name"], "differs from the class by", float((own - given).abs().max()))
        rows[case["name"]] = [[round(float(x), 5) for x in row] for row in given]
Path(sys.argv[3]).write_text(json.dumps({"width": WIDTH, "names": sorted(model.state_dict())[:4], "rows": rows}))
