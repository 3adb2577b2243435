"""Writes the small pictures of tests/data/pictures and the seeds of the decoders' fuzz targets, with what Pillow sees in
them (expected.json). Run by hand with Pillow 13: python make_pictures.py SOURCE_DIR
"""
import hashlib
import io
import json
import random
import shutil
import struct
import sys
import zlib
from pathlib import Path

from PIL import Image, ImageOps

RANDOM = random.Random(34)
SMALL = (23, 17)


def drawn(mode, size=SMALL):
    picture = Image.new(mode, size)
    channels = len(picture.getbands())
    for _ in range(6):
        colour = tuple(RANDOM.randrange(256) for _ in range(channels))
        left, top = RANDOM.randrange(size[0]), RANDOM.randrange(size[1])
        picture.paste(colour if channels > 1 else colour[0], (left, top, left + 9, top + 7))
    return picture


def saved(picture, form, **options):
    out = io.BytesIO()
    picture.save(out, form, **options)
    return out.getvalue()


def turned(number):
    exif = Image.Exif()
    exif[0x0112] = number
    return exif


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth=8, colours=2, interlaced=0, data=b""):
    head = struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, interlaced)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + (chunk(b"IDAT", data) if data else b"") + chunk(b"IEND", b"")


def interlaced_png(picture):
    """Adam7, which Pillow reads and does not write."""
    rows = b""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        for y in range(y0, picture.height, dy):
            pixels = b"".join(bytes(picture.getpixel((x, y))) for x in range(x0, picture.width, dx))
            rows += b"\0" + pixels if pixels else b""
    return png(*picture.size, interlaced=1, data=zlib.compress(rows, 9))


def bmp(width, height, bits, pixels, compression=0, palette=b"", masks=b""):
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(pixels), 0, 0, len(palette) // 4, 0)
    at = 14 + len(head) + len(masks) + len(palette)
    return b"BM" + struct.pack("<IHHI", at + len(pixels), 0, 0, at) + head + masks + palette + pixels


def pictures():
    for mode in ("RGB", "L", "CMYK"):
        yield f"{mode.lower()}.jpg", saved(drawn(mode), "JPEG", quality=80)
    yield "progressive.jpg", saved(drawn("RGB"), "JPEG", quality=70, progressive=True)
    yield "turned.jpg", saved(drawn("RGB"), "JPEG", quality=90, exif=turned(6))
    for mode in ("RGB", "RGBA", "L", "LA", "1"):
        yield f"{mode.lower()}.png", saved(drawn(mode) if mode != "1" else drawn("L").convert("1"), "PNG")
    yield "palette.png", saved(drawn("RGB").quantize(13), "PNG", transparency=0)
    yield "grey16.png", saved(Image.frombytes("I;16", (4, 3), bytes(range(0, 24))), "PNG")
    yield "rgb16.png", png(3, 2, depth=16, data=zlib.compress(b"".join(b"\0" + bytes(range(i, i + 18)) for i in (7, 99))))
    yield "interlaced.png", interlaced_png(drawn("RGB"))
    yield "turned.png", saved(drawn("RGB"), "PNG", exif=turned(5))
    yield "lossy.webp", saved(drawn("RGB"), "WEBP", quality=60)
    yield "lossless.webp", saved(drawn("RGBA"), "WEBP", lossless=True)
    films = [drawn("RGB") for _ in range(3)]
    yield "animated.webp", saved(films[0], "WEBP", save_all=True, append_images=films[1:], duration=[40, 80, 120], lossless=True)
    yield "animated.gif", saved(films[0], "GIF", save_all=True, append_images=films[1:], duration=[40, 80, 120], disposal=2)
    yield "one.gif", saved(drawn("RGB"), "GIF")
    for mode in ("RGB", "L", "1", "RGBA"):
        yield f"{mode.lower()}.bmp", saved(drawn(mode) if mode != "1" else drawn("L").convert("1"), "BMP")
    yield "runs.bmp", bmp(6, 3, 8, bytes((4, 1, 2, 2, 0, 0, 0, 3, 1, 2, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0, 5, 2, 0, 1)), 1, bytes((0, 0, 0, 0, 9, 8, 7, 0, 200, 100, 50, 0)))
    yield "masks565.bmp", bmp(4, 2, 16, bytes(range(16)), 3, masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F))
    yield "downwards.bmp", bmp(3, -2, 24, bytes(range(24)))


