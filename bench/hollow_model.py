#!/usr/bin/env python3
"""A folder with the shapes of Llama-3.1-8B and no weights: a file of holes, which takes no room on the disk. For `espalier plan`.

    bench/hollow_model.py OUT_DIR [--layers 32 --hidden 4096 --inner 14336 --heads 32 --kv-heads 8 --vocabulary 128256]
"""
import argparse
import json
import pathlib
import struct


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("out")
    for name, value in (("layers", 32), ("hidden", 4096), ("inner", 14336), ("heads", 32), ("kv-heads", 8), ("vocabulary", 128256)):
        parse.add_argument("--" + name, type=int, default=value)
    o = parse.parse_args()
    head = o.hidden // o.heads
    shapes = {"model.embed_tokens": (o.vocabulary, o.hidden), "model.norm": (o.hidden,), "lm_head": (o.vocabulary, o.hidden)}
    for i in range(o.layers):
        layer = f"model.layers.{i}."
        shapes |= {layer + "input_layernorm": (o.hidden,), layer + "post_attention_layernorm": (o.hidden,),
                   layer + "self_attn.q_proj": (o.hidden, o.hidden), layer + "self_attn.o_proj": (o.hidden, o.hidden),
                   layer + "self_attn.k_proj": (o.kv_heads * head, o.hidden), layer + "self_attn.v_proj": (o.kv_heads * head, o.hidden),
                   layer + "mlp.gate_proj": (o.inner, o.hidden), layer + "mlp.up_proj": (o.inner, o.hidden), layer + "mlp.down_proj": (o.hidden, o.inner)}
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name + ".weight"] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    out = pathlib.Path(o.out)
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": o.hidden, "intermediate_size": o.inner,
              "num_attention_heads": o.heads, "num_key_value_heads": o.kv_heads, "num_hidden_layers": o.layers, "vocab_size": o.vocabulary,
              "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "torch_dtype": "bfloat16"}
    (out / "config.json").write_text(json.dumps(config))


if __name__ == "__main__":
    main()
