"""The image module against Pillow, byte for byte: resizing at random sizes with every filter, decoding of files of every
mode that Pillow writes. ESPALIER_OPERATIONS: the number of cases; ESPALIER_SEED repeats a run.

Needs picture_lines (tests/image/picture_lines.cpp), named by ESPALIER_PICTURE_LINES.
"""
import io
import os
import random
import struct
import subprocess
import unittest

try:
    from PIL import Image, ImageOps
except ImportError:
    Image = None

SEED = int(os.environ.get("ESPALIER_SEED") or random.SystemRandom().randrange(1 << 32))
OPERATIONS = int(os.environ.get("ESPALIER_OPERATIONS") or 500)
FILTERS = range(6)


class PictureLines:
    """The program on its pipe."""

    def __init__(self):
        self.process = subprocess.Popen([os.environ["ESPALIER_PICTURE_LINES"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def ask(self, line, data):
        self.process.stdin.write(line.encode() + b"\n" + data)
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().rstrip("\n")

    def picture(self, head):
        kind, _, rest = head.partition(" ")
        if kind != "picture":
            return rest
        width, height, *more = map(int, rest.split())
        return (Image.frombytes("RGB", (width, height), self.process.stdout.read(width * height * 3)), *more)

    def resize(self, picture, size, how, box=()):
        words = ["resize", *picture.size, int(how), *size, *(repr(float(edge)) for edge in box)]
        return self.picture(self.ask(" ".join(map(str, words)), picture.tobytes()))[0]

    def decode(self, data):
        answer = self.picture(self.ask(f"decode {len(data)}", data))
        return answer if isinstance(answer, str) else answer[0]

    def frames(self, data):
        head = self.ask(f"frames {len(data)}", data)
        if head.startswith("error"):
            return head
        return [self.picture(self.process.stdout.readline().decode()) for _ in range(int(head.split()[1]))]


def drawn(random, width, height, mode="RGB"):
    """Noise, or a picture of a few plain areas; every mode that has bytes."""
    channels = len(Image.new(mode, (1, 1)).getbands())
    if random.random() < 0.5:
        return Image.frombytes(mode, (width, height), random.randbytes(width * height * channels))
    picture = Image.new(mode, (width, height))
    for _ in range(4):
        colour = tuple(random.randrange(256) for _ in range(channels))
        left, top = random.randrange(width), random.randrange(height)
        picture.paste(colour if channels > 1 else colour[0], (left, top, min(width, left + 1 + random.randrange(width)), min(height, top + 1 + random.randrange(height))))
    return picture


def seen(data):
    """What the processors see of a file."""
    with Image.open(io.BytesIO(data)) as picture:
        return ImageOps.exif_transpose(picture).convert("RGB")


def saved(picture, form, **options):
    out = io.BytesIO()
    picture.save(out, form, **options)
    return out.getvalue()


def orientation(number):
    exif = Image.Exif()
    exif[0x0112] = number
    return exif


@unittest.skipIf(Image is None, "Pillow is not installed")
@unittest.skipIf("ESPALIER_PICTURE_LINES" not in os.environ, "ESPALIER_PICTURE_LINES does not name the program")
class PillowTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"ESPALIER_SEED={SEED}", flush=True)
        cls.program = PictureLines()

    @classmethod
    def tearDownClass(cls):
        cls.program.close()

    def setUp(self):
        self.random = random.Random(f"{SEED} {self.id()}")

    def assert_same(self, ours, theirs, what):
        if isinstance(ours, str):
            self.fail(f"{what}: {ours}")
        self.assertEqual(ours.size, theirs.size, what)
        if ours.tobytes() != theirs.tobytes():
            ours_bytes, theirs_bytes = ours.tobytes(), theirs.tobytes()
            worst = max(abs(a - b) for a, b in zip(ours_bytes, theirs_bytes))
            wrong = sum(a != b for a, b in zip(ours_bytes, theirs_bytes))
            self.fail(f"{what}: {wrong} of {len(ours_bytes)} bytes differ, by up to {worst}")

    def assert_seen(self, data, what):
        self.assert_same(self.program.decode(data), seen(data), what)

    def size(self, most):
        return self.random.choice((1, 2, 3, self.random.randint(1, most), self.random.randint(1, most), self.random.randint(1, most)))

    def test_resizing_equals_pillow_at_random_sizes_and_filters(self):
        for _ in range(OPERATIONS):
            picture = drawn(self.random, self.size(300), self.size(300))
            size, how = (self.size(300), self.size(300)), self.random.choice(FILTERS)
            self.assert_same(self.program.resize(picture, size, how), picture.resize(size, how), f"{picture.size} -> {size}, filter {how}")

    def test_resizing_of_a_part_equals_pillow(self):
        for _ in range(OPERATIONS // 3):
            picture = drawn(self.random, 2 + self.size(120), 2 + self.size(120))
            size, how = (self.size(150), self.size(150)), self.random.choice(FILTERS)
            across = sorted(struct.unpack("f", struct.pack("f", self.random.uniform(0, picture.width)))[0] for _ in range(2))
            down = sorted(struct.unpack("f", struct.pack("f", self.random.uniform(0, picture.height)))[0] for _ in range(2))
            box = (across[0], down[0], across[1] + 0.01, down[1] + 0.01)
            if box[2] > picture.width or box[3] > picture.height:
                continue
            self.assert_same(self.program.resize(picture, size, how, box), picture.resize(size, how, box), f"{picture.size} {box} -> {size}, filter {how}")

    def test_jpeg_files_of_every_kind_decode_as_pillow_does(self):
        for _ in range(OPERATIONS // 5):
            mode = self.random.choice(("RGB", "L", "CMYK"))
            options = dict(quality=self.random.randint(1, 100), progressive=self.random.random() < 0.5, optimize=self.random.random() < 0.3)
            if mode == "RGB":
                options["subsampling"] = self.random.choice((0, 1, 2))
            if self.random.random() < 0.5:
                options["exif"] = orientation(self.random.randint(0, 9))
            if self.random.random() < 0.3:
                options["restart_marker_blocks"] = 3
            picture = drawn(self.random, self.size(90), self.size(90), mode)
            self.assert_seen(saved(picture, "JPEG", **options), f"{mode} {picture.size} {options}")

    def test_png_files_of_every_mode_decode_as_pillow_does(self):
        for _ in range(OPERATIONS // 5):
            mode = self.random.choice(("RGB", "L", "RGBA", "LA", "P", "1", "I;16"))
            size = (self.size(60), self.size(60))
            options = {"exif": orientation(self.random.randint(1, 8))} if self.random.random() < 0.5 else {}
            if mode == "P":
                picture = drawn(self.random, *size).quantize(self.random.choice((2, 4, 13, 16, 200)))
                if self.random.random() < 0.5:
                    options["transparency"] = 0
                if self.random.random() < 0.5:
                    options["bits"] = 8
            elif mode == "1":
                picture = drawn(self.random, *size, "L").convert("1")
            elif mode == "I;16":
                picture = Image.frombytes("I;16", size, self.random.randbytes(2 * size[0] * size[1]))
            else:
                picture = drawn(self.random, *size, mode)
                if mode in ("L", "RGB") and self.random.random() < 0.3:
                    options["transparency"] = 7 if mode == "L" else (1, 2, 3)
            self.assert_seen(saved(picture, "PNG", **options), f"{mode} {size} {list(options)}")

    def test_webp_files_decode_as_pillow_does(self):
        for _ in range(OPERATIONS // 10):
            mode = self.random.choice(("RGB", "RGBA", "L"))
            options = dict(lossless=self.random.random() < 0.5, quality=self.random.randint(0, 100), method=0)
            if self.random.random() < 0.4:
                options["exif"] = orientation(self.random.randint(1, 8))
            picture = drawn(self.random, self.size(90), self.size(90), mode)
            self.assert_seen(saved(picture, "WEBP", **options), f"{mode} {picture.size} {options}")

    def test_bmp_files_decode_as_pillow_does(self):
        for _ in range(OPERATIONS // 10):
            mode = self.random.choice(("RGB", "L", "P", "1", "RGBA"))
            picture = drawn(self.random, self.size(60), self.size(60), mode if mode not in ("P", "1") else "L")
            if mode == "P":
                picture = picture.convert("RGB").quantize(self.random.choice((3, 16, 100)))
            if mode == "1":
                picture = picture.convert("1")
            self.assert_seen(saved(picture, "BMP"), f"{mode} {picture.size}")

    def animation(self, form, most_frames=5):
        size = (1 + self.size(40), 1 + self.size(40))
        count = self.random.randint(1, most_frames)
        pictures = [drawn(self.random, *size, "RGBA") for _ in range(count)]
        for picture in pictures:   # alpha is all or nothing
            picture.putalpha(picture.getchannel("A").point(lambda a: 255 if a > 90 else 0))
        durations = [10 * self.random.randint(2, 50) for _ in range(count)]
        options = dict(save_all=True, append_images=pictures[1:], duration=durations, loop=0)
        if form == "GIF":
            pictures.append(drawn(self.random, *size, "RGBA"))   # of one picture alone Pillow takes no lists
            options["append_images"], options["duration"], count = pictures[1:], [*durations, 40], count + 1
            options["disposal"] = [self.random.choice((0, 1, 2, 3)) for _ in range(count)]
        else:
            options.update(lossless=True, method=0, allow_mixed=False)
        return saved(pictures[0], form, **options), f"{form} {size} {count} frames {options.get('disposal')}"

    def assert_frames_seen(self, data, what):
        self.assert_seen(data, what)
        ours = self.program.frames(data)
        with Image.open(io.BytesIO(data)) as theirs:
            self.assertEqual(len(ours), theirs.n_frames, what)
            for i, (picture, duration) in enumerate(ours):
                theirs.seek(i)
                self.assert_same(picture, theirs.convert("RGB"), f"{what}, frame {i}")
                if theirs.n_frames > 1:
                    self.assertEqual(duration, theirs.info.get("duration", 0), f"{what}, frame {i}")

    def test_animated_gif_and_webp_show_what_pillow_shows(self):
        for _ in range(OPERATIONS // 10):
            self.assert_frames_seen(*self.animation("GIF"))
            self.assert_frames_seen(*self.animation("WEBP"))

    def test_a_file_cut_anywhere_is_refused_or_decodes_as_pillow_does(self):
        for _ in range(OPERATIONS // 10):
            form = self.random.choice(("JPEG", "PNG", "GIF", "BMP", "WEBP"))
            whole = saved(drawn(self.random, 30, 20), form)
            part = whole[:self.random.randint(1, len(whole) - 1)]
            ours = self.program.decode(part)
            try:
                theirs = seen(part)
            except Exception:
                continue   # some of what Pillow refuses is complete but for its end marker
            if not isinstance(ours, str):
                self.assert_same(ours, theirs, f"{form} of {len(whole)} bytes, cut to {len(part)}")


if __name__ == "__main__":
    unittest.main()
