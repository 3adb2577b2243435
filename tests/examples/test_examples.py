"""Every program of examples/ in C++ and Python, run as its user runs it: without arguments, with the model in its own process, and
some against a server. What it prints must be true, and the same in both languages where nothing is drawn at random.

The model is the default one. Where that cannot be had, and under sanitizers, it is a tiny one that understands nothing, and a line says
so: what is formed by a constraint holds for it too. The Python programs need the built package (tests/python/run.sh).
"""
import ast
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))
from harness import BINARY, MODEL, SOURCE, Server, expect_no_report, sanitized  # noqa: E402: behind the path

EXAMPLES = SOURCE / "examples"
FACTS = (EXAMPLES / "data" / "facts.txt").read_text().splitlines()
PACKAGE = os.environ.get("ESPALIER_PYTHON_PACKAGE")
PYTHON = os.environ.get("ESPALIER_PYTHON", sys.executable)
COMMANDS = {"C++": lambda name: [pathlib.Path(BINARY).parent / "examples" / name]}
if PACKAGE:
    COMMANDS["Python"] = lambda name: [PYTHON, EXAMPLES / "python" / f"{name}.py"]
PATIENCE = 300  # seconds; sanitizers on a busy machine are slow


class Model:
    """The model of all tests here: its path, and whether it understands what it reads."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.understands = False
        reason = "a sanitizer is at work" if sanitized() else self.pull()
        if reason:
            print(f"examples run on a tiny model that understands nothing: {reason}")
            self.path = self.tiny()

    def pull(self):
        done = subprocess.run([BINARY, "pull", "smollm2-135m"], capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            return (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        self.path, self.understands = done.stdout.strip().splitlines()[-1], True
        return None

    def tiny(self):
        """A golden model, with room for an agent's prompt."""
        folder = pathlib.Path(self.folder.name) / "tiny"
        shutil.copytree(MODEL, folder)
        config = json.loads((folder / "config.json").read_text())
        config.update(max_position_embeddings=8192, rope_scaling=None)
        (folder / "config.json").write_text(json.dumps(config))
        return str(folder)


def setUpModule():
    global model
    model = Model()
    unittest.addModuleCleanup(model.folder.cleanup)
    if not PACKAGE:
        print("left out: the examples in Python; this build has no Python package")


