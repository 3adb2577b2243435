"""How sure the model was, token by token, and what else it might have said."""

import math

import _backend
import espalier as sgl


@sgl.function
def capital(s, country):
    s += f"The capital of {country} is" + sgl.gen(
        "city", max_tokens=4, return_logprob=True, top_logprobs_num=3, return_text_in_logprobs=True
    )


if __name__ == "__main__":
    state = capital.run("France", temperature=0, backend=_backend.open_backend())
    meta = state.get_meta_info("city")
    for (logprob, _, text), others in zip(meta["output_token_logprobs"], meta["output_top_logprobs"]):
        print(f"{text!r:12} {math.exp(logprob):.2f}  of {[other[2] for other in others]}")
