"""`espalier serve`: its flags, configuration file and environment, and what becomes of other servers' flags. No model is loaded."""
import json
import pathlib
import re
import tempfile
import unittest

from program import MODEL, SOURCE, espalier


def config(*flags, env=None, code=0):
    ended = espalier("serve", *flags, "--print-config", env=env)
    assert ended.code == code, ended
    return ended


def value(ended, key):
    found = re.search(rf"^{key}: (.*?)  # (.*)$", ended.out, re.M)
    return found and found.groups()


def variable(flag):
    return "ESPALIER_" + flag.upper().replace("-", "_")


class Precedence(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, text):
        path = pathlib.Path(self.folder.name) / "serve.yaml"
        path.write_text(text)
        return path

    def test_command_line_wins_over_environment_over_file_over_default(self):
        file = self.file("port: 1\nthreads: 1\nmax_running_requests: 1\n")
        ended = config("--config", file, "--port", "3", env={"ESPALIER_PORT": "2", "ESPALIER_THREADS": "2"})
        self.assertEqual(value(ended, "port"), ("3", "command line"))
        self.assertEqual(value(ended, "threads"), ("2", "ESPALIER_THREADS"))
        self.assertEqual(value(ended, "max-running-requests"), ("1", "file"))
        self.assertEqual(value(ended, "max-queued-requests"), ("256", "default"))

    def test_synonyms_of_other_servers_are_keys_too_and_the_command_line_wins_over_them(self):
        file = self.file("max-model-len: 100\nseed: 7\nmodel-path: from-file\n")
        ended = config("from-line", "--config", file, "-c", "200")
        self.assertEqual(value(ended, "context-length"), ("200", "command line"))
        self.assertEqual(value(ended, "random-seed"), ("7", "file"))
        self.assertEqual(value(ended, "model"), ('"from-line"', "command line"))

    def test_what_is_printed_can_be_read_again(self):
        first = config(MODEL, "--port", "0", "--no-log-requests", "--served-model-name", "a: b", "--served-model-name", "c",
                       "--fair-tenants", "--cache-disk", "1G", "--chat-template", 'a "quoted" #one')
        second = config("--config", self.file(first.out))
        plain = lambda ended: re.sub(r"  # .*", "", ended.out)
        self.assertEqual(plain(second), plain(first))

    def test_keys_are_hidden(self):
        ended = config("--api-key", "hush-1", env={"ESPALIER_ADMIN_API_KEY": "hush-2"})
        self.assertNotIn("hush", ended.out)
        self.assertIn("# api-key: not shown  # command line", ended.out)

    def test_a_file_that_cannot_be_honoured_is_refused_with_line_and_key(self):
        for text, sentence in (("port: 1\nprot: 2\n", r"line 2: there is no flag --prot, did you mean --port"),
                               ("port: x\n", r"line 1: .*--port"), ("port: [1, 2]\n", "line 1: --port takes one plain value"),
                               ("port: {a: 1}\n", "line 1: --port takes one plain value"), ("port:\n", "--port takes one plain value"),
                               ("- port\n", "flags and their values"), ("a: {\n", "line 2"), ("help: true\n", "no flag --help"),
                               ("dp: 2\n", "--dp-size 2 cannot be honoured"), ("api-key: ''\n", "--api-key is empty"),
                               ("log-level: loud\n", "--log-level is loud")):
            ended = config("--config", self.file(text), code=2)
            self.assertRegex(ended.err, sentence)

    def test_an_empty_file_changes_nothing_and_a_missing_one_is_said(self):
        self.assertIn("port: 30000", config("--config", self.file("# nothing\n")).out)
        self.assertIn("not a readable file", config("--config", "/nowhere.yaml", code=3).err)

    def test_truth_values_of_the_environment(self):
        for word, wanted in (("1", "true"), ("on", "true"), ("false", "false"), ("0", "false")):
            self.assertEqual(value(config(env={"ESPALIER_STRICT": word}), "strict"), (wanted, "ESPALIER_STRICT"))


