#!/usr/bin/env python3
"""The first half hour on a machine with a GPU: are the kernels right there, and how near are they to the card's limits?

    make cuda && bench/gpu_first_half_hour.py [--minutes 30] [--only info,exact,kernels,torch,model,sets,ranks,sanitizer] [--json FILE]
    bench/gpu_first_half_hour.py --device emu --small      # the script itself, without a GPU, in a minute

In this order, and each part only while time is left:

    info       the device, as the program sees it
    exact      the tests of device_test on it: kernels and whole golden models give the CPU's bits
    kernels    device_bench: what memory and multipliers give at the utmost, and each kernel's share of it: products of every form,
               attention, over latent rows too, sampling; rows alone have the bits that they have in a batch, and attention by tensor
               cores is close to the exact kernel
    torch      what PyTorch reaches on the same card: a copy, cuBLAS products of the same shapes, attention (left out without it); and
               how much longer our kernels take, which is what bits that no batch changes cost
    model      a dummy 8B model, `espalier bench latency`: decoding of 1 to 256 at once, prefill; starts to the first token
    sets       the same model, many requests of the lengths that SGLang's figures are of, I-243-O-770 and so on (mean tokens of prompts and
               answers), to the last token: `espalier bench offline`
    ranks      the same model on two ranks beside one (bench/ranks.py): the same answers, speed, what they tell each other by NCCL;
               where there is one GPU both have it, which tests the way of the host
    sanitizer  compute-sanitizer over the kernels' tests, where it is installed

At the end stands one table of what was measured, kernels and models beside the card's limits. Nothing is fetched.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = ROOT / "build" / "release" / "bin"
SHAPES = {
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
           "head_dim": 128, "vocab_size": 128256},
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "head_dim": 16, "vocab_size": 512}}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "max_position_embeddings": 32768, "rms_norm_eps": 1e-5,
         "rope_theta": 500000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}


class Clock:
    def __init__(self, minutes):
        self.end = time.monotonic() + 60 * minutes

    def left(self):
        return self.end - time.monotonic()


def run(clock, command, **more):
    """Its output, as far as it came; None: no time was left."""
    if clock.left() < 5:
        return None
    print("$", " ".join(map(str, command)), flush=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=clock.left(), **more)
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(errors="replace") + "\n(out of time)\n"
    print(done.stdout[-4000:], done.stderr[-2000:], flush=True)
    return done.stdout + done.stderr


def look_at_device(args, clock, table):
    text = run(clock, [BIN / "espalier", "doctor"]) or ""
    table["device"] = next((line.strip() for line in text.splitlines() if "CUDA" in line), "none")


def check_exactness(args, clock, table):
    pattern = "*" if not args.small else "*llama2*:*/deepseek_v3:*Multiply*Few*"
    text = run(clock, [BIN / "device_test", f"--gtest_filter={pattern}", "--gtest_brief=1"],
               env={**os.environ, "ESPALIER_SOURCE_DIR": str(ROOT)}) or ""
    passed, failed = re.search(r"PASSED\s+\] (\d+)", text), re.search(r"(\d+) FAILED TEST", text)
    table["wgmma and mma"] = "; ".join(re.findall(r"\w+: wgmma (?:has|has NOT) the bits of mma", text)) or "not compared: no Hopper"
    table["tests of the CPU's bits"] = f"{passed.group(1) if passed else 0} passed, {failed.group(1) if failed else 0} failed"


def measure_kernels(args, clock, table):
    text = run(clock, [BIN / "device_bench", args.device, "--json", *(["--small"] if args.small else [])]) or ""
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    table["rows alone have the bits of a batch"] = "no" if "WRONG" in text else "yes" if rows else "not measured"
    table["kernels"] = rows


def measure_torch(args, clock, table):
    program = """
import json, time, torch
def took(f, n=20):
    f(); torch.cuda.synchronize(); begin = time.perf_counter()
    for _ in range(n): f()
    torch.cuda.synchronize(); return (time.perf_counter() - begin) / n
a = torch.empty(1 << 28, dtype=torch.int32, device='cuda'); b = torch.empty_like(a)
print(json.dumps({'what': 'torch copy', 'gb_s': 2 * a.nbytes / took(lambda: b.copy_(a)) / 1e9}))
w = [torch.randn(14336, 4096, dtype=torch.bfloat16, device='cuda') for _ in range(8)]
for rows in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 4096):
    x = torch.randn(rows, 4096, dtype=torch.bfloat16, device='cuda'); turn = [0]
    def call():
        turn[0] += 1; return x @ w[turn[0] % 8].T
    t = took(call)
    print(json.dumps({'what': f'cuBLAS bf16 14336 x 4096, {rows} rows', 'us': 1e6 * t, 'gb_s': w[0].nbytes / t / 1e9, 'tops': 2 * rows * w[0].numel() / t / 1e12}))
for n in (1, 8, 64):
    q = torch.randn(n, 32, 1, 128, dtype=torch.bfloat16, device='cuda'); k = torch.randn(n, 8, 4096, 128, dtype=torch.bfloat16, device='cuda')
    t = took(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True))
    print(json.dumps({'what': f'SDPA {n} x 4096', 'us': 1e6 * t, 'gb_s': 2 * k.nbytes / t / 1e9}))
for heads in (16, 128):
    for n in (1, 8, 64):
        q = torch.randn(n, heads, 576, dtype=torch.bfloat16, device='cuda'); k = torch.randn(n, 4096, 576, dtype=torch.bfloat16, device='cuda')
        t = took(lambda: torch.softmax(q @ k.mT * 0.088, -1) @ k[..., :512])
        print(json.dumps({'what': f'latent attention of {heads} heads by two products, {n} x 4096', 'us': 1e6 * t, 'gb_s': k.nbytes / t / 1e9,
                          'tops': 2 * n * heads * 4096 * (576 + 512) / t / 1e12}))
