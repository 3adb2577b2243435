"""``python -m espalier.launch_server --model-path MODEL ...``: the server, with SGLang's flags.

It becomes ``espalier serve``; ``espalier help flags`` tells what is made of each flag.
"""

from __future__ import annotations

import os
import sys

from espalier.program_file import program_file


def main(verb: "list[str]") -> None:
    """Becomes the program with this verb and the command line's other words."""
    program = program_file()
    os.execv(program, [program, *verb, *sys.argv[1:]])


if __name__ == "__main__":
    main(["serve"])
