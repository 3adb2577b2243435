"""Two tips found and written out at the same time, each in a branch of its own; the parent reads both."""

import _backend
import espalier as sgl


@sgl.function
def tips(s, topic):
    s += "Two tips for " + topic + ": 1. stay safe. 2. begin early.\n"
    forks = s.fork(2)
    for number, fork in enumerate(forks, 1):
        fork += f"Tip {number} in detail:" + sgl.gen("detail", max_tokens=32, stop="\n")
    s += "Tip 1:" + forks[0]["detail"] + "\nTip 2:" + forks[1]["detail"] + "\nIn short:"
    s += sgl.gen("summary", max_tokens=24, stop="\n")


if __name__ == "__main__":
    print(tips.run("a long bicycle tour", temperature=0, backend=_backend.open_backend()).text())
