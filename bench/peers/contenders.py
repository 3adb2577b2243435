"""Who is measured: Espalier, llama.cpp, OpenVINO GenAI and vLLM, each with its best flags.

Every contender has a name, `missing` (why it cannot be measured at all, or ""), `in_process(model, load)` with the figures of
one load, and `server(model)` with the command of its HTTP server, in which {port} stands for the port. Both raise Failed.
"""
import glob
import json
import os
import re

from peers.runner import Failed

HERE = os.path.dirname(os.path.abspath(__file__))
ISA_OF_PEERS = "it cannot be held to one instruction set (--isa)"


class Contender:
    missing = ""

    def in_process(self, model, load):
        raise Failed("measured over HTTP only")

    def server(self, model):
        raise Failed("has no server")


class Espalier(Contender):
    name = "espalier"

    def __init__(self, options, runner):
        self.program, self.threads, self.runner = options.espalier, options.threads, runner
        self.prefix = ["env", f"ESPALIER_ISA={options.isa}"] if options.isa else []
        if not os.access(self.program, os.X_OK):
            self.missing = f"{self.program} is not there (--espalier)"

    def command(self, *words):
        return [*self.prefix, self.program, *words]

    def in_process(self, model, load):
        # all prompts of a batch in one step, so that its sequences begin to decode together
        together = ["--prefill-chunk", "-1"] if load.sequences > 1 else []
        printed = self.runner.run(self.command("bench", "latency", model.gguf, "--threads", str(self.threads), "--input-len",
                                               str(load.prompt), "--output-len", str(load.generated), "--batch-size", str(load.sequences),
                                               *together, "--repeat", str(load.bursts), "--json"))
        line = json.loads(printed.splitlines()[-1])
        if load.section == "prefill":
            return {"tok/s": line["prefill_throughput"], "share": line["prefill_share"], "limit": "multipliers"}
        rate = line["median_decode_throughput"]
        shares = {"memory": line["decode_memory_share"], "multipliers": line["decode_multiplier_share"]}
        nearer = max(shares, key=shares.get)
        return {"tok/s": rate, "share": shares[nearer], "limit": nearer}

    def server(self, model):
        return self.command("serve", model.gguf, "--port", "{port}", "--threads", str(self.threads))


class LlamaCpp(Contender):
    name = "llamacpp"

    def __init__(self, options, runner):
        self.options, self.runner, self.flash, self.own_prompts = options, runner, {}, set()
        self.folder = (options.llamacpp_avx2 if options.isa else options.llamacpp) or ""
        if options.isa and not self.folder:
            self.missing = "no build for this instruction set was given (--llamacpp-avx2)"
        elif not os.path.isfile(f"{self.folder}/llama-bench"):
            self.missing = f"{self.folder}/llama-bench is not there"

    def _single(self, model, load, flash, bursts):
        """One sequence: prefill from nothing, or decoding behind a prompt."""
        prompt = str(load.prompt)
        if load.section == "prefill":  # its warm-up would be a whole prompt more; the first of the bursts is one
            amounts = ["-p", prompt, "-n", "0", "--no-warmup"]
        else:
            amounts = ["-p", "0", "-n", str(load.generated), "-d", prompt]
        rows = json.loads(self.runner.run([f"{self.folder}/llama-bench", "-m", model.gguf, *amounts, "-t", str(self.options.threads),
                                           "-fa", flash, "-r", str(bursts), "-o", "json"]))
        return max(rows[0]["samples_ts"])

    def _batched(self, model, load, flash, bursts):
        """Many sequences; their common prompt is computed once and copied, for only decoding counts here. Models with a recurrent
        state can't copy it there: each sequence computes its own."""
        if model not in self.own_prompts:
            try:
                return self._batched_rate(model, load, flash, bursts, ["-pps"])
            except Failed:
                self.own_prompts.add(model)
        return self._batched_rate(model, load, flash, bursts, [])

    def _batched_rate(self, model, load, flash, bursts, sharing):
        threads, tokens = str(self.options.threads), load.sequences * (load.prompt + load.generated) + 64
        printed = self.runner.run([f"{self.folder}/llama-batched-bench", "-m", model.gguf, "-c", str(tokens), "-npp", str(load.prompt),
                                   "-ntg", str(load.generated), "-npl", ",".join([str(load.sequences)] * bursts), *sharing,
                                   "-t", threads, "-tb", threads, "-fa", "on" if flash == "1" else "off"])
        rates = [float(row.split("|")[8]) for row in re.findall(r"^\|\s*\d+ \|.*$", printed, re.M)]  # S_TG t/s
        if not rates:
            raise Failed("llama-batched-bench printed no rates")
        return max(rates)

    def _best_flash(self, model, load):
        """Whether flash attention helps depends on processor, weights and load, so both ways are tried once, before the rounds."""
        if (model, load) not in self.flash:
            measure = self._batched if load.sequences > 1 else self._single
            rates = {flash: measure(model, load, flash, 1) for flash in ("0", "1")}
            self.flash[model, load] = max(rates, key=rates.get)
        return self.flash[model, load]

    def prepare(self, model, load):
        self._best_flash(model, load)

    def in_process(self, model, load):
        measure = self._batched if load.sequences > 1 else self._single
        return {"tok/s": measure(model, load, self._best_flash(model, load), load.bursts)}

    def server(self, model):
        o = self.options
        return [f"{self.folder}/llama-server", "-m", model.gguf, "--host", "127.0.0.1", "--port", "{port}", "-t", str(o.threads),
                "-tb", str(o.threads), "-np", str(o.slots), "-c", str(o.slots * o.context)]