class EveryFlag(unittest.TestCase):
    """No flag stands alone: each has a variable of the environment and a key of the file, and is shown with where it comes from."""

    @classmethod
    def setUpClass(cls):
        printed = config().out
        cls.flags = re.findall(r"^(?:# )?([a-z][a-z0-9-]*): ", printed, re.M)
        cls.defaults = {flag: json.loads(said) for flag, said in re.findall(r"^([a-z0-9-]+): (.*)  # default$", printed, re.M)}

    def test_each_has_a_variable(self):
        self.assertGreater(len(self.flags), 100)
        for flag in set(self.flags) - set(self.defaults):  # without a default: some value is taken, or refused by the variable's name
            given = "unix:///nowhere" if flag == "cache-remote" else "1"
            ended = espalier("serve", "--print-config", env={variable(flag): given})
            self.assertRegex(ended.out if ended.code == 0 else ended.err, f"# {variable(flag)}$|{variable(flag)}|--{flag}", flag)
        said = {variable(flag): str(value).lower() if isinstance(value, bool) else str(value) for flag, value in self.defaults.items()}
        ended = config(env=said)
        self.assertEqual({flag: value(ended, flag)[1] for flag in self.defaults}, {flag: variable(flag) for flag in self.defaults})

    def test_each_is_a_key_of_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "serve.yaml"
            file.write_text("".join(f"{flag}: {json.dumps(said)}\n" for flag, said in self.defaults.items()))
            ended = config("--config", file)
        self.assertEqual({flag: value(ended, flag)[1] for flag in self.defaults}, dict.fromkeys(self.defaults, "file"))


class UnknownVariables(unittest.TestCase):
    VERBS = (("serve", "/nowhere", "--port", "0"), ("serve", "--print-config"), ("run", "/nowhere", "x"), ("inspect", MODEL))

    def warnings(self, verb, **variables):
        return [line for line in espalier(*verb, env=variables).err.splitlines() if "nothing reads" in line]

    def test_one_line_names_them_and_the_nearest_that_there_is(self):
        for verb in self.VERBS:
            lines = self.warnings(verb, ESPALIER_PROT="hush", ESPALIER_CAHCE="hush", ESPALIER_XYZZY="hush")
            self.assertEqual(len(lines), 1, verb)
            for part in ("ESPALIER_PROT (did you mean ESPALIER_PORT?)", "ESPALIER_CAHCE (did you mean ESPALIER_CACHE?)"):
                self.assertIn(part, lines[0])
            self.assertRegex(lines[0], r"ESPALIER_XYZZY[,;]")
            self.assertNotIn("hush", lines[0])

    def test_it_is_a_log_line_where_those_are_json(self):
        line, = self.warnings(("serve", "/nowhere", "--port", "0", "--log-format", "json"), ESPALIER_PROT="1")
        self.assertEqual(json.loads(line)["level"], "warning")

    def test_what_the_program_its_tests_and_its_tools_read_is_known(self):
        read = re.compile(r'(?:getenv\(|environ\.get\(|first\(\{|folder\(\{)"(ESPALIER_\w+)"|\$\{(ESPALIER_\w+):-')
        files = [path for folder in ("src", "apps", "tests", "tools", "bench") for path in (SOURCE / folder).rglob("*")
                 if path.suffix in (".cpp", ".h", ".py", ".sh")]
        names = {name for path in files for match in read.finditer(path.read_text()) for name in match.groups() if name}
        self.assertLessEqual({"ESPALIER_BINARY", "ESPALIER_CACHE", "ESPALIER_ISA", "ESPALIER_SEED", "ESPALIER_SKIP_SETUP"}, names)
        flags = {"ESPALIER_MODEL": "/nowhere", "ESPALIER_MAX_TOTAL_TOKENS": "100", "ESPALIER_API_KEY": "x", "ESPALIER_STRICT": "1"}
        for verb in self.VERBS:
            self.assertEqual(self.warnings(verb, **flags, **dict.fromkeys(names, "")), [])
            line, = self.warnings(verb, **flags, **dict.fromkeys(names, ""), ESPALIER_PROT="1")
            self.assertIn(": ESPALIER_PROT (did you mean ESPALIER_PORT?); ", line)


