"""A conversation of several turns, streamed as it is written; each turn computes only what is new."""

import _backend
import espalier as sgl

QUESTIONS = ("Name a river in Europe.", "Which countries does it cross?", "Say that in five words.")


@sgl.function
def chat(s, questions):
    s += sgl.system("You are a helpful assistant. You answer in one sentence.")
    for i, question in enumerate(questions):
        s += sgl.user(question)
        s += sgl.assistant(sgl.gen(f"answer{i}", max_tokens=32))


if __name__ == "__main__":
    state = chat.run(QUESTIONS, temperature=0, stream=True, backend=_backend.open_backend())
    for i, question in enumerate(QUESTIONS):
        print("\nuser:", question, "\nassistant: ", end="")
        for piece in state.text_iter(f"answer{i}"):
            print(piece, end="", flush=True)
    print("\n\nmessages:", len(state.messages()))
