"""Tree of thought: proposes several next steps, keeps the most promising, goes deeper, and answers from the best path."""

import _backend
import espalier as sgl

QUESTION = "A shop sells pens at 3 for 2 dollars. How much do 12 pens cost?"
BRANCHES, DEPTH = 3, 2


def propose(s, n):
    """n thoughts that go on from here, each with a vote of how sure it is."""
    forks = s.fork(n)
    forks += "\nThought: " + sgl.gen("thought", max_tokens=32, stop="\n", temperature=0.8)
    forks += "\nIs this thought sure, likely or impossible? It is "
    forks += sgl.select("vote", ["sure", "likely", "impossible"])
    forks.join()
    return forks


@sgl.function
def solve(s, question):
    s += "Question: " + question + "\nThink step by step."
    for _ in range(DEPTH):
        forks = propose(s, BRANCHES)
        order = ["sure", "likely", "impossible"]
        best = min(range(BRANCHES), key=lambda i: order.index(forks[i]["vote"]))
        s += "\nThought:" + forks[best]["thought"]
    s += "\nSo the answer in dollars is " + sgl.gen("answer", regex="[0-9]{1,4}")


if __name__ == "__main__":
    state = solve.run(QUESTION, backend=_backend.open_backend())
    print(state.text())
