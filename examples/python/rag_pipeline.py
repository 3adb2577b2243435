"""Retrieval-augmented answers: finds passages, answers from each on its own, then from all that say something."""

import pathlib
import re

import _backend
import espalier as sgl

PASSAGES = (pathlib.Path(__file__).parent.parent / "data" / "facts.txt").read_text().splitlines()
QUESTIONS = ("How high is Mount Everest?", "How long is a marathon?")


def retrieve(question, count):
    words = set(re.findall(r"\w+", question.lower()))
    return sorted(PASSAGES, key=lambda p: -len(words & set(re.findall(r"\w+", p.lower()))))[:count]


@sgl.function
def answer(s, question):
    s += sgl.system("You answer questions from the passage that is given.")
    passages = retrieve(question, 3)
    forks = s.fork(len(passages))
    forks += [sgl.user(f"Passage: {p}\nQuestion: {question}\nDoes the passage tell?") for p in passages]
    forks += sgl.assistant(sgl.select("tells", ["yes", "no"]))
    forks.join()
    kept = [p for p, tells in zip(passages, s["tells"]) if tells == "yes"] or passages[:1]
    s += sgl.user("Passages:\n" + "\n".join(kept) + "\nQuestion: " + question)
    s += sgl.assistant(sgl.gen("answer", max_tokens=32, stop="\n"))


if __name__ == "__main__":
    backend = _backend.open_backend()
    for state, question in zip(
        answer.run_batch([{"question": q} for q in QUESTIONS], temperature=0, backend=backend), QUESTIONS
    ):
        print(question, "->", state["answer"].strip())
