"""Self-consistency: several ways of thinking about one question, and the answer that most of them come to."""

import collections

import _backend
import espalier as sgl

EXAMPLE = """Question: Ann has 3 bags with 5 pears each and eats 2 pears. How many pears are left?
Let's think: 3 times 5 is 15, and 15 minus 2 is 13.
So the number is 13

"""
QUESTION = "Tom has 4 boxes with 6 apples each and eats 3 apples. How many apples are left?"


@sgl.function
def think(s, question, ways=5):
    s += EXAMPLE + "Question: " + question + "\n"
    forks = s.fork(ways)
    forks += "Let's think:" + sgl.gen("thought", max_tokens=40, stop="\n", temperature=0.7)
    forks += "\nSo the number is " + sgl.gen("answer", regex="[0-9]{1,3}", temperature=0)
    forks.join()


if __name__ == "__main__":
    state = think.run(QUESTION, backend=_backend.open_backend())
    votes = collections.Counter(state["answer"])
    print("votes:", dict(votes), "-> answer:", votes.most_common(1)[0][0])
