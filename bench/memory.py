#!/usr/bin/env python3
"""What a server keeps in memory when it is full of work, beside what its weights and its token pool are.

    bench/memory.py MODEL [MODEL ...] [--tokens 16384] [--sequences 32] [FLAGS of serve, e.g. --load-format dummy --dtype q4_0]
    bench/memory.py --formats [NAME ...] [--tokens 4096]

The pool has --tokens tokens, and --sequences requests at once fill it with prompts that share nothing. Printed for each model: the
largest resident size since the start (VmHWM), what of it belongs to files and what to the process alone at the end, weights and
pool as /get_server_info tells them, states of recurrent layers too, and the first by their sum.

--formats: random checkpoints of a model of 1.1 billion parameters (TinyLlama's shape) in every format of quantised checkpoints, or in
those named, as a table: bytes of the checkpoint's tensors, of the panels that are multiplied, the pool, what is resident in the end
and at most, and both by the sum of checkpoint and pool. Only Python's own library is needed.
"""
import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import tempfile
import urllib.request

from restart import start  # it lies beside this file


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def generate(url, ids):
    body = {"input_ids": ids, "sampling_params": {"temperature": 0, "max_new_tokens": 32, "ignore_eos": True}}
    request = urllib.request.Request(url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=3600) as answer:
        return json.load(answer)["meta_info"]["completion_tokens"]


def resident(pid):
    """GB by name: VmHWM, RssFile, RssAnon."""
    with open(f"/proc/{pid}/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return {name: int(fields[name].split()[0]) * 1024 / 1e9 for name in ("VmHWM", "RssFile", "RssAnon")}


SHAPE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
         "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
         "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}


def gptq(bits, group, **more):
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": True, "desc_act": False, "checkpoint_format": "gptq", **more}


def packed(bits, kind="int", form="pack-quantized", activations=None, **more):
    weights = {"num_bits": bits, "type": kind, "strategy": "group", "group_size": 128, "symmetric": True, "dynamic": False, **more}
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": activations}}}


def four_bits(kind, nested):
    return {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": nested}


BYTES = {"num_bits": 8, "type": "int", "strategy": "token", "symmetric": True, "dynamic": True}
FORMATS = {
    "bf16": None,
    **{f"gptq-{bits}bit-g{group}": gptq(bits, group) for bits in (2, 3, 4, 8) for group in (32, 64, 128)},
    **{f"gptq-{bits}bit-g128-asym-act": gptq(bits, 128, sym=False, desc_act=True) for bits in (2, 3, 4, 8)},
    **{f"awq-g{group}": {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"} for group in (32, 64, 128)},
    "fp8-block": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
    "fp8-channel": packed(8, "float", "float-quantized", strategy="channel", group_size=None),
    "fp8-tensor": packed(8, "float", "float-quantized", strategy="tensor", group_size=None),
    "ct-w4a16-g128": packed(4),
    "ct-w4a16-g32-asym": packed(4, group_size=32, symmetric=False),
    "ct-w3a16-g128": packed(3),
    "ct-w8a8": packed(8, form="int-quantized", activations=BYTES, strategy="channel", group_size=None),
    "ct-w4a8-g128": packed(4, form="int-quantized", activations=BYTES),
    "ct-nvfp4": packed(4, "float", "nvfp4-pack-quantized", strategy="tensor_group", group_size=16),
    "ct-mxfp4": packed(4, "float", "mxfp4-pack-quantized", group_size=32),
    "ct-mxfp8": packed(8, "float", "mxfp8-quantized", group_size=32),
    "modelopt-nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
    "bnb-nf4": four_bits("nf4", False),
    "bnb-nf4-nested": four_bits("nf4", True),
    "bnb-fp4": four_bits("fp4", False),
    "bnb-int8": {"quant_method": "bitsandbytes", "load_in_8bit": True},
}


def measure_formats(options, flags):
    print(f"{'format':24} {'checkpoint':>10} {'panels':>7} {'pool':>6} {'resident':>9} {'at most':>8} {'by both':>8} {'at most':>8}   (GB)")
    for name in options.models or FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            config = SHAPE | ({"quantization_config": FORMATS[name]} if FORMATS[name] else {})
            (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
            memory, kept = filled(folder, options, ["--load-format", "dummy", "--skip-tokenizer-init", *flags])
        now, declared = kept["RssFile"] + kept["RssAnon"], memory["checkpoint"] + memory["kvcache"]
        print(f"{name:24} {memory['checkpoint']:10.3f} {memory['weight']:7.3f} {memory['kvcache']:6.3f} {now:9.3f} {kept['VmHWM']:8.3f} "
              f"{now / declared:8.2f} {kept['VmHWM'] / declared:8.2f}", flush=True)


def filled(model, options, flags):
    """Memory as the server tells it, and what is resident, when it was full."""
    process, url = start([model, "--max-total-tokens", str(options.tokens), *flags])
    try:
        memory = get(url + "/get_server_info")["internal_states"][0]["memory_usage"]
        told = re.search(r"a checkpoint would have (\d+) MB", process.said)
        memory["checkpoint"] = int(told[1]) / 1000 if told else memory["weight"]
        draw = random.Random(1)
        size = options.tokens // options.sequences - 40
        prompts = [[draw.randrange(1000, 30000) for _ in range(size)] for _ in range(options.sequences)]
        with concurrent.futures.ThreadPoolExecutor(options.sequences) as clients:
            list(clients.map(lambda ids: generate(url, ids), prompts))
        return memory, resident(process.pid)
    finally:
        process.terminate()
        process.wait()


def measure(model, options, flags):
    memory, kept = filled(model, options, flags)
    declared = memory["weight"] + memory["kvcache"] + memory["states"]
    print(f"{model}: at most {kept['VmHWM']:.2f} GB resident (now {kept['RssFile']:.2f} of files, {kept['RssAnon']:.2f} its own); weights "
          f"{memory['weight']:.2f} + pool of {memory['token_capacity']} tokens {memory['kvcache']:.2f} + states {memory['states']:.2f} GB: "
          f"{kept['VmHWM'] / declared:.2f} times",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--formats", action="store_true")
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--sequences", type=int, default=32)
    options, flags = parser.parse_known_args()
    if options.formats:
        return measure_formats(options, flags)
    for model in options.models:
        measure(model, options, flags)


if __name__ == "__main__":
    main()