def run(language, name, *arguments, **variables):
    """What it prints; without `variables` with the model in its own process."""
    kept = {key: value for key, value in os.environ.items() if not key.endswith("_BASE_URL") and key != "ESPALIER_MODEL"}
    kept.update(variables or {"ESPALIER_MODEL": model.path, "ESPALIER_ACTIVATIONS": "f32"}, PYTHONPATH=PACKAGE or "", PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run([*COMMANDS[language](name), *arguments], env=kept, cwd=model.folder.name, capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, timeout=PATIENCE)
    expect_no_report(done.stderr)
    assert done.returncode == 0, f"{name} in {language}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def words(text):
    """Without the blanks and line ends that languages print differently."""
    return " ".join(text.split())


def equal(seen, wanted, what=""):
    assert seen == wanted, f"{what or 'seen'}: {seen!r}, not {wanted!r}"


# ---- What each example's output must be like. The function returns what does not depend on the language, or None where it is drawn. ----


def character_sheet(out):
    sheet = re.findall(r"^(\w+) = ?(.*)$", out, re.M)
    equal([name for name, _ in sheet], ["name", "home", "trade"])
    return [(name, words(text)) for name, text in sheet]


def few_shot_classification(out):
    texts = ["I will come again.", "Never in my life have I waited so long.", "The hotel has forty rooms.", "Best cake ever!"]
    rows = re.findall(r"^ ?(positive|negative|neutral) +(\[.*?\]) (.*)$", out, re.M)
    equal([text for _, _, text in rows], texts)
    scores = [[round(score, 2) for score in json.loads(scores)] for _, scores, _ in rows]
    assert all(len(three) == 3 and max(three) <= 0 for three in scores), scores
    return [(label, three) for (label, _, _), three in zip(rows, scores)]


def json_extraction(out):
    cities = []
    for line in out.splitlines():
        text, forced = line.split(" | tokens that needed no choice: ")
        city = json.loads(text) if text.startswith('{"') else ast.literal_eval(text)
        equal([type(city[key]) for key in ("name", "population", "capital", "rivers")], [str, int, bool, list])
        assert len(city["name"]) <= 30 and 0 <= city["population"] <= 99999999 and len(city["rivers"]) <= 3, city
        assert all(isinstance(river, str) and len(river) <= 20 for river in city["rivers"]), city
        assert int(forced) > 0, "most of a schema's text is forced"
        cities.append((city, forced))
    equal(len(cities), 2)
    if model.understands:
        assert cities[0][0]["name"].startswith("Vienna") and cities[1][0]["name"].startswith("Basel"), cities
    return cities


def logprobs_of_an_answer(out):
    rows = []
    for line in out.splitlines():
        text, probability, others = re.fullmatch(r"(.*?) +([\d.e-]+) +of (\[.*\])", line).groups()
        text, others = ast.literal_eval(text), ast.literal_eval(others)
        assert 0 < float(probability) <= 1 and len(others) == 3, line
        equal(others[0], text, "the likeliest is taken at temperature 0")
        rows.append((text, round(float(probability), 2), others))
    equal(len(rows), 4)
    if model.understands:
        equal(rows[0][0], " Paris")
    return rows


def multi_dimensional_judge(out):
    first, *judgements = out.splitlines()
    if first in ("kind of text: recipe", "kind of text: letter") and not model.understands:
        return first
    equal(first, "kind of text: essay")
    *judgements, report = judgements
    equal([re.match(r"(\w+) [1-5]/5: ", line)[1] for line in judgements], ["Clarity", "Originality", "Evidence"])
    report = ast.literal_eval(report.removeprefix("report: "))
    assert re.fullmatch(r"[^\n]{1,120}", report["summary"]) and re.fullmatch("[ABCD][+-]?", report["grade"]), report
    return [words(line) for line in judgements], report


def multi_turn_chat(out):
    turns = re.findall(r"^user: (.*?) *\nassistant: (.*?)\n(?=user: |\nmessages: )", out, re.M | re.S)
    equal([question for question, _ in turns], ["Name a river in Europe.", "Which countries does it cross?", "Say that in five words."])
    assert out.endswith("messages: 7\n"), out
    if model.understands:
        assert all(answer.strip() for _, answer in turns), turns
    return words(out)


def parallel_tips(out):
    form = r"Two tips for a long bicycle tour: .*\nTip 1:(.*)\nTip 2:(.*)\nIn short:(.*)\n"
    tips = re.fullmatch(form, out).groups()
    if model.understands:
        assert all(tip.strip() for tip in tips) and tips[0] != tips[1], tips
    return words(out)


def rag_pipeline(out):
    answers = re.findall(r"^(.*\?) ->(.*)$", out, re.M)
    equal([question for question, _ in answers], ["How high is Mount Everest?", "How long is a marathon?"])
    if model.understands:
        assert "8849" in answers[0][1] and "42" in answers[1][1], answers
    return words(out)


def react_agent(out):
    used = re.findall(r"^Action: (calculate|search)\nInput:(.*)\nObservation: (.*)$", out, re.M)
    for tool, given, seen in used:
        if tool == "search":
            assert seen in FACTS, seen
        elif not seen.startswith("error: "):
            assert re.fullmatch(r" \d+ [-+*/] \d+", given), given
            equal(float(seen), float(f"{eval(given.strip()):.15g}"), given)  # digits and an operator
    equal(len(re.findall("^Action: ", out, re.M)), len(used) + ("Action: finish" in out))
    assert re.search(r"^Answer:", out, re.M), out
    if model.understands:
        equal([tool for tool, _, _ in used], ["search", "calculate"])
        assert re.search(r"^Answer: 990 metres$", out, re.M), out
    return words(out)


def self_consistency(out):
    votes, winner = re.fullmatch(r"votes: (.*) -> answer: ([0-9]{1,3})\n", out).groups()
    votes = {answer: int(count) for answer, count in re.findall(r"(\d+)'?: (\d+)", votes)}
    equal(sum(votes.values()), 5)
    equal(votes[winner], max(votes.values()))


def skeleton_of_thought(out):
    points = re.findall(r"^- (.*)\n  ", out, re.M)
    equal(len(points), 3)
    for point in points:
        assert re.fullmatch(r"[A-Z][a-z ,]{0,40}\.?", point), point
    return words(out)


def tree_of_thought(out):
    thoughts = out.split("Think step by step.")[1]
    equal(len(re.findall(r"^Thought:", thoughts, re.M)), 2)
    assert re.search(r"\nSo the answer in dollars is [0-9]{1,4}\n$", thoughts), thoughts


CHECKS = {check.__name__: check for check in (
    character_sheet, few_shot_classification, json_extraction, logprobs_of_an_answer, multi_dimensional_judge, multi_turn_chat,
    parallel_tips, rag_pipeline, react_agent, self_consistency, skeleton_of_thought, tree_of_thought)}


def told_by_each(name, **variables):
    return {language: CHECKS[name](run(language, name, **variables)) for language in COMMANDS}


class InProcess(unittest.TestCase):
    maxDiff = None

    def test_every_example_is_here_in_both_languages(self):
        for folder, suffix in (("cpp", ".cpp"), ("python", ".py")):
            files = {path.stem for path in (EXAMPLES / folder).glob("*" + suffix) if not path.name.startswith("_")}
            self.assertEqual(files, set(CHECKS), folder)


def runs(name):
    def test(self):
        told = told_by_each(name)
        self.assertEqual(told["C++"], told.get("Python", told["C++"]))
    return test


for one in CHECKS:
    setattr(InProcess, f"test_{one}", runs(one))


class AgainstAServer(unittest.TestCase):
    """The environment names one; then no model is loaded."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(model=model.path)
        cls.addClassCleanup(cls.server.kill)
        cls.url = f"http://127.0.0.1:{cls.server.port}"

    def check(self, name, **variables):
        before = self.server.metric("espalier_prompt_tokens_total")
        told = told_by_each(name, **variables)
        self.assertEqual(told["C++"], told.get("Python", told["C++"]))
        self.assertGreater(self.server.metric("espalier_prompt_tokens_total"), before)

    def test_the_judge(self):
        self.check("multi_dimensional_judge", ESPALIER_BASE_URL=self.url)

    def test_the_agent(self):
        self.check("react_agent", ESPALIER_BASE_URL=self.url + "/")

    def test_a_conversation_that_is_streamed(self):
        self.check("multi_turn_chat", OPENAI_BASE_URL=self.url + "/v1")

    def test_json(self):
        self.check("json_extraction", OPENAI_BASE_URL=self.url + "/v1/")

    def test_a_server_that_asks_for_a_key(self):
        with Server("--api-key", "letmein", model=model.path) as server:
            for language in COMMANDS:
                run(language, "parallel_tips", OPENAI_BASE_URL=f"http://127.0.0.1:{server.port}/v1", OPENAI_API_KEY="letmein")

    def test_no_server_is_said_so(self):
        for language in COMMANDS:
            with self.assertRaisesRegex(AssertionError, "127.0.0.1:9") as failed:
                run(language, "parallel_tips", ESPALIER_BASE_URL="http://127.0.0.1:9")
            self.assertNotIn("exit -", str(failed.exception))

    @unittest.skipUnless(PACKAGE, "no Python package")
    def test_the_judge_with_an_openai_client_gives_the_same_outputs(self):
        if not model.understands:
            self.skipTest("where a model does not know, a choice by likelihood and one by regex differ")
        if subprocess.run([PYTHON, "-c", "import openai"], capture_output=True).returncode != 0:
            print("left out: the judge beside OpenAI's client, which is not installed")
            self.skipTest("no client")
        done = subprocess.run([PYTHON, SOURCE / "bench" / "judge_beside_client.py", "--base-url", self.url, "--rounds", "1"],
                              env={**os.environ, "PYTHONPATH": PACKAGE}, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("the same outputs in 1 rounds", done.stdout)


class TheJudgeSees(unittest.TestCase):
    """The judge with a photograph, on a tiny model that sees: in both languages, against its server and in its own process."""
    FOLDER = MODEL.parent / "mm-gemma3"
    PICTURES = SOURCE / "tests" / "data" / "pictures"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.model = pathlib.Path(cls.folder.name) / "sees"
        shutil.copytree(cls.FOLDER, cls.model)
        config = json.loads((cls.model / "config.json").read_text())
        config["text_config"]["max_position_embeddings"] = 8192  # the judge's prompt has thousands of bytes, each a token of this model
        (cls.model / "config.json").write_text(json.dumps(config))
        cls.server = Server(model=cls.model)
        cls.addClassCleanup(cls.server.kill)
        cls.url = f"http://127.0.0.1:{cls.server.port}"
        # What a model without understanding takes the text for is up to the picture: one with which it goes on to judge.
        pictures = [None, *(str(cls.PICTURES / name) for name in ("rgb.jpg", "turned.jpg", "l.jpg", "progressive.jpg", "rgb.png", "lossy.webp", "rgba.png", "palette.png"))]
        cls.told = {picture: run("C++", "multi_dimensional_judge", *([picture] if picture else []), ESPALIER_BASE_URL=cls.url) for picture in pictures}

    def essays(self):
        return [picture for picture, told in self.told.items() if picture and told.startswith("kind of text: essay")]

    def test_an_essay_with_a_photograph_is_judged_from_all_sides(self):
        self.assertTrue(self.essays(), self.told)
        for picture in self.essays():
            CHECKS["multi_dimensional_judge"](self.told[picture])

    def test_the_tower_sees_each_picture_once(self):
        told = self.server.get("/metrics").body.decode()
        self.assertEqual(int(re.search(r"^espalier_tower_pictures_total\{.*\} (\d+)$", told, re.M)[1]), len(self.told) - 1)

    def test_both_languages_tell_the_same(self):
        if not PACKAGE:
            self.skipTest("no Python package")
        picture = self.essays()[0]
        for where in ({"ESPALIER_BASE_URL": self.url}, {"ESPALIER_MODEL": str(self.model), "ESPALIER_ACTIVATIONS": "f32"}):
            told = [CHECKS["multi_dimensional_judge"](run(language, "multi_dimensional_judge", picture, **where)) for language in ("C++", "Python")]
            self.assertEqual(told[0], told[1], where)


if __name__ == "__main__":
    unittest.main()
