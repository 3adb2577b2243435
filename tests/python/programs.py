"""Programs as people write them for SGLang, one or more for every primitive. Each is a function that runs the program at
temperature 0 and gives what it can be compared by; what must hold whatever the model says is asserted inside.

Only the module's name differs from the original: tests/upstream runs those of PROGRAMS with upstream's own front ends.
Those of OWN_PROGRAMS use what only Espalier has.
"""

import json
import re

import espalier as sgl
from espalier.lang.choices import ChoicesDecision, ChoicesSamplingMethod

GREEDY = {"temperature": 0, "max_new_tokens": 12}
PROGRAMS = []
OWN_PROGRAMS = []


def program(run):
    PROGRAMS.append(run)
    return run


def own_program(run):
    OWN_PROGRAMS.append(run)
    return run


def told(state, *names):
    return {"text": state.text(), "messages": state.messages(), **{name: state[name] for name in names}}


@program
def multi_turn_question():
    @sgl.function
    def multi_turn_question(s, question_1, question_2):
        s += sgl.system("You are a helpful assistant.")
        s += sgl.user(question_1)
        s += sgl.assistant(sgl.gen("answer_1", max_tokens=16))
        s += sgl.user(question_2)
        s += sgl.assistant(sgl.gen("answer_2", max_tokens=16))

    state = multi_turn_question.run(question_1="A capital?", question_2="Two more.", temperature=0)
    assert [m["role"] for m in state.messages()] == ["system", "user", "assistant", "user", "assistant"]
    assert state.messages()[2]["content"] == state["answer_1"].lstrip()
    assert state["answer_1"] in state.text()
    return told(state, "answer_1", "answer_2")


@program
def roles_as_blocks():
    @sgl.function
    def chat(s, question):
        with s.system():
            s += "Be brief."
        with s.user():
            s += question
        with s.assistant():
            s += "Answer: " + sgl.gen("answer", stop="\n")

    state = chat.run("What is it?", **GREEDY)
    assert state.messages()[-1]["content"].startswith("Answer: ")
    return told(state, "answer")


@program
def roles_as_halves():
    @sgl.function
    def chat(s):
        s += sgl.system_begin() + "Be brief." + sgl.system_end()
        s += sgl.user_begin()
        s += "Hello"
        s += sgl.user_end()
        s += sgl.assistant_begin() + sgl.gen("a") + sgl.assistant_end()

    @sgl.function
    def same(s):
        s += sgl.system("Be brief.") + sgl.user("Hello") + sgl.assistant(sgl.gen("a"))

    one, two = chat.run(**GREEDY), same.run(**GREEDY)
    assert told(one, "a") == told(two, "a")
    return told(one, "a")


@program
def roles_as_calls():
    @sgl.function
    def chat(s):
        s.system("Be brief.")
        s.user("Hello")
        s.assistant(sgl.gen("a"))

    return told(chat.run(**GREEDY), "a")


@program
def few_shot_qa():
    @sgl.function
    def few_shot_qa(s, question):
        s += """The following are questions with answers.
Q: What is the capital of France?
A: Paris
"""
        s += "Q: " + question + "\n"
        s += "A:" + sgl.gen("answer", stop="\n", temperature=0)

    state = few_shot_qa.run(question="What is the capital of Italy?", max_new_tokens=16)
    assert "\n" not in state["answer"]
    assert state.text().endswith("A:" + state["answer"])
    return told(state, "answer")


@program
def batch_of_few_shots():
    @sgl.function
    def qa(s, question):
        s += "Q: " + question + "\nA:" + sgl.gen("answer", stop="\n")

    items = [{"question": f"What is {i} + {i}?"} for i in range(20)]
    states = qa.run_batch(items, **GREEDY, num_threads=4, progress_bar=True)
    single = [qa.run(**item, **GREEDY) for item in items[:3]]
    assert [s["answer"] for s in states[:3]] == [s["answer"] for s in single]
    assert all(item["question"] in s.text() for item, s in zip(items, states))
    return [told(s, "answer") for s in states]


@program
def batch_of_tuples():
    @sgl.function
    def qa(s, question, hint="none"):
        s += f"Q: {question} (hint: {hint})\nA:" + sgl.gen("answer")

    states = qa.run_batch([("one",), ("two", "a lot")], **GREEDY)
    assert "hint: none" in states[0].text() and "hint: a lot" in states[1].text()
    assert qa.run_batch([]) == []
    return [told(s, "answer") for s in states]


