"""SHA-256 of what PyPI's gguf decodes of made-up blocks of each IQ, TQ and FP4 type, for src/tensor/decode_test.cpp."""
import hashlib
import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T

# Where the upper byte of an f16 scale lies: it is made a small number.
SCALE = dict(IQ1_S=1, IQ1_M=55, IQ2_XXS=1, IQ2_XS=1, IQ2_S=1, IQ3_XXS=1, IQ3_S=1, TQ1_0=53, TQ2_0=65)


def blocks(name, count):
    size = GGML_QUANT_SIZES[T[name]][1]
    out, state = np.empty(count * size, np.uint8), 12345
    for i in range(out.size):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out[i] = state >> 24
    out = out.reshape(count, size)
    if name in SCALE:
        out[:, SCALE[name]] = out[:, SCALE[name]] & 0x8F | 0x20
    return out


if __name__ == "__main__":
    for name in "IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S TQ1_0 TQ2_0 MXFP4 NVFP4".split():
        values = quants.dequantize(blocks(name, 400).reshape(-1), T[name]).astype("<f4")
        print(f'      {{DType::{name.lower()}, {SCALE.get(name, -1)}, "{hashlib.sha256(values.tobytes()).hexdigest()}"}},')
