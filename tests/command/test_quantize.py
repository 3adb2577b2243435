"""`espalier quantize` as people call it: GGUF and safetensors out of folders and GGUF files, cut off and gone on with, and
read again by `espalier`, and by PyPI's gguf and transformers where the machine has them.

ESPALIER_REFERENCE names a python that has gguf, torch, transformers and compressed-tensors (else python3 is
asked); without one the tests that need them say so.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from program import BINARY, MODEL, SOURCE, Server, without_sanitizers

MODELS = SOURCE / "tests" / "data" / "goldens" / "models"
TEXT = "The quick brown fox jumps over the lazy dog. It was a cold day in May, and 17 clocks struck twelve.\n" * 60


def reference_python(*modules):
    """A python that has these modules; None: there is none."""
    for python in (os.environ.get("ESPALIER_REFERENCE"), shutil.which("python3")):
        if python and shutil.which(python):
            code = "import " + ", ".join(modules)
            if subprocess.run([python, "-c", code], capture_output=True).returncode == 0:
                return python
    return None


def tensors_of(path):
    """Name to (dtype, shape, bytes) of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + length])
    return {name: (t["dtype"], t["shape"], data[8 + length:][slice(*t["data_offsets"])])
            for name, t in head.items() if name != "__metadata__"}


def write_safetensors(path, tensors):
    head, at, body = {}, 0, b""
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
        body += data
    text = json.dumps(head).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def digest(path):
    path = pathlib.Path(path)
    total = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
        total.update(str(file.relative_to(path)).encode() + b"\0" + file.read_bytes())
    return total.hexdigest()