@program
def batch_as_a_generator():
    @sgl.function
    def qa(s, i):
        s += f"{i}:" + sgl.gen("answer", max_tokens=2)
        return i

    states = list(qa.run_batch([{"i": i} for i in range(30)], temperature=0, num_threads=3, generator_style=True))
    assert [s.ret_value for s in states] == list(range(30))
    return [s["answer"] for s in states]


@program
def tip_suggestion():
    @sgl.function
    def expand_tip(s, topic, tip):
        s += "Please expand a tip for a topic into a detailed paragraph.\n\n"
        s += "Topic: " + topic + "\nTip: " + tip + "\nParagraph:"
        s += sgl.gen("paragraph", max_tokens=16, stop=["\n\n"])

    @sgl.function
    def suggest_tips(s, topic):
        s += "Please act as a helpful assistant. Topic: " + topic + ". 1. Balanced Diet. 2. Regular Exercise.\n"
        paragraphs = [expand_tip(topic=topic, tip=t, temperature=0)["paragraph"] for t in ("Diet", "Exercise")]
        s += "Tip 1:" + paragraphs[0] + "\n"
        s += "Tip 2:" + paragraphs[1] + "\n"
        s += "In summary" + sgl.gen("summary")

    return told(suggest_tips.run(topic="staying healthy", **GREEDY), "summary")


@program
def fork_with_lambda():
    @sgl.function
    def branches(s):
        s += "Here are three tips: "
        forks = s.fork(3)
        forks += lambda i: f"Tip {i + 1}:" + sgl.gen("tip", max_tokens=6)
        forks.join()
        for i in range(3):
            s += f"\n{i}. " + s["tip"][i]

    state = branches.run(**GREEDY)
    assert len(state["tip"]) == 3
    assert state.text().endswith("2. " + state["tip"][2])
    return told(state, "tip")


@program
def fork_with_list_and_all():
    @sgl.function
    def branches(s):
        s += "Say "
        forks = s.fork(2)
        forks += ["yes:", "no:"]
        forks += sgl.gen("word", max_tokens=4)
        forks[0] += " More:" + sgl.gen("more", max_tokens=3)
        forks.join("gather_variable")

    state = branches.run(**GREEDY)
    assert len(state["word"]) == 2
    assert state.text() == "Say "
    return told(state, "word")


@program
def branch_solve_merge():
    @sgl.function
    def judge(s, article):
        s += sgl.system("You judge articles.")
        s += sgl.user("Article: " + article)
        with s.assistant():
            s += "I judge it by three dimensions."
        forks = s.fork(3)
        for f, dimension in zip(forks, ["Clarity", "Originality", "Evidence"]):
            f += sgl.user(f"Evaluate {dimension}.")
            f += sgl.assistant("Judgment: " + sgl.gen("judgment", max_tokens=8))
        forks.join("gather_variable")
        judgments = s["judgment"]
        s += sgl.user("Merge: " + " | ".join(judgments))
        s += sgl.assistant(sgl.gen("summary", max_tokens=8) + " Grade: " + sgl.select("grade", ["A", "B", "C"]))

    state = judge.run(article="A text about trees.", **GREEDY)
    assert state["grade"] in "ABC" and len(state["judgment"]) == 3
    return told(state, "judgment", "summary", "grade")


@program
def join_by_appending():
    @sgl.function
    def gather(s):
        s += "Start."
        forks = s.fork(3)
        forks += lambda i: f" Part {i}:" + sgl.gen(f"part_{i}", max_tokens=4)
        forks.join("concate_and_append")
        s += " End:" + sgl.gen("end", max_tokens=4)

    state = gather.run(**GREEDY)
    text = state.text()
    assert text.index("Part 0:") < text.index("Part 1:") < text.index("Part 2:") < text.index(" End:")
    return told(state, "end")


@program
def tree_of_thought():
    @sgl.function
    def grow(s, depth, question):
        def expand(node, level):
            if level == 0:
                return [node.text()]
            forks = node.fork(2)
            forks += lambda i: f" Thought {i}:" + sgl.gen(f"thought_{level}", max_tokens=3)
            leaves = [leaf for child in forks for leaf in expand(child, level - 1)]
            forks.join()
            return leaves

        s += "Question: " + question
        return expand(s, depth)

    state = grow.run(depth=2, question="How?", **GREEDY)
    assert len(state.ret_value) == 4 and len(state["thought_2"]) == 2
    return state.ret_value


