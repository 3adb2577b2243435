"""Goldens of encoders that the common set lacks: small random checkpoints with the rows of the last layer, and scores.

    python make_encoders.py OUT [NAME...]    # into OUT/<name>
"""
import json
import sys
import warnings
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
SMALL = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=80,
             bos_token_id=1, eos_token_id=2)
MODELS = {
    "emb-distilbert": ("DistilBertModel", "DistilBertConfig", dict(vocab_size=96, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=80)),
    "emb-gte": ("GteModel", "GteConfig", dict(**SMALL, pad_token_id=0)),
    "emb-mpnet": ("MPNetModel", "MPNetConfig", dict(**{**SMALL, "max_position_embeddings": 170}, pad_token_id=1, relative_attention_num_buckets=32)),
    "reward-distilbert": ("DistilBertForSequenceClassification", "DistilBertConfig", dict(vocab_size=96, dim=32, n_layers=1, n_heads=4, hidden_dim=48, max_position_embeddings=80, num_labels=3)),
    "reward-mpnet": ("MPNetForSequenceClassification", "MPNetConfig", dict(**{**SMALL, "max_position_embeddings": 80}, pad_token_id=1, num_labels=2)),
    "reward-roberta": ("RobertaForSequenceClassification", "RobertaConfig", dict(**SMALL, pad_token_id=1, type_vocab_size=1, num_labels=3)),
}


def make(out, name):
    model_class, config_class, fields = MODELS[name]
    torch.manual_seed(sum(map(ord, name)))
    config = getattr(transformers, config_class)(**fields)
    config._attn_implementation = "eager"
    model = getattr(transformers, model_class)(config).eval()
    with torch.no_grad():
        for tensor_name, tensor in model.named_parameters():
            vector = tensor.dim() == 1
            if "LayerNorm" in tensor_name or "_layer_norm" in tensor_name or "_layernorm" in tensor_name:
                tensor.add_(torch.randn_like(tensor) * 0.2)
            else:
                tensor.copy_(torch.randn_like(tensor) * (0.2 if vector else 1.5 / tensor.shape[-1] ** 0.5))
            tensor.copy_(tensor.to(torch.bfloat16).float())
    folder = out / name
    model.to(torch.bfloat16).save_pretrained(folder)
    model = getattr(transformers, model_class).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    longest = 160 if name == "emb-mpnet" else 70  # beyond the farthest distance that has a bucket of its own
    golden = {"format": "espalier-golden-pooled/1", "name": name, "kind": "embedding" if name.startswith("emb-") else "score",
              "architecture": model_class, "transformers": transformers.__version__, "prompts": []}
    tensors = {}
    for number, length in enumerate((1, 7, 33, longest)):
        tokens = torch.randint(3, 96, (length,)).tolist()
        with torch.no_grad():
            given = model(input_ids=torch.tensor([tokens]), attention_mask=torch.ones(1, length, dtype=torch.long))
        prompt = {"tokens": tokens}
        if golden["kind"] == "embedding":
            tensors[f"p{number}.hidden"] = given.last_hidden_state[0].contiguous()
        else:
            prompt["scores"] = given.logits[0].tolist()
            tensors[f"p{number}.scores"] = given.logits[0].contiguous()
        golden["prompts"].append(prompt)
    (folder / "golden.json").write_text(json.dumps(golden))
    save_file(tensors, folder / "tensors.safetensors")
    print(name, sum(f.stat().st_size for f in folder.iterdir()), "bytes")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    for one in sys.argv[2:] or MODELS:
        make(target, one)
