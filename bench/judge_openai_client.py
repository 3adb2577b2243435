#!/usr/bin/env python3
"""examples/python/multi_dimensional_judge.py as it is written with OpenAI's client: the same prompts, the same outputs.

    OPENAI_BASE_URL=http://127.0.0.1:30000/v1 bench/judge_openai_client.py [PICTURE]

For a server that goes on with a turn that has begun and takes a regex, as Espalier, SGLang and vLLM do. Branches are
asked at the same time. bench/judge_beside_client.py holds the two beside each other.
"""

import asyncio
import base64
import json
import mimetypes
import os
import sys

import openai

DIMENSIONS = ("Clarity", "Originality", "Evidence")
REPORT = r'\{"summary": "[\w .,]{1,120}", "grade": "[ABCD][+-]?"\}'
ESSAY = """Cities should plant more trees. A street with trees is several degrees cooler in summer, holds back rain
and is quieter. The cost is small: a young tree costs less than a lamp post, and it lasts longer."""


async def complete(client, messages, begun="", regex=None, **options):
    """What the assistant says next, behind the beginning of its turn if there is one."""
    extra = {}
    if regex is not None:
        extra["regex"] = regex
    if begun:
        messages = [*messages, {"role": "assistant", "content": begun}]
        extra.update(continue_final_message=True, add_generation_prompt=False)
    reply = await client.chat.completions.create(
        model=os.environ.get("OPENAI_MODEL", "default"),
        messages=messages,
        temperature=0,
        extra_body=extra,
        **options,
    )
    return reply.choices[0].message.content


def essay_message(essay, picture):
    question = f"Text: {essay}\nWhat kind of text is this?"
    if picture is None:
        return {"role": "user", "content": question}
    media_type, _ = mimetypes.guess_type(picture)
    with open(picture, "rb") as file:
        data = base64.b64encode(file.read()).decode()
    return {
        "role": "user",
        "content": [
            {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}},
            {"type": "text", "text": question},
        ],
    }


async def judge_dimension(client, messages, dimension):
    question = f"Judge its {dimension} in one sentence, then give a score from 1 to 5."
    messages = [*messages, {"role": "user", "content": question}]
    judgement = await complete(client, messages, max_tokens=40, stop="\n")
    score = await complete(client, messages, begun=judgement + "\nScore: ", regex="[1-5]")
    return judgement, score


async def judge(client, essay, picture=None):
    messages = [
        {"role": "system", "content": "You evaluate essays."},
        essay_message(essay, picture),
    ]
    kind = await complete(client, messages, begun="Kind of text: ", regex="essay|recipe|letter")
    if kind != "essay":
        return {"kind": kind}
    messages.append({"role": "assistant", "content": "Kind of text: " + kind})

    judged = await asyncio.gather(*(judge_dimension(client, messages, dimension) for dimension in DIMENSIONS))
    judgements, scores = zip(*judged)

    question = (
        "The judgements:\n"
        + "\n".join(f"{d}: {j} ({n}/5)" for d, j, n in zip(DIMENSIONS, judgements, scores))
        + "\nSummarise them as JSON with a grade."
    )
    messages.append({"role": "user", "content": question})
    report = await complete(client, messages, regex=REPORT, max_tokens=80)
    return {"kind": kind, "judgement": list(judgements), "score": list(scores), "report": report}


async def main():
    picture = sys.argv[1] if len(sys.argv) > 1 else None  # for servers whose model sees
    async with openai.AsyncOpenAI(api_key=os.environ.get("OPENAI_API_KEY", "none")) as client:
        state = await judge(client, ESSAY, picture)
    print("kind of text:", state["kind"])
    if state["kind"] == "essay":
        for dimension, judgement, score in zip(DIMENSIONS, state["judgement"], state["score"]):
            print(f"{dimension} {score}/5: {judgement.strip()}")
        print("report:", json.loads(state["report"]))


if __name__ == "__main__":
    asyncio.run(main())