@program
def copied_state():
    @sgl.function
    def aside(s):
        s += "Question: why? "
        with s.copy() as t:
            t += "An aside:" + sgl.gen("aside", max_tokens=4)
        s += "Answer:" + sgl.gen("answer", max_tokens=4)

    state = aside.run(**GREEDY)
    assert "aside" not in state.text()
    return told(state, "answer") | {"aside": state["aside"]}


@program
def tool_choice():
    @sgl.function
    def tool_use(s, question):
        s += "To answer this question: " + question + ", I need to use a "
        s += sgl.gen("tool", choices=["calculator", "search engine"])
        if s["tool"] == "calculator":
            s += ". The math expression is" + sgl.gen("expression", max_tokens=8)
        else:
            s += ". The search query is" + sgl.gen("query", max_tokens=8)

    state = tool_use.run(question="What is 2 + 2?", **GREEDY)
    assert state["tool"] in ("calculator", "search engine")
    state.sync()
    assert ("expression" in state) != ("query" in state)
    return told(state, "tool")


def _select_by(method):
    @sgl.function
    def choose(s):
        s += "The best is "
        s += sgl.select("word", choices=["the quick brown fox", "day", "lazy other"], choices_method=method)

    state = choose.run(**GREEDY)
    meta = state.get_meta_info("word")
    assert len(meta["input_token_logprobs"]) == 3 and len(meta["normalized_prompt_logprobs"]) == 3
    return {"word": state["word"], "text": state.text()}


@program
def select_by_mean():
    return _select_by(sgl.token_length_normalized)


@program
def select_greedily():
    return _select_by(sgl.greedy_token_selection)


@program
def select_unconditionally():
    return _select_by(sgl.unconditional_likelihood_normalized)


@program
def select_by_a_method_of_ones_own():
    class Longest(ChoicesSamplingMethod):
        def __call__(self, *, choices, normalized_prompt_logprobs, input_token_logprobs, **rest):
            assert len(normalized_prompt_logprobs) == len(input_token_logprobs) == len(choices)
            return ChoicesDecision(max(choices, key=len), {"lengths": [len(c) for c in choices]})

    @sgl.function
    def choose(s):
        s += "It is " + sgl.select("word", ["a", "abc", "ab"], choices_method=Longest())

    state = choose.run()
    assert state["word"] == "abc" and state.get_meta_info("word")["lengths"] == [1, 3, 2]
    return state.text()


@own_program
def select_by_any_callable():
    class Longest:
        requires_unconditional_logprobs = False

        def __call__(self, *, choices, **rest):
            return max(choices, key=len), {"lengths": [len(c) for c in choices]}

    @sgl.function
    def choose(s):
        s += "It is " + sgl.select("word", ["a", "abc", "ab"], choices_method=Longest())

    state = choose.run()
    assert state["word"] == "abc" and state.get_meta_info("word")["lengths"] == [1, 3, 2]
    return state.text()


IP = r"((25[0-5]|2[0-4]\d|[01]?\d\d?)\.){3}(25[0-5]|2[0-4]\d|[01]?\d\d?)"


@program
def regular_expression():
    @sgl.function
    def ip_address(s):
        s += "Q: What is the IP address of the Google DNS servers?\nA: "
        s += sgl.gen("answer", temperature=0, max_tokens=40, regex=IP)

    state = ip_address.run()
    assert re.fullmatch(IP, state["answer"])
    return told(state, "answer")


@program
def json_by_regex():
    character = r"""\{\n    "name": "[\w\d\s]{1,8}",\n    "house": "(Gryffindor|Slytherin)",\n    "alive": "(Alive|Deceased)"\n\}"""

    @sgl.function
    def character_gen(s, name):
        s += name + " is a character in Harry Potter. Please fill in the following information.\n"
        s += sgl.gen("json_output", max_tokens=128, regex=character)

    state = character_gen.run(name="Harry", temperature=0)
    assert json.loads(state["json_output"])["house"] in ("Gryffindor", "Slytherin")
    return told(state, "json_output")


@program
def json_by_schema():
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["name", "age"],
    }

    @sgl.function
    def fill(s):
        s += "A person: " + sgl.gen("person", json_schema=json.dumps(schema), max_tokens=64)

    state = fill.run(temperature=0)
    assert set(json.loads(state["person"])) == {"name", "age"}
    return told(state, "person")