class Services(unittest.TestCase):
    """What Kubernetes and Docker say of a service or container that is named as the program is."""
    KUBERNETES = {"ESPALIER_SERVICE_HOST": "10.0.0.1", "ESPALIER_SERVICE_PORT": "80", "ESPALIER_SERVICE_PORT_HTTP": "80",
                  "ESPALIER_PORT_80_TCP": "tcp://10.0.0.1:80", "ESPALIER_PORT_80_TCP_PROTO": "tcp", "ESPALIER_PORT_80_TCP_PORT": "80",
                  "ESPALIER_PORT_80_TCP_ADDR": "10.0.0.1", "ESPALIER_PORT_53_UDP": "udp://10.0.0.1:53",
                  "ESPALIER_CHAT_SERVICE_HOST": "10.0.0.2", "ESPALIER_CHAT_PORT": "tcp://10.0.0.2:80",
                  "ESPALIER_CHAT_PORT_80_TCP_ADDR": "10.0.0.2"}
    DOCKER = {"ESPALIER_NAME": "/web/espalier", "ESPALIER_ENV_PATH": "/bin"}

    def test_they_are_no_mistyped_flags(self):
        for verb in UnknownVariables.VERBS:
            self.assertNotIn("nothing reads", espalier(*verb, env=self.KUBERNETES | self.DOCKER).err)
        for name, said in (("ESPALIER_NAME", "me"), ("ESPALIER_PORT_80", "1"), ("ESPALIER_PORT_TCP", "1"), ("ESPALIER_SERVICE", "1")):
            self.assertIn(f"nothing reads these variables of the environment: {name}", config(env={name: said}).err)

    def test_the_address_of_one_is_no_port_and_that_is_said_where_none_is_given(self):
        for address in ("tcp://10.0.0.1:80", "udp://[fd00::1]:80"):
            env = self.KUBERNETES | {"ESPALIER_PORT": address}
            ended = config(env=env)
            self.assertEqual(value(ended, "port"), ("30000", "default"))
            line, = [line for line in ended.err.splitlines() if line]
            self.assertRegex(line, "ESPALIER_PORT is the address of a service.* stays 30000; --port or --config")
            given = config("--port", "7", env=env)
            self.assertEqual((value(given, "port"), given.err), (("7", "command line"), ""))
            self.assertNotIn("ESPALIER_PORT", espalier("run", "/nowhere", "x", env=env).err)

    def test_a_variable_with_a_value_that_is_none_is_named(self):
        for words, name, said in ((["serve"], "ESPALIER_PORT", "abc"), (["run", "/nowhere", "x"], "ESPALIER_THREADS", "x"),
                                  (["bench", "latency", "/nowhere"], "ESPALIER_THREADS", "x")):
            ended = espalier(*words, env={name: said})
            self.assertEqual((ended.code, f"(as {name} says)" in ended.err), (2, True), ended)
        self.assertNotIn("ESPALIER_PORT", config("--port", "abc", env={"ESPALIER_PORT": "80"}, code=2).err)


