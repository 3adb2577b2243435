"""A ReAct agent with real tools: a calculator and a search over the files beside this one.

The model thinks, picks a tool (a choice, so it is always one of them), writes its input (constrained to what the tool
can read), and sees what came out.
"""

import ast
import operator
import pathlib
import re

import _backend
import espalier as sgl

DATA = pathlib.Path(__file__).parent / "data"
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def calculate(expression):
    """The value of an arithmetic expression; nothing else is evaluated."""

    def value(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError("not arithmetic")

    try:
        return str(value(ast.parse(expression.strip(), mode="eval").body))
    except (ValueError, SyntaxError, ZeroDivisionError) as error:
        return f"error: {error}"


def search(words):
    """The line of the files that has most of the words."""
    wanted = set(re.findall(r"\w+", words.lower()))
    lines = [line for path in sorted(DATA.glob("*.txt")) for line in path.read_text().splitlines() if line]
    return max(lines, key=lambda line: len(wanted & set(re.findall(r"\w+", line.lower()))))


TOOLS = {
    "calculate": (calculate, r"\d{1,4}( [-+*/] \d{1,4}){1,2}"),
    "search": (search, r"[a-z]{2,12}( [a-z]{2,12}){0,3}"),
}


@sgl.function
def agent(s, question, steps=3):
    s += "Answer the question. Tools: calculate (arithmetic), search (facts), or finish.\n"
    s += "Question: How tall are two Eiffel towers?\nThought: I need its height.\nAction: search\nInput: eiffel tower height\n"
    s += "Observation: The Eiffel tower is 330 metres tall.\nThought: Twice that.\nAction: calculate\nInput: 330 * 2\n"
    s += "Observation: 660\nThought: I know it.\nAction: finish\nAnswer: 660 metres\n\n"
    s += "Question: " + question + "\n"
    for i in range(steps):
        s += "Thought:" + sgl.gen(f"thought{i}", max_tokens=24, stop="\n") + "\nAction: "
        s += sgl.select(f"action{i}", [*TOOLS, "finish"])
        if s[f"action{i}"] == "finish":
            break
        tool, form = TOOLS[s[f"action{i}"]]
        s += "\nInput: " + sgl.gen(f"input{i}", regex=form, max_tokens=24)
        s += "\nObservation: " + tool(s[f"input{i}"]) + "\n"
    s += "\nAnswer:" + sgl.gen("answer", max_tokens=24, stop="\n")


if __name__ == "__main__":
    state = agent.run("How far is the Moon in kilometres?", temperature=0, backend=_backend.open_backend())
    print(state.text()[state.text().rindex("Question:") :])
