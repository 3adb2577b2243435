"""macho_names.py PATTERN OBJECT...: the undefined names of Mach-O objects (64 bit) that match PATTERN, one a line, sorted.

Debian's binutils do not read that format. Source: Apple's mach-o/loader.h and mach-o/nlist.h.
"""

import pathlib
import re
import struct
import sys

MAGIC, LC_SYMTAB, N_STAB, N_TYPE = 0xFEEDFACF, 2, 0xE0, 0x0E


def undefined(data):
    magic, _, _, _, commands = struct.unpack_from("<5I", data)
    if magic != MAGIC:
        raise SystemExit("macho_names: no object of 64-bit macOS")
    at = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", data, at)
        if command == LC_SYMTAB:
            symbols, count, strings, _ = struct.unpack_from("<4I", data, at + 8)
            for i in range(count):
                name, kind = struct.unpack_from("<IB", data, symbols + 16 * i)
                if not kind & (N_STAB | N_TYPE):
                    yield data[strings + name : data.index(b"\0", strings + name)].decode()
        at += size


pattern = re.compile(sys.argv[1])
names = {name for path in sys.argv[2:] for name in undefined(pathlib.Path(path).read_bytes()) if pattern.search(name)}
print("\n".join(sorted(names)))