class Values(unittest.TestCase):
    def test_what_means_nothing_is_refused(self):
        for flags in (("--threads", "-5"), ("--log-level", "foo"), ("--log-format", "xml"), ("--port", "-1"), ("--port", "65536"),
                      ("--port", "http"), ("--progress", "loud"), ("--request-timeout", "-1"), ("--shutdown-timeout", "nan"),
                      ("--ping-after", "-0.5"), ("--max-body", "0"), ("--max-total-tokens", "-1"), ("--max-total-tokens", "1"),
                      ("--context-length", "-1"), ("--kv-cache-dtype", "f3"), ("--schedule-policy", "best"), ("--dtype", "f7"),
                      ("--activations", "int4"), ("--load-format", "pickle"), ("--cache-disk", "-4"), ("--cache-disk", "much"),
                      ("--random-seed", "-2"), ("--schedule-conservativeness", "0"), ("--target-itl", "-1"), ("--io-threads", "0"),
                      ("--sampling-defaults", "mine"), ("--default-chat-template-kwargs", "[1]"), ("--max-running-requests", "-1"),
                      ("--speculative-algorithm", "EAGLE3"), ("--api-key", ""), ("--chunked-prefill-size", "-2"), ("--nothing", "1")):
            ended = config(*flags, code=2)
            self.assertIn(flags[0][2:] if flags[0] != "--nothing" else "--nothing is not known here", ended.err, flags)
            self.assertEqual(ended.out, "")

    def test_a_context_that_the_model_was_not_made_for_has_to_be_insisted_on(self):
        refused = espalier("run", MODEL, "hello", "-n", "1", "-c", "513")
        self.assertEqual(refused.code, 2, refused)
        self.assertIn("--context-length is 513, but the model was made for 512 tokens", refused.err)
        for flags in (("-c", "512"), ("-c", "513", "--allow-longer-context")):
            self.assertEqual(espalier("run", MODEL, "hello", "-n", "1", *flags).code, 0)

    def test_a_model_in_another_format_than_load_format_says_is_refused(self):
        file = MODEL.parents[1] / "gguf" / "gguf-smollm2" / "gguf-smollm2-Q8_0.gguf"
        for model, wrong, is_a, works, wants in ((file, ("safetensors", "dummy"), "a file, read as GGUF", "gguf", "a folder with config.json"),
                                                 (MODEL, ("gguf",), "a folder, read as safetensors", "safetensors", "a GGUF file")):
            for word in wrong:
                for verb in (("run", model, "hello", "-n", "1"), ("serve", model, "--port", "0"), ("bench", "latency", model)):
                    ended = espalier(*verb, "--load-format", word)
                    self.assertEqual((ended.code, ended.out), (2, ""), ended)
                    self.assertRegex(ended.err, f"--load-format is {word}, but {model} is {is_a}; {works}.* {word} wants {wants}")
            for word in (works, "auto"):
                self.assertEqual(espalier("run", model, "hello", "-n", "1", "--load-format", word).code, 0)

    def test_run_and_bench_refuse_too(self):
        for verb in (("run", MODEL, "x", "-n", "0"), ("run", MODEL, "x", "-n", "-2"), ("run", MODEL, "x", "--temperature", "-1"),
                     ("run", MODEL, "x", "--top-p", "0"), ("run", MODEL, "x", "--seed", "-5"), ("bench", "latency", MODEL, "--input-len", "0"),
                     ("bench", "latency", MODEL, "--output-len", "0"), ("bench", "latency", MODEL, "--batch-size", "0"),
                     ("bench", "latency", MODEL, "--repeat", "0"), ("bench", "offline", MODEL, "--num-prompts", "-3"),
                     ("bench", "offline", MODEL, "--random-range-ratio", "2"),
                     ("bench", "latency", MODEL, "--input-len", "500", "--output-len", "13"),
                     ("bench", "offline", MODEL, "--input-len", "600")):
            ended = espalier(*verb)
            self.assertEqual((ended.code, ended.out), (2, ""), (verb, ended))


