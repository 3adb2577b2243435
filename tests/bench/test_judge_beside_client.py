"""bench/judge_beside_client.py without server, package or client: what counts as code, and how much of it the two judges are."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import judge_beside_client as beside  # noqa: E402: behind the path

SOURCE = '''"""A docstring
of two lines."""

import sys  # counts in the file alone

TEXT = """two
lines"""


@decorated
def judge(s):
    """What it does."""
    # why

    s += call(
        TEXT,
    )
    if s:
        return


def main():
    print()
'''


class Code(unittest.TestCase):
    def test_blank_lines_comments_and_docstrings_are_none(self):
        self.assertEqual(beside.count(SOURCE), {"lines, program": 7, "lines, whole file": 12, "statements, program": 5})

    def test_the_language_needs_less_than_half_of_the_lines(self):
        ours, theirs = (beside.count(path.read_text())["lines, program"] for path in (beside.OURS, beside.THEIRS))
        self.assertGreaterEqual(theirs / ours, 2.1)


if __name__ == "__main__":
    unittest.main()
