"""LoRA adapters that ../shared/goldens/lora lacks: embeddings and heads, replaced matrices, patterns, biases, fused and turned
matrices, recurrent layers, heads of classifiers.

`python make_lora_more.py MODELS OUT [NAME ...]` (MODELS: the folder of golden models) needs torch, transformers and peft. The golden
outputs are the adapted model's, unmerged, in float32; of each prompt the logits of the last position are kept and some greedy ids.
"""
import json, math, sys, warnings
from pathlib import Path
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

GREEDY = 12

CASES = {  # name: base model, settings, type of the adapter's file
    "lora-embed-head": ("llama2-untied-mha", dict(r=4, lora_alpha=8, target_modules=["embed_tokens", "lm_head", "k_proj"]), torch.float32),
    "lora-saved": ("llama2-untied-mha", dict(r=4, lora_alpha=12, target_modules="all-linear", modules_to_save=["lm_head", "embed_tokens"]),
                   torch.float16),
    "lora-patterns": ("llama3-tied-gqa", dict(r=4, lora_alpha=8, target_modules=r".*\.(q_proj|o_proj|up_proj|down_proj)",
                                              rank_pattern={r"layers\.0\.self_attn\.q_proj": 6, "up_proj": 2},
                                              alpha_pattern={r"layers\.1\.self_attn\.q_proj": 3, "down_proj": 20},
                                              layers_to_transform=None), torch.bfloat16),
    "lora-one-layer": ("llama3-tied-gqa", dict(r=3, lora_alpha=6, target_modules=["gate_proj", "v_proj"], layers_to_transform=[1]), torch.float32),
    "lora-biases": ("llama-linear-bias", dict(r=2, lora_alpha=4, target_modules=["q_proj", "o_proj", "gate_proj", "down_proj"], bias="all",
                                              lora_bias=False), torch.float32),
    "lora-fused": ("phi3-longrope", dict(r=4, lora_alpha=8, target_modules=["qkv_proj", "gate_up_proj", "o_proj"]), torch.float32),
    "lora-turned": ("gpt2", dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True), torch.float32),
    "lora-interleaved": ("gpt-neox", dict(r=4, lora_alpha=8, target_modules=["query_key_value", "dense_h_to_4h", "dense_4h_to_h"]), torch.float32),
    "lora-gemma": ("gemma3-text", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "gate_proj", "down_proj"]), torch.float32),
    "lora-experts-beside": ("qwen3-moe", dict(r=4, lora_alpha=8, target_modules=["q_proj", "o_proj"]), torch.float32),
    "lora-scores": ("reward-llama", dict(task_type="SEQ_CLS", r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]), torch.float32),
}


def randomise(model, seed):
    """Both factors, and what is replaced, move the outputs clearly."""
    r = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        if "lora_" in name:
            fan = p.shape[0] if "lora_embedding_A" in name else p.shape[-1]
            std = 0.4 / math.sqrt(fan) if ("lora_A" in name or "lora_B" in name) else 0.3
            p.data = torch.randn(p.shape, generator=r) * std
        elif "modules_to_save" in name or (name.endswith("bias") and p.requires_grad):
            p.data = p.data + torch.randn(p.shape, generator=r) * 0.3 * p.data.std().clamp(min=0.1)


def logits(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()


def prompts_of(golden):
    return [p["tokens"] for p in golden["prompts"]][1:3]


def make(models, out, name):
    base_name, settings, dtype = CASES[name]
    golden = json.loads((models / base_name / "golden.json").read_text())
    scores = settings.get("task_type") == "SEQ_CLS"
    kind = AutoModelForSequenceClassification if scores else AutoModelForCausalLM
    base = kind.from_pretrained(models / base_name, dtype=torch.float32, attn_implementation="eager").eval()
    model = get_peft_model(base, LoraConfig(**{"task_type": "CAUSAL_LM", **settings, "lora_dropout": 0.0}), autocast_adapter_dtype=False).eval()
    randomise(model, sum(map(ord, name)))
    for n, p in model.named_parameters():  # as the file will have them
        if p.requires_grad:
            p.data = p.data.to(dtype).float()
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    kept = {n: p.data for n, p in model.named_parameters() if p.requires_grad}
    for n, p in model.named_parameters():
        if p.requires_grad:
            p.data = p.data.to(dtype)
    model.save_pretrained(folder, save_embedding_layers=False)
    for n, p in model.named_parameters():
        if n in kept:
            p.data = kept[n]
    for more in folder.glob("*.md"):
        more.unlink()
    text = json.loads((folder / "adapter_config.json").read_text())
    text["base_model_name_or_path"] = f"../../models/{base_name}"
    (folder / "adapter_config.json").write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")
    result = {"format": "espalier-golden/1", "name": name, "base": f"models/{base_name}", "kind": "lora", "prompts": []}
    spread = []
    for ids in prompts_of(golden):
        found = logits(model, ids)
        entry = {"tokens": ids}
        if scores:
            entry["scores"] = [round(x, 6) for x in found.reshape(-1).tolist()]
        else:
            entry["last"] = [round(x, 5) for x in found[-1].tolist()]
            spread.append(found)
            so_far, margins = list(ids), []
            for _ in range(GREEDY):
                row = logits(model, so_far)[-1]
                top = row.topk(2).values
                margins.append((top[0] - top[1]).item())
                so_far.append(int(row.argmax()))
            entry["greedy"], entry["min_margin"] = so_far[len(ids):], min(margins)
        with model.disable_adapter():
            entry["move"] = (logits(model, ids).reshape(-1) - found.reshape(-1)).abs().max().item()
        result["prompts"].append(entry)
    if spread:
        result["logit_std"] = torch.cat(spread).std().item()
    (folder / "golden.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")
    print(name, sum(f.stat().st_size for f in folder.iterdir()), [round(p["move"], 2) for p in result["prompts"]],
          [p.get("min_margin") for p in result["prompts"]])


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    models, out = Path(sys.argv[1]), Path(sys.argv[2])
    for name in sys.argv[3:] or CASES:
        make(models, out, name)
