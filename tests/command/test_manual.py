"""Pages for man and completion are made of the tables of --help: they name the same verbs and flags, and shells and man read them."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from program import BINARY, espalier


def help_flags(*words):
    """The first long name of every option in --help."""
    text = espalier(*words, "--help").out
    return {match.group(1) for match in re.finditer(r"^  (?:-\w, )?(--[a-z0-9-]+)", text, re.M)}


def verbs_below(*words):
    text = espalier(*words, "--help").out
    listed = text.partition("Subcommands:\n")[2]
    return re.findall(r"^  ([a-z]+) {2,}", listed, re.M)


def all_verbs():
    for verb in verbs_below():
        yield (verb,)
        yield from ((verb, inner) for inner in verbs_below(verb))


def plain(page):
    return page.replace("\\-", "-").replace("\\e", "\\")


class Pages(unittest.TestCase):
    def test_a_page_has_every_flag_and_default_of_help(self):
        for words in all_verbs():
            page = plain(espalier("man", *words).out)
            flags = help_flags(*words)
            self.assertTrue(flags, words)
            for flag in flags:
                self.assertRegex(page, rf"\\fB(-\w, )?{flag}\b", words)
        self.assertIn("(default 30000)", plain(espalier("man", "serve").out))
        self.assertIn("(environment: ESPALIER_PORT)", plain(espalier("man", "serve").out))

    def test_the_pages_of_all_verbs_are_written(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(espalier("man", "--output", folder).code, 0)
            written = {file.name for file in pathlib.Path(folder).iterdir()}
            self.assertEqual(written, {"espalier.1"} | {"-".join(("espalier", *words)) + ".1" for words in all_verbs()})

    def test_an_unknown_verb_and_a_folder_that_is_not_there_are_sentences(self):
        unknown = espalier("man", "bench", "nothing")
        self.assertEqual((unknown.code, unknown.out), (2, ""))
        self.assertIn("espalier bench nothing", unknown.err)
        self.assertEqual(espalier("man", "--output", "/nowhere/at/all").code, 1)

    @unittest.skipUnless(shutil.which("man"), "no man here")
    def test_man_reads_a_page_without_a_warning(self):
        for words in ((), ("serve",), ("bench", "serving"), ("grammar",)):
            done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-"], input=espalier("man", *words).out, capture_output=True, text=True,
                                  env={"PATH": "/usr/bin:/bin", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            self.assertIn("SYNOPSIS", done.stdout)


class Completion(unittest.TestCase):
    def complete_in_bash(self, *words):
        script = ('source <("$0" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _espalier; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, BINARY, *words], capture_output=True, text=True, check=True)
        return done.stdout.split()

    def test_bash_completes_verbs_inner_verbs_and_flags(self):
        self.assertEqual(self.complete_in_bash("espalier", "qua"), ["quantize"])
        self.assertEqual(set(self.complete_in_bash("espalier", "bench", "")) & set(verbs_below("bench")), set(verbs_below("bench")))
        self.assertEqual(self.complete_in_bash("espalier", "serve", "--max-running"), ["--max-running-requests"])
        self.assertLessEqual(help_flags("serve"), set(self.complete_in_bash("espalier", "serve", "--")))

    def test_what_the_scripts_say_is_what_the_shells_read(self):
        for shell in ("bash", "zsh", "fish"):
            script = espalier("completion", shell).out
            self.assertIn("espalier", script)
            if shutil.which(shell):
                with tempfile.NamedTemporaryFile("w", suffix=f".{shell}") as file:
                    file.write(script)
                    file.flush()
                    read = subprocess.run([shell, "-n", file.name], capture_output=True, text=True)
                    self.assertEqual((read.returncode, read.stderr), (0, ""), shell)

    @unittest.skipUnless(shutil.which("fish"), "no fish here")
    def test_fish_completes_flags_with_what_they_do(self):
        folder = str(pathlib.Path(BINARY).resolve().parent)
        script = f'set -x PATH {folder} $PATH; espalier completion fish | source; complete -C "espalier serve --max-running"'
        done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True)
        name, _, effect = done.stdout.strip().partition("\t")
        self.assertEqual(name, "--max-running-requests", done.stderr)
        self.assertTrue(effect)

    @unittest.skipUnless(shutil.which("zsh"), "no zsh here")
    def test_zsh_takes_the_script_behind_its_own_completion(self):
        script = 'autoload -U compinit && compinit -u -D; source <("$0" completion zsh); print -r -- $_comps[espalier]'
        done = subprocess.run(["zsh", "-f", "-c", script, BINARY], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        self.assertIn("_espalier", done.stdout)


if __name__ == "__main__":
    unittest.main()