class Quantize(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.text = self.folder / "text.txt"
        self.text.write_text(TEXT)

    def run_it(self, *words, code=0, **more):
        done = subprocess.run([BINARY, "quantize", *map(str, words)], capture_output=True, text=True, **more)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    def refused(self, *words, says):
        done = subprocess.run([BINARY, "quantize", *map(str, words)], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertGreaterEqual(done.returncode, 0, done.stderr)  # not by a signal
        self.assertRegex(done.stderr, says)
        self.assertEqual(len(done.stderr.strip().splitlines()[-1].split("espalier: ")), 2, done.stderr)
        return done

    def divergence(self, done):
        return float(re.search(r"KL divergence +([0-9.]+)", done.stdout).group(1))

    def test_a_folder_becomes_a_gguf_file_that_computes_the_same(self):
        done = self.run_it(MODEL, self.folder / "m.gguf", "--type", "f16")
        self.assertLess(self.divergence(done), 1e-4)
        again = subprocess.run([BINARY, "inspect", "--brief", str(self.folder / "m.gguf")], capture_output=True, text=True)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertTrue((self.folder / "m.gguf.report.svg").read_text().startswith("<svg"))

    def test_what_a_folder_proposes_for_sampling_is_served_from_its_gguf_file(self):
        proposed = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.05, "repetition_penalty": 1.05}
        shutil.copytree(MODEL, self.folder / "source")
        (self.folder / "source" / "generation_config.json").write_text(json.dumps(proposed))
        self.run_it(self.folder / "source", self.folder / "m.gguf", "--type", "q8_0", "--no-report")
        with Server(model=self.folder / "m.gguf") as server:
            self.assertEqual(server.get("/v1/state").json["models"][0]["sampling"], proposed)

    def test_each_gguf_type_costs_less_the_more_bits_it_has(self):
        last = None
        for kind in ("q8_0", "q5_1", "q4_1", "q2_k"):  # rows are 64 long: q2_k becomes blocks of 32 and f16
            made = self.folder / f"{kind}.gguf"
            done = self.run_it(MODEL, made, "--type", kind, "--text", self.text)
            divergence = self.divergence(done)
            self.assertLess(divergence, 2.0, kind)  # the golden's weights are random, and its ppl 30,000
            if last is not None and kind != "q2_k":
                self.assertGreater(divergence, last, kind)
            last = divergence

    def test_families_of_folders_become_gguf_files(self):
        seen = []
        for name in ("qwen3-tied", "qwen2-yarn", "mistral-sliding", "llama3-tied-gqa", "gemma2", "gemma3", "phi3", "granite",
                     "olmo2", "smollm3", "mixtral", "qwen3-moe"):
            folder = MODELS / name
            if not (folder / "model.safetensors").exists() and not list(folder.glob("*.safetensors")):
                continue
            done = subprocess.run([BINARY, "quantize", str(folder), str(self.folder / f"{name}.gguf"), "--type", "f16",
                                   "--text", str(self.text)], capture_output=True, text=True)
            if done.returncode != 0:
                self.assertIn("safetensors", done.stderr, name)  # says what would work
                continue
            if "KL divergence" in done.stdout:
                self.assertLess(self.divergence(done), 1e-3, f"{name}\n{done.stdout}")
            seen.append(name)
        self.assertGreaterEqual(len(seen), 2, seen)

    def test_safetensors_types_load_again_and_stay_near(self):
        for kind, most in (("w8a8", 0.02), ("w8a16", 0.02), ("w4a16", 3.0), ("w4a16_asym", 3.0)):
            made = self.folder / kind
            done = self.run_it(MODEL, made, "--type", kind, "--text", self.text)
            self.assertLess(self.divergence(done), most, kind)
            config = json.loads((made / "config.json").read_text())["quantization_config"]
            self.assertEqual(config["quant_method"], "compressed-tensors")
            self.assertIn("lm_head", config["ignore"])

    def test_a_gguf_file_keeps_its_metadata_and_plain_tensors(self):
        self.run_it(MODEL, self.folder / "a.gguf", "--type", "f16", "--no-report")
        self.run_it(self.folder / "a.gguf", self.folder / "b.gguf", "--type", "q4_0", "--no-report",
                    "--token-embedding-type", "q8_0")
        python = reference_python("gguf")
        if python is None:
            self.skipTest("no python with the package gguf is here")
        code = """import gguf, sys
a, b = (gguf.GGUFReader(p) for p in sys.argv[1:])
assert {k for k in a.fields if not k.startswith('GGUF')} == {k for k in b.fields if not k.startswith('GGUF')}
for k, f in a.fields.items():
    if k.startswith('GGUF') or k == 'general.file_type': continue
    assert f.contents() == b.fields[k].contents(), k
types = {t.name: t.tensor_type.name for t in b.tensors}
assert types['token_embd.weight'] == 'Q8_0', types
assert types['blk.0.ffn_up.weight'] == 'Q4_0', types
assert types['blk.0.attn_norm.weight'] == 'F32', types
"""
        done = subprocess.run([python, "-c", code, str(self.folder / "a.gguf"), str(self.folder / "b.gguf")],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_any_number_of_threads_gives_the_same_bytes(self):
        for kind in ("q4_0", "w4a16"):
            for threads in (1, 2, 3):
                self.run_it(MODEL, self.folder / f"{kind}-{threads}", "--type", kind, "--threads", threads, "--no-report",
                            "--calibrate", self.text)
            for threads in (2, 3):
                self.assertEqual(digest(self.folder / f"{kind}-1"), digest(self.folder / f"{kind}-{threads}"), kind)

    def killed_at_journal_lines(self, source, made, lines, *flags):
        journal = made / ".journal" if made.suffix != ".gguf.partial" and made.is_dir() else None
        process = subprocess.Popen([BINARY, "quantize", str(source), str(made), *flags], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        places = (pathlib.Path(f"{made}.partial") / ".journal", pathlib.Path(f"{made}.partial.journal"))
        while process.poll() is None:
            journal = next((p for p in places if p.is_file()), None)
            if journal is not None and journal.read_bytes().count(b"\n") > lines:
                process.send_signal(signal.SIGKILL)
                break
        return process.wait() == -signal.SIGKILL

    def grown_model(self):
        """A folder whose making takes long enough to be cut off: the golden's layers, many times."""
        grown = self.folder / "grown"
        grown.mkdir()
        for file in MODEL.iterdir():
            if file.suffix in (".json", ".jinja", ".txt") and file.name != "golden.json":
                shutil.copy(file, grown / file.name)
        tensors = tensors_of(MODEL / "model.safetensors")
        config = json.loads((MODEL / "config.json").read_text())
        layers = config["num_hidden_layers"]
        for name in list(tensors):
            found = re.match(r"model\.layers\.(\d+)\.(.*)", name)
            if found:
                for copy in range(1, 24):
                    tensors[f"model.layers.{int(found[1]) + copy * layers}.{found[2]}"] = tensors[name]
        config["num_hidden_layers"] = layers * 24
        (grown / "config.json").write_text(json.dumps(config))
        write_safetensors(grown / "model.safetensors", tensors)
        return grown

    def test_killed_half_way_and_started_again_gives_the_same_bytes(self):
        source = self.grown_model()
        for kind, flags in (("q4_1", ()), ("w4a16", ("--calibrate", str(self.text), "--calibrate-tokens", "256"))):
            whole = self.folder / f"whole-{kind}"
            self.run_it(source, whole, "--type", kind, "--no-report", *flags)
            made, kills = self.folder / f"cut-{kind}", 0
            for lines in (2, 20, 60, 110):
                kills += self.killed_at_journal_lines(source, made, lines, "--type", kind, "--no-report", *flags)
            self.assertGreaterEqual(kills, 2, "it was too quick to be killed")
            self.assertFalse(made.exists())
            done = self.run_it(source, made, "--type", kind, "--no-report", *flags)
            self.assertIn("going on where an earlier run stopped", done.stderr)
            self.assertEqual(digest(whole), digest(made), kind)
            self.assertFalse(pathlib.Path(f"{made}.partial").exists())
            self.assertFalse(pathlib.Path(f"{made}.partial.journal").exists())

    def test_bytes_that_a_crash_damaged_are_made_again(self):
        source = self.grown_model()
        self.run_it(source, self.folder / "whole.gguf", "--type", "q8_0", "--no-report")
        made = self.folder / "cut.gguf"
        self.assertTrue(self.killed_at_journal_lines(source, made, 60, "--type", "q8_0", "--no-report"))
        partial = pathlib.Path(f"{made}.partial")
        data = bytearray(partial.read_bytes())
        for at in range(len(data) // 50, len(data), len(data) // 50):
            data[at:at + 64] = bytes(64)
        whole = (self.folder / "whole.gguf").read_bytes()
        head = whole.index(b"general.architecture") - 32  # the head is written before all, and damaged in no crash
        data[:max(head, 0) + 200000] = whole[:max(head, 0) + 200000]
        partial.write_bytes(data)
        self.run_it(source, made, "--type", "q8_0", "--no-report")
        self.assertEqual(made.read_bytes(), whole)

    def test_other_wishes_do_not_go_on_with_what_is_there(self):
        source = self.grown_model()
        made = self.folder / "m.gguf"
        self.assertTrue(self.killed_at_journal_lines(source, made, 30, "--type", "q8_0", "--no-report"))
        done = self.run_it(source, made, "--type", "q5_0", "--no-report")
        self.assertNotIn("going on", done.stderr)
        self.run_it(source, self.folder / "n.gguf", "--type", "q5_0", "--no-report")
        self.assertEqual(digest(made), digest(self.folder / "m.gguf"))
        self.assertEqual(made.read_bytes(), (self.folder / "n.gguf").read_bytes())

    def test_what_is_there_is_kept_unless_told_otherwise(self):
        made = self.folder / "m.gguf"
        made.write_text("mine")
        self.refused(MODEL, made, "--type", "q8_0", says="is there already; another name, or --overwrite")
        self.assertEqual(made.read_text(), "mine")
        self.run_it(MODEL, made, "--type", "q8_0", "--no-report", "--overwrite")
        self.assertEqual(made.read_bytes()[:4], b"GGUF")

    def test_a_dry_run_tells_sizes_and_writes_nothing(self):
        done = self.run_it(MODEL, self.folder / "m.gguf", "--type", "q4_0", "--dry-run")
        self.assertRegex(done.stdout, r"blk\.0\.ffn_up\.weight +\w+ +Q4_0 ")
        self.assertRegex(done.stdout, r"\d+ tensors: .* become .* \([0-9.]+ %\)")
        self.assertEqual([p.name for p in self.folder.iterdir()], ["text.txt"])
        self.run_it(MODEL, self.folder / "m.gguf", "--type", "q4_0", "--no-report")
        size = (self.folder / "m.gguf").stat().st_size
        told = re.search(r"become ([0-9.]+) (KiB|MiB)", done.stdout)
        self.assertAlmostEqual(float(told[1]) * {"KiB": 1024, "MiB": 1 << 20}[told[2]] / size, 1.0, delta=0.01)

    def to_break(self):
        """A folder with the model's files but its tensors, those tensors, and the name of one of them."""
        broken = self.folder / "broken"
        broken.mkdir()
        for file in MODEL.iterdir():
            if file.suffix in (".json", ".jinja") and file.name != "golden.json":
                shutil.copy(file, broken / file.name)
        tensors = tensors_of(MODEL / "model.safetensors")
        return broken, tensors, next(n for n in tensors if n.endswith("layers.1.mlp.up_proj.weight"))

    def test_values_that_are_no_numbers_are_told_with_their_tensor(self):
        broken, tensors, name = self.to_break()
        dtype, shape, data = tensors[name]
        nan = {"F32": struct.pack("<f", float("nan")), "BF16": b"\xc0\x7f", "F16": b"\x00\x7e"}[dtype]
        at = 3 * shape[1] * len(nan) + 5 * len(nan)
        tensors[name] = (dtype, shape, data[:at] + nan + data[at + len(nan):])
        write_safetensors(broken / "model.safetensors", tensors)
        for kind in ("q4_0", "w4a16"):
            self.refused(broken, self.folder / "out", "--type", kind, "--no-report",
                         says=rf"{re.escape(name) if kind == 'w4a16' else 'blk.1.ffn_up'}.*no number in row 3, column 5")
            self.assertFalse((self.folder / "out").exists())

    def test_a_missing_tensor_is_named_before_anything_is_written(self):
        broken, tensors, name = self.to_break()
        del tensors[name]
        write_safetensors(broken / "model.safetensors", tensors)
        for kind in ("q4_0", "w4a16"):
            self.refused(broken, self.folder / "out", "--type", kind, "--no-report", says=re.escape(name))
            self.assertEqual([p.name for p in self.folder.iterdir() if p.name.startswith("out")], [])

    @without_sanitizers
    def test_a_full_disk_is_told_before_the_work_begins(self):
        import resource

        def little():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        done = subprocess.run([BINARY, "quantize", str(MODEL), str(self.folder / "m.gguf"), "--type", "q8_0"],
                              capture_output=True, text=True, preexec_fn=little)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"m\.gguf\.partial cannot be (given its room|written).*")

    def test_wrong_words_are_refused_with_what_would_work(self):
        out = self.folder / "out"
        self.refused(MODEL, out, "--type", "q9_9", says="--type q9_9 is not known; f16, .*w4a16")
        self.refused(MODEL, out, says="--type is missing")
        self.refused(MODEL, "--type", "q8_0", says="a destination is missing")
        self.refused(self.folder / "nothing", out, "--type", "q8_0", says="nothing")
        self.refused(MODEL, self.folder / "no" / "such" / "m.gguf", "--type", "q8_0", says="there is no folder")
        self.refused(MODEL, out, "--type", "w4a16", "--output-tensor-type", "q8_0", says="are for GGUF types")
        self.refused(MODEL, out, "--type", "w8a8", "--group-size", "32", says="--group-size is for w4a16")
        self.refused(MODEL, out, "--type", "q8_0", "--output-tensor-type", "q77", says="q77 is not known")
        self.refused(MODEL, out, "--type", "q8_0", "--calibrate", self.folder / "no.txt", says="no.txt cannot be read")
        self.run_it(MODEL, self.folder / "m.gguf", "--type", "q8_0", "--no-report")
        self.refused(self.folder / "m.gguf", out, "--type", "w8a8", says="a GGUF file becomes GGUF files")

    def test_a_text_to_measure_by_lowers_the_divergence(self):
        text = self.folder / "long.txt"
        text.write_text("".join(f"{i} is {i * i}, and the {i}th word is {'abcdefgh'[i % 8] * (i % 5 + 1)}.\n" for i in range(600)))
        for kind in ("q4_0", "w4a16"):
            plain = self.run_it(MODEL, self.folder / f"plain-{kind}", "--type", kind, "--text", text)
            weighed = self.run_it(MODEL, self.folder / f"weighed-{kind}", "--type", kind, "--text", text, "--calibrate", text)
            self.assertLess(self.divergence(weighed), 1.1 * self.divergence(plain), kind)

    def with_tokenizer(self, name):
        """The golden of another family, with as many words as MODEL's tokenizer has."""
        source, folder = MODELS / name, self.folder / name
        folder.mkdir()
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(MODEL / file, folder / file)
        config = json.loads((source / "config.json").read_text())
        words, more = config["vocab_size"], json.loads((MODEL / "config.json").read_text())["vocab_size"]
        tensors = tensors_of(source / "model.safetensors")
        for key, (dtype, shape, data) in tensors.items():
            if shape[0] == words:
                tensors[key] = (dtype, [more, *shape[1:]], data + bytes(len(data) // words * (more - words)))
        config["vocab_size"] = more
        (folder / "config.json").write_text(json.dumps(config))
        write_safetensors(folder / "model.safetensors", tensors)
        return folder, tensors

    def share_not_nearest(self, made, tensors, key):
        """Of a matrix in four bits: codes that are not what the weight alone would be rounded to."""
        def floats(entry):
            dtype, _, data = entry
            self.assertEqual(dtype, "BF16")
            return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]

        stem = key.removesuffix("weight")
        weights, scales = floats(tensors[key]), floats(made[stem + "weight_scale"])
        words = struct.unpack(f"<{len(made[stem + 'weight_packed'][2]) // 4}I", made[stem + "weight_packed"][2])
        group, other = len(weights) // len(scales), 0
        for i, weight in enumerate(weights):
            code, scale = (words[i // 8] >> (4 * (i % 8)) & 15) - 8, scales[i // group]
            other += scale != 0 and abs(code - max(-8, min(7, weight / scale))) > 0.51
        return other / len(weights)

    def test_errors_are_made_up_for_whatever_a_family_calls_its_layers(self):
        for name, layer in (("codegen", "transformer.h."), ("mpt", "transformer.blocks."), ("falcon-40b", "transformer.h.")):
            source, tensors = self.with_tokenizer(name)
            made = self.folder / f"{name}-w4"
            self.run_it(source, made, "--type", "w4a16", "--no-report", "--group-size", "32", "--calibrate", self.text)
            made = tensors_of(made / "model.safetensors")
            keys = [key for key in tensors if key.removesuffix("weight") + "weight_packed" in made]
            self.assertGreaterEqual(len(keys), 6, name)
            for key in keys:
                self.assertIn(layer, key)
                self.assertGreater(self.share_not_nearest(made, tensors, key), 0.01, key)

    def test_gguf_package_decodes_what_was_written_bit_for_bit(self):
        python = reference_python("gguf")
        if python is None:
            self.skipTest("no python with the package gguf is here")
        source = self.wide_model(python)
        code = """import gguf, sys, numpy as np, json
ours = {t.name: t for t in gguf.GGUFReader(sys.argv[2]).tensors}
out = {}
for t in gguf.GGUFReader(sys.argv[1]).tensors:
    values = gguf.dequantize(t.data, t.tensor_type).astype(np.float32)
    here = ours[t.name]
    if here.tensor_type == gguf.GGMLQuantizationType.F16:
        values = values.astype(np.float16)
    out[t.name] = [t.tensor_type.name, here.data.tobytes() == values.tobytes()]
print(json.dumps(out))
"""
        kinds = set()
        for kind in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k_m", "q4_k_m", "q5_k_s", "q6_k", "iq4_nl", "iq4_xs"):
            made, decoded = self.folder / f"{kind}.gguf", self.folder / "decoded.gguf"
            self.run_it(source, made, "--type", kind, "--no-report")
            self.run_it(made, decoded, "--type", "f16", "--no-report", "--overwrite")  # as this program decodes it
            theirs = json.loads(subprocess.run([python, "-c", code, str(made), str(decoded)], capture_output=True, text=True, check=True).stdout)
            self.assertEqual([name for name, (_, same) in theirs.items() if not same], [], kind)
            kinds |= {type_name for type_name, _ in theirs.values()}
        self.assertLessEqual({"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"},
                             kinds)

    def wide_model(self, python):
        """Random weights whose rows are whole blocks of 256."""
        code = """import sys, json, numpy as np, gguf
w = gguf.GGUFWriter(sys.argv[1], 'llama')
for k, v in dict(block_count=2, context_length=256, embedding_length=256, feed_forward_length=512, vocab_size=64).items():
    w.add_uint32('llama.' + k, v)
w.add_uint32('llama.attention.head_count', 4); w.add_uint32('llama.attention.head_count_kv', 4)
w.add_float32('llama.attention.layer_norm_rms_epsilon', 1e-5)
w.add_string('tokenizer.ggml.model', 'none')
r = np.random.default_rng(1)
add = lambda n, *s: w.add_tensor(n, (r.standard_t(5, s) * 0.05).astype(np.float32) if len(s) > 1 else np.ones(s, np.float32))
add('token_embd.weight', 64, 256); add('output_norm.weight', 256); add('output.weight', 64, 256)
for i in range(2):
    b = f'blk.{i}.'
    for n in ('q', 'k', 'v', 'output'): add(f'{b}attn_{n}.weight', 256, 256)
    add(b + 'attn_norm.weight', 256); add(b + 'ffn_norm.weight', 256)
    add(b + 'ffn_gate.weight', 512, 256); add(b + 'ffn_up.weight', 512, 256); add(b + 'ffn_down.weight', 256, 512)
w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
"""
        path = self.folder / "wide.gguf"
        subprocess.run([python, "-c", code, str(path)], check=True, capture_output=True)
        return path

    def test_transformers_loads_what_was_written(self):
        python = reference_python("torch", "transformers", "compressed_tensors")
        if python is None:
            self.skipTest("no python with torch, transformers and compressed-tensors is here")
        code = """import sys, json, torch
from transformers import AutoModelForCausalLM
from safetensors.torch import load_file
from compressed_tensors.compressors import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationConfig
import transformers; transformers.logging.set_verbosity_error()
ids = torch.tensor([[1, 5, 9, 30, 77, 200, 31, 8, 120, 44, 3, 250] * 8])
def load(path):
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
def unpacked(path):  # transformers 5.24 with compressed-tensors 0.20 makes no room for packed zero points
    model, state, modules = load(sys.argv[1]), load_file(path + '/model.safetensors'), {}
    scheme = QuantizationConfig(**json.load(open(path + '/config.json'))['quantization_config']).config_groups['group_0']
    for name, tensor in state.items():
        stem, _, last = name.rpartition('.')
        modules.setdefault(stem, {})[last] = tensor
    with torch.no_grad():
        for stem, parts in modules.items():
            if 'weight_packed' in parts:
                weight = PackedQuantizationCompressor.decompress(parts, scheme)['weight']
                model.get_submodule(stem).weight.copy_(weight)
    return model
def rows(model):
    with torch.no_grad(): return torch.log_softmax(model(ids).logits.double(), -1)
a, out = rows(load(sys.argv[1])), {}
for path in sys.argv[2:]:
    b = rows(unpacked(path) if path.endswith('asym') else load(path))
    out[path] = float((a.exp() * (a - b)).sum(-1).mean())
print(json.dumps(out))
"""
        made = {}
        for kind in ("w8a8", "w8a16", "w4a16", "w4a16_asym"):
            made[kind] = self.folder / kind
            self.run_it(MODEL, made[kind], "--type", kind, "--no-report")
        done = subprocess.run([python, "-c", code, str(MODEL), *map(str, made.values())], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        divergence = json.loads(done.stdout.strip().splitlines()[-1])
        for kind, most in (("w8a8", 0.05), ("w8a16", 0.02), ("w4a16", 3.0), ("w4a16_asym", 3.0)):
            self.assertLess(divergence[str(made[kind])], most, kind)


if __name__ == "__main__":
    unittest.main()