class OpenVino(Contender):
    name = "openvino"

    def __init__(self, options, runner):
        self.options, self.runner = options, runner
        self.python = f"{options.openvino}/bin/python"
        if options.isa:
            self.missing = ISA_OF_PEERS
        elif not os.path.isfile(self.python):
            self.missing = f"{self.python} is not there"

    def worker(self, model, load, *more):
        printed = self.runner.run([self.python, f"{HERE}/openvino_worker.py", model.gguf, load, "--threads", str(self.options.threads),
                                   *map(str, more)])
        return json.loads(printed.splitlines()[-1])

    def in_process(self, model, load):
        kind = "prefill" if load.section == "prefill" else "decode"
        return self.worker(model, kind, "--prompt", load.prompt, "--sequences", load.sequences, "--generated", load.generated,
                           "--bursts", load.bursts)


class Vllm(Contender):
    name = "vllm"

    def __init__(self, options, runner):
        self.options, self.folder = options, options.vllm
        if options.isa:
            self.missing = ISA_OF_PEERS
        elif not os.path.isfile(f"{self.folder}/bin/python"):
            self.missing = f"{self.folder}/bin/python is not there"

    def _environment(self):
        o, folder = self.options, os.path.abspath(self.folder)
        wanted = (f"{folder}/lib/libiomp5.so", *sorted(glob.glob(f"{folder}/deb/usr/lib/*/libtcmalloc_minimal.so.4")))
        preloaded = [path for path in wanted if os.path.isfile(path)]  # its manual asks for both
        values = {"PATH": f"{folder}/bin:/usr/bin:/bin", "LD_PRELOAD": ":".join(preloaded), "HF_HUB_OFFLINE": 1, "VLLM_NO_USAGE_STATS": 1,
                  "DO_NOT_TRACK": 1, "VLLM_HOST_IP": "127.0.0.1", "VLLM_CACHE_ROOT": f"{folder}/cache",
                  "TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache/inductor", "VLLM_TARGET_DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": "",
                  "VLLM_CPU_OMP_THREADS_BIND": f"0-{o.threads - 1}", "VLLM_CPU_NUM_OF_RESERVED_CPU": 0}
        return [f"{name}={value}" for name, value in values.items()]

    def server(self, model):
        if not model.hf:
            raise Failed(f"reads no GGUF, and there is no folder hf beside {model.gguf}")
        python = f"{os.path.abspath(self.folder)}/bin/python"
        return ["env", *self._environment(), python, "-m", "vllm.entrypoints.openai.api_server", "--model", model.hf, "--served-model-name",
                "m", "--host", "127.0.0.1", "--port", "{port}", "--dtype", "bfloat16", "--max-model-len", str(self.options.context),
                "--max-num-seqs", "64", "--kv-cache-memory-bytes", str(2 << 30)]