@own_program
def json_as_a_value():
    schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["age"]}

    @sgl.function
    def fill(s):
        s += "A person: " + sgl.gen("person", json_schema=json.dumps(schema), max_tokens=64)

    state = fill.run(temperature=0)
    assert state.get_json("person") == json.loads(state["person"])
    return told(state, "person")


@program
def data_types():
    @sgl.function
    def typed(s):
        s += "An integer: " + sgl.gen("i", dtype=int, max_tokens=4)
        s += "\nA float: " + sgl.gen("f", dtype="float", max_tokens=6)
        s += "\nA boolean: " + sgl.gen("b", dtype=bool, max_tokens=6)
        s += "\nA string: " + sgl.gen("t", dtype=str, max_tokens=6)
        s += "\nAnother: " + sgl.gen_int("j", max_tokens=3) + sgl.gen_string("u", max_tokens=6)

    state = typed.run(temperature=0)
    assert re.fullmatch(r"[-+]?[0-9]*", state["i"]) and state["b"] in ("True", "False")
    assert state["t"].startswith('"') and state["u"].startswith('"')
    return told(state, "i", "f", "b", "t", "j", "u")


@program
def sampling_options():
    @sgl.function
    def options(s):
        s += "One" + sgl.gen("stopped", stop=["e", " "], max_tokens=24)
        s += "Two" + sgl.gen("counted", min_tokens=6, max_tokens=6, ignore_eos=True)
        letters = "[a-z ]{1,40}"  # random weights spell bytes that are no text, which cannot be sent as they are
        s += "Three" + sgl.gen("penalised", frequency_penalty=1.5, presence_penalty=1.0, max_tokens=10, regex=letters)
        s += "Four" + sgl.gen("sampled", temperature=1.0, top_p=0.9, top_k=1, min_p=0.01, max_tokens=10, regex=letters)
        s += "Five" + sgl.gen("ids", stop_token_ids=[2, 40, 41, 42], max_tokens=10)

    state = options.run(temperature=0)
    assert "e" not in state["stopped"] and " " not in state["stopped"]
    assert state.get_meta_info("counted")["completion_tokens"] == 6
    return told(state, "stopped", "counted", "penalised", "sampled", "ids")


@own_program
def seeded_sampling():
    @sgl.function
    def options(s):
        letters = "[a-z ]{1,40}"  # random weights spell bytes that are no text, which cannot be sent as they are
        s += "Four" + sgl.gen(
            "seeded", temperature=1.0, top_p=0.9, top_k=20, min_p=0.01, seed=7, max_tokens=10, regex=letters
        )

    return told(options.run(temperature=0), "seeded")


@program
def parallel_sampling():
    @sgl.function
    def samples(s):
        s += "A list: " + sgl.gen("words", n=3, max_tokens=5)
        s += "!"

    state = samples.run(temperature=0)
    assert isinstance(state["words"], list) and len(state["words"]) == 3
    assert state.text() == "A list: " + state["words"][0] + "!"
    return told(state, "words")


@own_program
def seeded_parallel_sampling():
    @sgl.function
    def samples(s):
        s += "A list: " + sgl.gen("words", n=3, temperature=0.8, seed=3, max_tokens=5)
        s += "!"

    state = samples.run()
    assert isinstance(state["words"], list) and len(state["words"]) == 3
    assert state.text() == "A list: " + state["words"][0] + "!"
    return told(state, "words")


@program
def log_probabilities():
    @sgl.function
    def scored(s):
        s += "Once upon a time" + sgl.gen(
            "x", max_tokens=4, ignore_eos=True, return_logprob=True, top_logprobs_num=2, return_text_in_logprobs=True,
            logprob_start_len=2,
        )  # fmt: skip

    meta = scored.run(temperature=0).get_meta_info("x")
    assert len(meta["output_token_logprobs"]) == 4 and meta["completion_tokens"] == 4
    assert all(len(top) == 2 for top in meta["output_top_logprobs"])
    assert all(isinstance(entry[2], str) for entry in meta["output_token_logprobs"])
    first, *others = meta["input_token_logprobs"]
    assert first[0] is None and others and all(entry[0] < 0 for entry in others)
    assert len(meta["input_token_logprobs"]) == meta["prompt_tokens"] - 2 == len(meta["input_top_logprobs"])
    return meta["input_token_logprobs"], meta["output_token_logprobs"]