def bombs():
    yield "wide.png", png(60000, 60000, data=zlib.compress(bytes(99)))
    yield "zeros.png", png(30000, 30000, data=zlib.compress(bytes(100_000), 9))
    yield "empty.png", png(5600, 5600)                     # within the limit, and nothing in it
    yield "little.png", png(5600, 5600, data=zlib.compress(bytes(16_801 * 3), 9))
    head = saved(drawn("RGB", (8, 8)), "JPEG")
    at = head.index(b"\xff\xc0") + 5
    yield "wide.jpg", head[:at] + struct.pack(">HH", 65500, 65500) + head[at + 4:]
    yield "empty.jpg", head[:at] + struct.pack(">HH", 5600, 5600) + head[at + 4:at + 20]
    yield "wide.gif", b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0x80, 0, 0) + bytes(6) + b"," + struct.pack("<HHHHB", 0, 0, 65535, 65535, 0) + b"\x02\x01\x00\x00;"
    yield "empty.gif", b"GIF89a" + struct.pack("<HHBBB", 5600, 5600, 0x80, 0, 0) + bytes(6) + b"," + struct.pack("<HHHHB", 0, 0, 5600, 5600, 0) + b"\x02\x01\x00\x00;"
    yield "wide.bmp", bmp(0x7FFFFFFF, 0x7FFFFFFF, 24, b"")
    yield "empty.bmp", bmp(5600, 5600, 24, b"")
    head = saved(drawn("RGB", (16, 16)), "WEBP", quality=1)
    at = head.index(b"\x9d\x01\x2a") + 3
    yield "wide.webp", head[:at] + struct.pack("<HH", 16383, 16383) + head[at + 4:]
    yield "empty.webp", head[:at] + struct.pack("<HH", 5600, 5600) + head[at + 4:]


def seen(data):
    with Image.open(io.BytesIO(data)) as picture:
        rgb = ImageOps.exif_transpose(picture).convert("RGB")
    return {"width": rgb.width, "height": rgb.height, "sha256": hashlib.sha256(rgb.tobytes()).hexdigest()}


def resized():
    """Vectors for src/image/resize/resize_test.cpp, which draws the same picture."""
    for number in range(60):
        size, to, how = (RANDOM.randint(1, 90), RANDOM.randint(1, 90)), (RANDOM.randint(1, 90), RANDOM.randint(1, 90)), number % 6
        data = bytes((i * 2654435761 % (1 << 32)) >> 24 for i in range(size[0] * size[1] * 3))
        box = (size[0] * 0.125, size[1] * 0.25, size[0] * 0.75, size[1] * 0.875) if number % 5 == 4 else None
        picture = Image.frombytes("RGB", size, data).resize(to, how, box)
        yield {"from": size, "to": to, "filter": how, **({"box": box} if box else {}), "sha256": hashlib.sha256(picture.tobytes()).hexdigest()[:16]}


def main(source):
    folder = source / "tests/data/pictures"
    (folder / "bombs").mkdir(parents=True, exist_ok=True)
    expected = {}
    for where, made in (("", pictures()), ("bombs/", bombs())):
        for name, data in made:
            (folder / where / name).write_bytes(data)
            form = {"jpg": "jpeg"}.get(name.rsplit(".", 1)[1], name.rsplit(".", 1)[1])
            seeds = source / f"src/image/decode/fuzz_corpus/{form}_picture"
            seeds.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / where / name, seeds / ((where.replace("bombs/", "bomb-")) + name.replace(".", "-")))
            if not where:
                expected[name] = seen(data)
    (folder / "resized.json").write_text("[" + ",\n".join(json.dumps(one) for one in resized()) + "]\n")
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
