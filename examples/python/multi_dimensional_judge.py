"""Judges an essay from several sides at once and puts the judgements together as JSON.

One prompt, a choice that ends early for what is no essay, a branch for each dimension (they share the prompt, which is
computed once), a summary, a grade, and a report whose form a regex fixes. The program of the SGLang paper's figure 2.
"""

import json
import sys

import _backend
import espalier as sgl

DIMENSIONS = ("Clarity", "Originality", "Evidence")
REPORT = r'\{"summary": "[\w .,]{1,120}", "grade": "[ABCD][+-]?"\}'
ESSAY = """Cities should plant more trees. A street with trees is several degrees cooler in summer, holds back rain
and is quieter. The cost is small: a young tree costs less than a lamp post, and it lasts longer."""


@sgl.function
def judge(s, essay, picture=None):
    s += sgl.system("You evaluate essays.")
    with s.user():
        if picture is not None:
            s += sgl.image(picture)
        s += "Text: " + essay + "\nWhat kind of text is this?"
    s += sgl.assistant("Kind of text: " + sgl.select("kind", ["essay", "recipe", "letter"]))
    if s["kind"] != "essay":
        return

    forks = s.fork(len(DIMENSIONS))
    for fork, dimension in zip(forks, DIMENSIONS):
        fork += sgl.user(f"Judge its {dimension} in one sentence, then give a score from 1 to 5.")
        fork += sgl.assistant(
            sgl.gen("judgement", max_tokens=40, stop="\n") + "\nScore: " + sgl.gen("score", regex="[1-5]")
        )
    forks.join()

    s += sgl.user(
        "The judgements:\n"
        + "\n".join(f"{d}: {j} ({n}/5)" for d, j, n in zip(DIMENSIONS, s["judgement"], s["score"]))
        + "\nSummarise them as JSON with a grade."
    )
    s += sgl.assistant(sgl.gen("report", regex=REPORT, max_tokens=80))


def main():
    backend = _backend.open_backend()
    picture = sys.argv[1] if len(sys.argv) > 1 else None  # for back ends whose model sees
    state = judge.run(ESSAY, picture=picture, temperature=0, backend=backend)
    print("kind of text:", state["kind"])
    if state["kind"] == "essay":
        for dimension, judgement, score in zip(DIMENSIONS, state["judgement"], state["score"]):
            print(f"{dimension} {score}/5: {judgement.strip()}")
        print("report:", json.loads(state["report"]))


if __name__ == "__main__":
    main()
