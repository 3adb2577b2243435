"""Skeleton of thought: an outline first, then all of its points written out at the same time."""

import _backend
import espalier as sgl

POINTS = 3


@sgl.function
def expand(s, question, points, index):
    s += sgl.user(f"{question}\nThe outline: {'; '.join(points)}\nWrite two sentences on point {index + 1}: {points[index]}")
    s += sgl.assistant(sgl.gen("text", max_tokens=48))


@sgl.function
def skeleton(s, question):
    s += sgl.user(question + f"\nGive {POINTS} short points as an outline, one a line.")
    with s.assistant():
        for i in range(POINTS):
            s += f"{i + 1}. " + sgl.gen(f"point{i}", max_tokens=16, regex=r"[A-Z][a-z ,]{4,40}\.") + "\n"


def main():
    backend = _backend.open_backend()
    question = "What makes a good bicycle?"
    outline = skeleton.run(question, temperature=0, backend=backend)
    points = [outline[f"point{i}"] for i in range(POINTS)]
    written = expand.run_batch(
        [{"question": question, "points": points, "index": i} for i in range(POINTS)], temperature=0, backend=backend
    )
    for point, state in zip(points, written):
        print(f"- {point}\n  {state['text'].strip()}")


if __name__ == "__main__":
    main()
