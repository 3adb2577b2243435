"""Few-shot classification by likelihood: the examples are computed once for the whole batch, a choice is always valid."""

import _backend
import espalier as sgl

EXAMPLES = (("The soup was cold.", "negative"), ("What a lovely evening!", "positive"), ("It opens at nine.", "neutral"))
TEXTS = ("I will come again.", "Never in my life have I waited so long.", "The hotel has forty rooms.", "Best cake ever!")


@sgl.function
def classify(s, text):
    for example, label in EXAMPLES:
        s += f"Text: {example}\nFeeling: {label}\n\n"
    s += "Text: " + text + "\nFeeling:"
    s += sgl.select("label", [" positive", " negative", " neutral"], choices_method=sgl.greedy_token_selection)


if __name__ == "__main__":
    backend = _backend.open_backend()
    states = classify.run_batch([{"text": t} for t in TEXTS], backend=backend)
    for text, state in zip(TEXTS, states):
        scores = state.get_meta_info("label")["normalized_prompt_logprobs"]
        print(f"{state['label'].strip():9} {[round(score, 2) for score in scores]} {text}")
