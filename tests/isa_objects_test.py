"""Objects compiled for wide instruction sets share no inline function with the rest of the program.

A weak symbol (an inline function or template instance) may be merged by the linker with the copy of any other object. Were
the copy of an AVX-512 object chosen, the program would stop with an illegal instruction on an older processor. So every
weak symbol of these objects must name their own instruction set.
"""

import pathlib
import subprocess
import sys

# Whose vectors they are too: no compiler makes their instructions out of such vectors' functions.
ALSO = {"amx": "avx512", "avxvnni": "avx2", "i8mm": "neon"}


def main():
    build = pathlib.Path(sys.argv[1])
    objects = [p for isa in ("amx", "avx2", "avxvnni", "avx512", "neon", "i8mm") for p in build.rglob(f"kernels/cpu/{isa}/*.o")]
    shared, seen = [], 0
    for path in objects:
        listing = subprocess.run(["nm", "--demangle", "--defined-only", str(path)], capture_output=True, text=True, check=True)
        for line in listing.stdout.splitlines():
            _, kind, symbol = line.split(maxsplit=2)
            seen += 1
            own = {path.parent.name, ALSO.get(path.parent.name)}
            if kind in "WVu" and not any(f"kernels::{isa}::" in symbol for isa in own):
                shared.append(f"{path.parent.name}/{path.name}: {symbol}")
    print("\n".join(sorted(set(shared))) or f"{seen} symbols in {len(objects)} objects, none shared")
    return 1 if shared or not objects else 0


sys.exit(main())