@program
def variable_scope():
    @sgl.function
    def scoped(s):
        s += "Before. "
        with s.var_scope("all"):
            s += "Inside:" + sgl.gen("x", max_tokens=4)
            s += " and on."
        s += " After."

    state = scoped.run(temperature=0)
    assert state["all"] == "Inside:" + state["x"] + " and on."
    return told(state, "all", "x")


@program
def variables_by_hand():
    @sgl.function
    def by_hand(s, marker):
        s["marker"] = marker
        s.set_var("count", 3)
        assert "marker" in s and "other" not in s
        s += "x" + sgl.gen("y", max_tokens=2)
        s += s.get_var("y") + str(s["count"])
        return s["marker"]

    marker = object()
    state = by_hand.run(marker, temperature=0)
    assert state.ret_value is marker and state["marker"] is marker and state["count"] == 3
    return state.text()


@program
def variable_of_another_state():
    @sgl.function
    def two(s):
        a, b = s.fork(2)
        a += "First:" + sgl.gen("x", max_tokens=3)
        b += "Second:" + a["x"]
        s += b.text()

    return two.run(temperature=0).text()


@program
def bound_arguments():
    @sgl.function
    def greet(s, greeting, name="you"):
        s += f"{greeting}, {name}!" + sgl.gen("rest", max_tokens=3)

    hello = greet.bind(greeting="Hello")
    state = hello.run(name="Ada", temperature=0)
    assert state.text().startswith("Hello, Ada!")
    assert hello.run(greeting="Bye", temperature=0).text().startswith("Hello, you!")
    return told(state, "rest")


@program
def streamed():
    @sgl.function
    def chat(s):
        s += sgl.user("Tell me a story.")
        s += sgl.assistant(sgl.gen("story", max_tokens=10, ignore_eos=True))

    state = chat.run(stream=True, temperature=0)
    story = "".join(state.text_iter("story"))
    assert story == state["story"]
    assert "".join(state.text_iter()) == state.text()
    assert "".join(chat.run(temperature=0).text_iter("story")) == story  # not streamed: the value at once
    return told(state, "story")


@program
def react_agent():
    calculate = {"2 + 2": "4"}

    @sgl.function
    def react(s, question):
        s += "Question: " + question + "\n"
        for i in range(3):
            s += f"Thought {i}:" + sgl.gen(f"thought_{i}", stop="\n", max_tokens=6) + "\n"
            s += "Action: " + sgl.select(f"action_{i}", ["Calculate[2 + 2]", "Finish[4]"]) + "\n"
            if s[f"action_{i}"].startswith("Finish"):
                break
            s += "Observation: " + calculate["2 + 2"] + "\n"

    return told(react.run(question="What is 2 + 2?", **GREEDY), "thought_0", "action_0")


@program
def retrieval():
    @sgl.function
    def rag(s, documents, question):
        forks = s.fork(len(documents))
        forks += lambda i: f"Document: {documents[i]}\nSummary:" + sgl.gen("summary", max_tokens=4, stop="\n")
        forks.join()
        s += "\n".join(s["summary"]) + "\nQ: " + question + "\nA:" + sgl.gen("answer")

    return told(rag.run(["Trees are tall.", "Foxes are quick."], "What is tall?", **GREEDY), "summary", "answer")


@program
def self_consistency():
    @sgl.function
    def vote(s, question):
        s += question
        forks = s.fork(4)
        for i, f in enumerate(forks):  # at temperature 0 the voters differ by what they are asked
            f += f" Voter {i}: " + sgl.gen("answer", regex="[0-9]", max_tokens=2)
        forks.join()
        return max(set(s["answer"]), key=s["answer"].count)

    state = vote.run("How many?", temperature=0)
    assert state.ret_value in state["answer"] and len(state["answer"]) == 4
    return state["answer"]


@program
def skeleton_of_thought():
    @sgl.function
    def skeleton(s, question):
        s += sgl.user(question)
        s += sgl.assistant("1. " + sgl.gen("p1", stop="\n", max_tokens=4) + "\n2. " + sgl.gen("p2", stop="\n", max_tokens=4))
        forks = s.fork(2)
        for i, f in enumerate(forks):
            f += sgl.user(f"Expand point {i + 1}.")
            f += sgl.assistant(sgl.gen("expanded", max_tokens=5))
        forks.join()

    return told(skeleton.run("Why trees?", **GREEDY), "p1", "p2", "expanded")
