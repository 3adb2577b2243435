"""The committed page is what its sources give: one file without outside resources, of less than 300 kB."""
import hashlib
import pathlib
import re
import shutil
import subprocess
import unittest

from harness import SOURCE

WEB = SOURCE / "web"
PAGE = (WEB / "built" / "page.html").read_text()


def digest_of_sources():
    """As web/build.mjs works it out."""
    files = [p for p in (WEB / "src").rglob("*") if p.is_file()] + [WEB / name for name in ("build.mjs", "package.json", "package-lock.json")]
    names = sorted(p.relative_to(WEB).as_posix() for p in files)
    whole = hashlib.sha256()
    for name in names:
        whole.update(name.encode() + b"\0" + (WEB / name).read_bytes() + b"\0")
    return whole.hexdigest()


class Bundle(unittest.TestCase):
    def test_it_was_made_of_these_sources(self):
        told = re.search(r'<meta name="sources" content="(\w+)">', PAGE).group(1)
        self.assertEqual(told, digest_of_sources(), "web/built/page.html is stale: run `make page` and commit it")

    def test_it_is_small_and_whole(self):
        self.assertLess(len(PAGE.encode()), 300_000)
        self.assertNotRegex(PAGE, r'(src|href)="?(https?:)?//')
        style = PAGE[PAGE.index("<style>"):PAGE.index("</style>")]
        self.assertNotRegex(style, r"url\(\"?(?!\"?data:)")
        self.assertEqual(len(re.findall(r"<script", PAGE)), 1)

    def test_the_lock_file_names_no_registry(self):
        self.assertNotIn('"resolved"', (WEB / "package-lock.json").read_text())

    @unittest.skipUnless(shutil.which("node") and (WEB / "node_modules" / "esbuild").exists(),
                         "no node with the page's packages here (tools/page.sh --install): the page is not built again")
    def test_building_it_again_gives_the_same_bytes(self):
        done = subprocess.run([SOURCE / "tools" / "page.sh", "--check"], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