class ForeignFlags(unittest.TestCase):
    """`espalier help flags` prints the table that the program goes by."""

    @classmethod
    def setUpClass(cls):
        text = espalier("help", "flags").out
        spelled, refused, tuned = re.split(r"^\S.*:\n", text, flags=re.M)[1:]
        cls.spelled = [line.split() for line in spelled.strip().splitlines()]
        cls.refused = [re.match(r"  (\S+) +(?:\(unless (\S+)\) )?(.*)", line).groups() for line in refused.strip("\n").splitlines()]
        cls.tuned = [line.strip() for line in tuned.strip().splitlines()]

    def test_the_table_has_what_people_paste(self):
        names = {flag.split(",")[0] for flag, *_ in self.refused} | {name for names in self.tuned for name in names.split(",")}
        for flag in ("--dp-size", "--quantization", "--enable-auto-tool-choice", "--reasoning-format", "--lora-scaled",
                     "--block-size", "--page-size", "--n-gpu-layers", "--trust-remote-code", "--enforce-eager"):
            self.assertIn(flag, names)

    def test_what_would_change_answers_is_refused_with_a_sentence(self):
        for names, same, sentence in self.refused:
            for name in names.split(","):
                ended = espalier("serve", MODEL, "--print-config", name, "x=y")
                if "x=y is not known here" in ended.err:  # it takes no value
                    ended = espalier("serve", MODEL, "--print-config", name)
                self.assertEqual(ended.code, 2, ended)
                self.assertRegex(ended.err, r"espalier: --\S+( \S+)? cannot be honoured: ")
                self.assertIn(sentence, ended.err)
            for word in (same or "").split("|"):
                if word:
                    config(MODEL, names.split(",")[0], word)

    def test_what_tunes_another_engine_is_accepted(self):
        for names in self.tuned:
            for name in names.split(","):
                ended = espalier("serve", name, "7", "--print-config")
                alone = espalier("serve", "--print-config", name)
                self.assertIn(0, (ended.code, alone.code), (name, ended, alone))

    def test_memory_for_the_pool_is_said_in_the_words_of_any_server(self):
        for name, given in (("--kv-memory", "64M"), ("--kv-cache-memory-bytes", "67108864"), ("--mem-fraction-static", "0.5"),
                            ("--gpu-memory-utilization", "0.5"), ("--kv-memory", "50%")):
            shown, origin = value(config(MODEL, name, given), "kv-memory")
            self.assertEqual((shown.strip('"'), origin), (given, "command line"))
        for bad in ("x", "0", "12", "1.5", "120%", "-1G", "4X"):
            ended = espalier("serve", MODEL, "--kv-memory", bad, "--port", "0")
            self.assertEqual(ended.code, 2, ended)
            self.assertIn("a share of the free memory", ended.err)

    def test_one_warning_names_all_of_them(self):
        ended = espalier("serve", "/nowhere", "--block-size", "16", "-ngl", "99", "-fa", "on", "--cuda-graph-bs", "1", "2", "4",
                         "--trust-remote-code", "--dtype", "bfloat16", "--port", "0")
        self.assertEqual(ended.code, 3, ended)
        self.assertEqual(len(re.findall("without effect here", ended.err)), 1, ended)
        for name in ("--block-size", "--n-gpu-layers", "--flash-attn", "--cuda-graph-bs", "--trust-remote-code", "--dtype"):
            self.assertIn(name, ended.err)

    def test_other_spellings_reach_our_flags(self):
        for theirs, ours in self.spelled:
            tried = [espalier("serve", "--print-config", *words) for words in ((theirs, "1"), (theirs, "int8"), (theirs,))]
            self.assertFalse(all("is not known here" in ended.err for ended in tried), (theirs, ours, tried))
        self.assertEqual(value(config("--seed", "4", "-np", "3", "--tokenizer", "/t"), "random-seed"), ("4", "command line"))

    def test_the_documentation_lists_every_one(self):
        page = (SOURCE / "docs" / "command-line.md").read_text()
        for theirs, ours in self.spelled:
            self.assertIn(f"`{theirs}`", page)
        for names in [names for names, *_ in self.refused] + self.tuned:
            for name in names.split(","):
                self.assertIn(f"`{name}`", page)


if __name__ == "__main__":
    unittest.main()
