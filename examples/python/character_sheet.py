"""A form filled in hole by hole, after an example. Where calls are paid each, num_api_spec_tokens lets one call fill all of its holes."""

import _backend
import espalier as sgl


FISHERMAN = """A short sheet about an old fisherman.
Name: Ned Waters
Home: a hut by the sea
Trade: catching herring

"""


@sgl.function(num_api_spec_tokens=64)
def sheet(s, character):
    s += FISHERMAN + "A short sheet about " + character + ".\n"
    s += "Name:" + sgl.gen("name", max_tokens=12, stop="\n") + "\n"
    s += "Home:" + sgl.gen("home", max_tokens=12, stop="\n") + "\n"
    s += "Trade:" + sgl.gen("trade", max_tokens=12, stop="\n") + "\n"


if __name__ == "__main__":
    state = sheet.run("a friendly blacksmith", temperature=0, backend=_backend.open_backend())
    for name in ("name", "home", "trade"):
        print(name, "=", state[name].strip())
