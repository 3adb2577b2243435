"""A ReAct agent with real tools: a calculator and a search over the files of examples/data.

The model thinks, picks a tool (a choice, so it is always one of them), writes its input (constrained to what the tool
can read, with the end of the line, so that it knows how to stop), and sees what came out.
"""

import ast
import operator
import pathlib
import re

import _backend
import espalier as sgl

DATA = pathlib.Path(__file__).parent.parent / "data"
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
    "calculate": (calculate, r" [1-9][0-9]{0,5} [-+*/] [1-9][0-9]{0,5}\n"),
    "search": (search, r"( [a-z]{2,12}){1,4}\n"),
}

EXAMPLES = """Question: How tall is the tower of Pisa?
Thought: I need a fact.
Action: search
Input: tower of pisa
Observation: The tower of Pisa is 56 metres tall.
Thought: I have the answer.
Action: finish
Answer: 56 metres

Question: How tall are two towers of Pisa?
Thought: I need a fact.
Action: search
Input: tower of pisa
Observation: The tower of Pisa is 56 metres tall.
Thought: I need arithmetic.
Action: calculate
Input: 56 * 2
Observation: 112
Thought: I have the answer.
Action: finish
Answer: 112 metres

Question: How deep are three Lake Gardas?
Thought: I need a fact.
Action: search
Input: lake garda
Observation: Lake Garda is 346 metres deep.
Thought: I need arithmetic.
Action: calculate
Input: 346 * 3
Observation: 1038
Thought: I have the answer.
Action: finish
Answer: 1038 metres

"""


@sgl.function
def agent(s, question, steps=3):
    s += "Answer the question. Tools: calculate (arithmetic), search (facts), or finish.\n\n" + EXAMPLES
    s += "Question: " + question + "\n"
    for i in range(steps):
        s += "Thought:" + sgl.gen(f"thought{i}", max_tokens=24, stop="\n") + "\nAction: "
        s += sgl.select(f"action{i}", [*TOOLS, "finish"])
        if s[f"action{i}"] == "finish":
            break
        tool, form = TOOLS[s[f"action{i}"]]
        s += "\nInput:" + sgl.gen(f"input{i}", regex=form, max_tokens=64)
        s += "Observation: " + tool(s[f"input{i}"]) + "\n"
    s += "\nAnswer:" + sgl.gen("answer", max_tokens=24, stop="\n")


if __name__ == "__main__":
    state = agent.run("How tall are three Eiffel towers?", temperature=0, backend=_backend.open_backend())
    print(state.text()[state.text().rindex("Question:") :])