"""
    text = run(clock, [sys.executable, "-c", program]) or ""
    table["torch"] = [json.loads(line) for line in text.splitlines() if line.startswith("{")] or "not here"
    if "kernels" in table and table["torch"] != "not here":
        table["times as long as PyTorch takes"] = beside_torch(table["kernels"], table["torch"])


def beside_torch(kernels, torch):
    """Our time of what both have measured, in PyTorch's."""
    ours = {row["what"]: row["us"] for row in kernels if "us" in row}
    rows = []
    for row in torch:
        product, attention = re.match(r"cuBLAS bf16 (.*)", row["what"]), re.match(r"SDPA (\d+) x (\d+)", row["what"])
        latent = re.match(r"latent attention of (\d+) heads by two products, (\d+) x (\d+)", row["what"])
        name = None
        if product:
            name = f"BF16 {product.group(1)}"
        elif attention:
            name = "attention of 32 heads by tensor cores, {} x 1 of {} tokens".format(*attention.groups())
        elif latent:
            name = "latent attention of {} heads by tensor cores, {} x 1 of {} tokens".format(*latent.groups())
        if name in ours:
            rows.append({"what": name, "times": ours[name] / row["us"]})
    return rows


def make_model(folder, shape):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**LLAMA, **SHAPES[shape]}))
    return folder


def measure_model(args, clock, table):
    shape, batches = ("tiny", (1, 4)) if args.small else ("8b", (1, 8, 32, 64, 128, 256))
    with tempfile.TemporaryDirectory() as at:
        model = make_model(pathlib.Path(at) / shape, shape)
        for kind in ("bf16",) if args.small else ("bf16", "q8_0", "q4_0"):
            text = run(clock, [BIN / "espalier", "bench", "latency", model, "--load-format", "dummy", "--dtype", kind, "--skip-tokenizer-init",
                               "--device", args.device, "--batch-size", *map(str, batches), "--input-len", "64" if args.small else "1024",
                               "--output-len", "8" if args.small else "64", "--repeat", "1" if args.small else "3",
                               "--max-running-requests", str(max(batches))])
            table[f"model {shape} {kind}"] = text or "no time was left"


def measure_sets(args, clock, table):
    """Lengths are drawn evenly from half of the longest to it, so their mean is three quarters of that."""
    shape, prompts = ("tiny", 4) if args.small else ("8b", 512)
    with tempfile.TemporaryDirectory() as at:
        model = make_model(pathlib.Path(at) / shape, shape)
        for asked, answered in ((243, 770), (295, 770), (243, 386), (295, 386), (221, 201)):
            less = 16 if args.small else 1
            text = run(clock, [BIN / "espalier", "bench", "offline", model, "--load-format", "dummy", "--dtype", "bf16", "--skip-tokenizer-init", "--device", args.device,
                               "--num-prompts", str(prompts), "--random-range-ratio", "0.5", "--input-len", str(round(asked / 0.75) // less),
                               "--output-len", str(round(answered / 0.75) // less), "--max-running-requests", "256"])
            table[f"model {shape} bf16, I-{asked}-O-{answered}"] = text or "no time was left"


def measure_ranks(args, clock, table):
    """Two ranks beside one: the answers must be the same. Where there is one GPU both have it, and their parts go by way of the host."""
    counted = re.search(r"CUDA devices\W+(\d+)", run(clock, [BIN / "espalier", "doctor"]) or "")
    several = counted is not None and int(counted.group(1)) > 1
    shape = "tiny" if args.small else "8b"
    with tempfile.TemporaryDirectory() as at:
        model = make_model(pathlib.Path(at) / shape, shape)
        table["ranks"] = run(clock, [sys.executable, ROOT / "bench/ranks.py", model, "--tokens", "8" if args.small else "64", "--prompt", "64" if args.small else "1024",
                                     "--rounds", "1" if args.small else "3", "--load-format", "dummy", "--dtype", "bf16", "--max-total-tokens", "4096",
                                     "--device", args.device, "--gpu-id-step", "1" if several else "0"]) or "no time was left"


def sanitize(args, clock, table):
    tool = shutil.which("compute-sanitizer")
    if tool is None or args.device != "cuda":
        table["compute-sanitizer"] = "not here"
        return
    text = run(clock, [tool, "--tool", "memcheck", BIN / "device_test", "--gtest_filter=*Few*:*llama2*:*OverLatentRows*cuda"]) or ""
    found = re.search(r"ERROR SUMMARY: (\d+)", text)
    table["compute-sanitizer"] = f"{found.group(1)} errors" if found else "nothing told"


PARTS = {"info": look_at_device, "exact": check_exactness, "kernels": measure_kernels, "torch": measure_torch, "model": measure_model, "sets": measure_sets,
         "ranks": measure_ranks, "sanitizer": sanitize}


def tell(table):
    print("\n" + "=" * 100)
    for name, value in table.items():
        if isinstance(value, list):
            print(f"{name}:")
            for row in value:
                print("   ", "  ".join(f"{key} {number:,.2f}" if isinstance(number, float) else str(number) for key, number in row.items()))
        else:
            print(f"{name}: {value}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "emu"))
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--small", action="store_true", help="shapes for an emulated device")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    clock, table = Clock(args.minutes), {}
    for part in args.only.split(","):
        if args.device == "emu" and part == "torch":
            continue
        PARTS[part](args, clock, table)
    tell(table)
    if args.json:
        args.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
