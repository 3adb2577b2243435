"""Prints the digests that src/tensor/decode_test.cpp expects of our encoders (needs numpy and gguf)."""
import hashlib

import gguf
import numpy as np

state, values = 12345, []
for _ in range(4096):
    state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
    values.append(np.float32((state >> 8) - (1 << 23)) / np.float32(1 << 21))
values = np.array(values, np.float32).reshape(-1, 256)
for name in ("Q8_0", "Q4_0", "Q4_1", "F16", "BF16"):
    stored = gguf.quants.quantize(values, gguf.GGMLQuantizationType[name])
    print(name, hashlib.sha256(np.ascontiguousarray(stored).tobytes()).hexdigest())
