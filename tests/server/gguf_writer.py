"""Reads safetensors and writes GGUF, with Python's library alone; tensors are float32 in memory and in what is written."""
import array
import json
import math
import pathlib
import struct

ALIGNMENT = 32


class Tensor:
    """A shape, outermost first, and its values."""

    def __init__(self, shape, values):
        self.shape, self.values = list(shape), values
        assert math.prod(self.shape) == len(values), (shape, len(values))

    def rows(self, order):
        """The outermost rows in another order (or some of them)."""
        each = len(self.values) // self.shape[0]
        out = array.array("f")
        for i in order:
            out += self.values[i * each:(i + 1) * each]
        return Tensor([len(order)] + self.shape[1:], out)

    def part(self, begin, end):
        return self.rows(range(begin, end))

    def reshaped(self, *shape):
        return Tensor(shape, self.values)

    def moved(self, *axes):
        """The axes in another order: numpy's transpose."""
        strides = [math.prod(self.shape[i + 1:]) for i in range(len(self.shape))]
        shape = [self.shape[a] for a in axes]
        places = [0]
        for size, a in zip(shape, axes):
            places = [p + i * strides[a] for p in places for i in range(size)]
        return Tensor(shape, array.array("f", (self.values[p] for p in places)))

    def mapped(self, f):
        return Tensor(self.shape, array.array("f", map(f, self.values)))


def stacked(tensors):
    values = array.array("f")
    for t in tensors:
        values += t.values
    return Tensor([len(tensors)] + tensors[0].shape, values)


def joined(tensors):
    values = array.array("f")
    for t in tensors:
        values += t.values
    return Tensor([sum(t.shape[0] for t in tensors)] + tensors[0].shape[1:], values)


def load(path):
    raw = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        data, values = raw[8 + size + begin:8 + size + end], array.array("f")
        if entry["dtype"] == "BF16":
            wide = bytearray(2 * len(data))
            wide[2::4], wide[3::4] = data[0::2], data[1::2]
            values.frombytes(bytes(wide))
        elif entry["dtype"] == "F32":
            values.frombytes(data)
        else:
            continue
        out[name] = Tensor(entry["shape"], values)
    return out


def _text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _typed(value):
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, _text(value)
    parts = [_typed(each) for each in value]
    return 9, struct.pack("<IQ", parts[0][0], len(parts)) + b"".join(data for _, data in parts)


def write(path, metadata, tensors):
    """metadata: values by key; a list has values of one type. tensors: Tensor by name."""
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
    for key, value in metadata.items():
        kind, data = _typed(value)
        out += _text(key) + struct.pack("<I", kind) + data
    offset = 0
    for name, t in tensors.items():
        out += _text(name) + struct.pack("<I", len(t.shape)) + struct.pack(f"<{len(t.shape)}Q", *reversed(t.shape))
        out += struct.pack("<IQ", 0, offset)
        offset += (4 * len(t.values) + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    out += b"\0" * (-len(out) % ALIGNMENT)
    for t in tensors.values():
        data = t.values.tobytes()
        out += data + b"\0" * (-len(data) % ALIGNMENT)
    pathlib.Path(path).write_bytes(out)
