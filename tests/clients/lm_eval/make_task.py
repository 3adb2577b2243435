#!/usr/bin/env python3
"""Writes places.jsonl, the questions of the evaluation task "places", and scores.json, what transformers makes of them.

    make_task.py MODEL_FOLDER

Every choice is scored as evaluation harnesses do it: the sum of the log-probabilities of its tokens behind the question,
by transformers in float32. Needs torch and transformers (pip); the test needs neither.
"""
import json
import pathlib
import sys

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
QUESTIONS = [
    ("Question: What is the capital of France?\nAnswer:", ["Paris", "Rome", "Berlin", "Oslo"], 0),
    ("Question: What colour is a clear sky at noon?\nAnswer:", ["red", "blue", "green", "black"], 1),
    ("Question: How many legs has a spider?\nAnswer:", ["four", "six", "eight", "ten"], 2),
    ("Question: Water freezes at how many degrees Celsius?\nAnswer:", ["zero", "twenty", "fifty", "ninety"], 0),
    ("Question: Which animal barks?\nAnswer:", ["the cat", "the dog", "the cow", "the hen"], 1),
    ("Question: Which month comes after June?\nAnswer:", ["May", "August", "January", "July"], 3),
    ("Question: What do bees make?\nAnswer:", ["honey", "milk", "wool", "silk"], 0),
    ("Question: Which is the largest ocean?\nAnswer:", ["the Arctic", "the Atlantic", "the Pacific", "the Indian"], 2),
    ("Question: How do you say thank you in German?\nAnswer:", ["danke sch\u00f6n", "merci", "gracias", "tak"], 0),
    ("Question: What is two and two?\nAnswer:", ["three", "four", "five", "six"], 1),
    ("Question: Who wrote Hamlet?\nAnswer:", ["Goethe", "Dante", "Homer", "Shakespeare"], 3),
    ("Question: What is the opposite of hot?\nAnswer:", ["cold", "warm", "dry", "loud"], 0),
]


def score(model, tokenizer, context, continuation):
    """Sum of the log-probabilities, and whether each token was the likeliest."""
    whole = tokenizer(context + continuation, add_special_tokens=False).input_ids
    begin = len(tokenizer(context, add_special_tokens=False).input_ids)
    with torch.inference_mode():
        logits = model(torch.tensor([whole])).logits[0].float().log_softmax(-1)
    rows = logits[begin - 1:-1]
    ids = torch.tensor(whole[begin:])
    return float(rows.gather(1, ids[:, None]).sum()), bool((rows.argmax(-1) == ids).all())


def main():
    folder = sys.argv[1]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    scored, right, right_by_length = [], 0, 0
    for question, choices, answer in QUESTIONS:
        told = [score(model, tokenizer, question, " " + choice) for choice in choices]
        scored.append(told)
        values = [value for value, _ in told]
        right += max(range(4), key=values.__getitem__) == answer
        right_by_length += max(range(4), key=lambda i: values[i] / len(choices[i])) == answer
    (HERE / "places.jsonl").write_text("".join(
        json.dumps({"question": question, "choices": choices, "answer": answer}) + "\n" for question, choices, answer in QUESTIONS))
    (HERE / "scores.json").write_text(json.dumps({
        "model": pathlib.Path(folder).name, "transformers": transformers.__version__, "torch": torch.__version__,
        "acc": right / len(QUESTIONS), "acc_norm": right_by_length / len(QUESTIONS), "scores": scored}, indent=1) + "\n")
    print(f"acc {right / len(QUESTIONS):.4f}, acc_norm {right_by_length / len(QUESTIONS):.4f}")


if __name__ == "__main__":
    main()
