"""`espalier run`: one prompt on pipes, a chat on a terminal of its own."""
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from program import MODEL, Server, Terminal, espalier, start

ANSWER = ("run", MODEL, "hello", "--seed", "1", "-n", "40")


def catches(process, number):
    with open(f"/proc/{process.pid}/status") as status:
        caught = re.search(r"^SigCgt:\s*(\w+)", status.read(), re.M)
    return bool(int(caught[1], 16) >> (number - 1) & 1)


class OnPipes(unittest.TestCase):
    def test_a_reader_that_has_gone_ends_every_verb_quietly(self):
        for verb in (ANSWER, ("--help",), ("help", "serve"), ("inspect", MODEL), ("help", "flags"), ("serve", "--print-config")):
            reading, writing = os.pipe()
            os.close(reading)
            ended = espalier(*verb, stdout=writing)
            os.close(writing)
            self.assertEqual((ended.code, ended.err), (0, ""), verb)

    def test_a_full_disk_is_an_error(self):
        for verb in (ANSWER, ("--help",), ("help", "flags"), ("inspect", MODEL), ("serve", "--print-config")):
            with open("/dev/full", "w") as full:
                ended = espalier(*verb, stdout=full)
            self.assertEqual(ended.code, 1, (verb, ended))
            self.assertIn("espalier: the output could not be written: No space left on device", ended.err)

    def test_control_c_ends_an_answer_with_130(self):
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"." * 4096)  # the answer has to wait
        os.set_blocking(writing, True)
        process = start(*ANSWER, stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE)
        os.close(writing)
        while not catches(process, signal.SIGINT):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        with open(reading, "rb") as out:
            out.read()
        self.assertEqual(process.communicate()[1], b"")
        self.assertEqual(process.returncode, 130)

    def test_all_of_a_piped_stdin_is_one_prompt(self):
        whole = espalier("run", MODEL, "one\ntwo\n\nthree", "--raw", "--temperature", "0", "-n", "8")
        piped = espalier("run", MODEL, "--raw", "--temperature", "0", "-n", "8", text="one\ntwo\n\nthree\n")
        self.assertEqual(whole.code, 0, whole)
        self.assertEqual((piped.code, piped.out), (0, whole.out))

    def test_a_dash_in_the_prompt_is_stdin_and_words_are_joined(self):
        whole = espalier("run", MODEL, "say it:\n\none\ntwo", "--raw", "--temperature", "0", "-n", "8")
        mixed = espalier("run", MODEL, "say", "it:", "-", "--raw", "--temperature", "0", "-n", "8", text="one\ntwo\n")
        self.assertEqual((mixed.code, mixed.out), (0, whole.out))

    def test_stdin_beside_a_prompt_is_not_read_and_that_is_said(self):
        ended = espalier("run", MODEL, "hello", "-n", "1", text="more\n")
        self.assertEqual(ended.code, 0, ended)
        self.assertIn("stdin is not read, because there is a prompt", ended.err)

    def test_an_empty_stdin_is_refused(self):
        ended = espalier("run", MODEL, text="\n")
        self.assertEqual(ended.code, 2, ended)
        self.assertIn("the prompt is empty", ended.err)

    def test_a_seed_and_greedy_sampling_repeat_and_other_seeds_differ(self):
        def said(*flags):
            ended = espalier("run", MODEL, "hello", "-n", "12", *flags)
            self.assertEqual(ended.code, 0, ended)
            return ended.out
        self.assertEqual(said("--seed", "5"), said("--seed", "5"))
        self.assertEqual(said("--temperature", "0"), said("--temperature", "0", "--seed", "9"))
        self.assertGreater(len({said("--seed", seed, "--temperature", "2") for seed in range(4)}), 1)

    def test_a_system_message_without_a_template_is_refused(self):
        ended = espalier("run", MODEL, "hello", "--raw", "--system", "be short")
        self.assertEqual(ended.code, 2, ended)
        self.assertIn("--system needs a chat template", ended.err)


def chat(*flags, env=None):
    return Terminal("run", TEMPLATED, "--temperature", "0", *flags, env=env)


def templated():
    """The golden model, with a chat template beside it."""
    import atexit
    folder = pathlib.Path(tempfile.mkdtemp(prefix="espalier-chat-"))
    atexit.register(shutil.rmtree, folder, True)
    for file in MODEL.iterdir():
        shutil.copy(file, folder / file.name)
    config = json.loads((folder / "tokenizer_config.json").read_text()) if (folder / "tokenizer_config.json").exists() else {}
    config["chat_template"] = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


TEMPLATED = templated()


class InATerminal(unittest.TestCase):
    def test_lines_are_answered_and_control_d_ends(self):
        with chat("-n", "3", "--stats") as terminal:
            terminal.expect("Ctrl-D ends")
            terminal.expect("> ")
            terminal.type("hello\n")
            terminal.expect(r"\[\d+ prompt tokens, .* tok/s\]")
            terminal.expect("> ")
            terminal.type("\x04")
            self.assertEqual(terminal.end()[1], 0)

    def test_a_line_is_edited_and_the_history_brings_it_back(self):
        with chat() as terminal:
            terminal.expect("> ")
            terminal.type("/hel\x7f\x7flpX\x7f\n")  # backspaces: /hlp, X gone again
            self.assertIn("/hlp", terminal.expect(r"There is no command /hlp;"))
            terminal.expect("> ")
            terminal.type("\x1b[A\x01\x1b[C\x1b[Ce\n")  # up, to the start, two to the right, insert an e
            terminal.expect("forget the conversation")
            terminal.expect("> ")
            terminal.type("/exit\n")
            self.assertEqual(terminal.end()[1], 0)

    def test_letters_beyond_ascii_survive_whatever_the_locale(self):
        for locale in ("C", "C.UTF-8"):
            with chat(env={"LC_ALL": locale}) as terminal:
                terminal.expect("> ")
                terminal.type("/grüße日本\n")
                terminal.expect("There is no command /grüße日本;")
                terminal.expect("> ")
                terminal.type("\x04")
                self.assertEqual(terminal.end()[1], 0)

    def test_control_c_drops_a_line_and_says_how_to_end(self):
        with chat() as terminal:
            terminal.expect("> ")
            terminal.type("half a li\x03")
            terminal.expect(r"\^C.*/exit ends")
            terminal.expect("> ")
            terminal.type("/bye\n")
            self.assertEqual(terminal.end()[1], 0)

    def test_commands_set_the_system_message_and_forget(self):
        with chat("-n", "2", "--stats") as terminal:
            def tokens_of(line):
                terminal.expect("> ")
                terminal.type(line + "\n")
                return int(re.search(r"\[(\d+) prompt tokens", terminal.expect(r"tok/s\]"))[1])
            first = tokens_of("hello")
            self.assertGreater(tokens_of("hello"), first, "the turns before count")
            terminal.expect("> ")
            terminal.type("/clear\n")
            self.assertEqual(tokens_of("hello"), first)
            terminal.expect("> ")
            terminal.type("/system be short and kind\n")
            self.assertGreater(tokens_of("hello"), first)
            terminal.expect("> ")
            terminal.type("/system\n")
            self.assertEqual(tokens_of("hello"), first)

    def test_a_full_context_drops_the_oldest_turns_and_goes_on(self):
        with chat("-n", "8", "-c", "96") as terminal:
            terminal.expect("> ")
            for _ in range(12):
                terminal.type("tell me more about it\n")
                if "the context is full: the oldest" in terminal.expect("> "):
                    break
            else:
                self.fail("twelve questions fitted into 96 tokens")
            terminal.type("word " * 300 + "\n")
            terminal.expect(r"the message needs \d+ tokens, but the context has 96")
            terminal.expect("> ")
            terminal.type("and again\n")
            terminal.expect("> ")
            terminal.type("/exit\n")
            self.assertEqual(terminal.end()[1], 0)

    def test_control_c_ends_an_answer_and_the_chat_goes_on(self):
        with chat() as terminal:
            terminal.expect("> ")
            terminal.type("hello\n")
            terminal.expect(r"\n[^>]")
            terminal.process.send_signal(signal.SIGINT)
            terminal.expect("> ")
            terminal.type("/exit\n")
            self.assertEqual(terminal.end()[1], 0)

    def test_signals_at_the_prompt_leave_the_line_and_the_chat(self):
        for kind in ("xterm", "dumb"):
            with self.subTest(terminal=kind), chat("-n", "2", env={"TERM": kind}) as terminal:
                for _ in range(5):
                    terminal.expect("> ")
                    terminal.process.send_signal(signal.SIGINT)
                    terminal.type("/nothing\n")
                    terminal.expect("There is no command /nothing")
                terminal.expect("> ")
                terminal.type("/help\n")
                terminal.expect("forget the conversation")
                terminal.type("/exit\n")
                self.assertEqual(terminal.end()[1], 0)

    def test_a_backslash_continues_a_line(self):
        with chat() as terminal:
            terminal.expect("> ")
            terminal.type("/nothing\\\n")
            terminal.expect(r"\. ")
            terminal.type("more\n")
            terminal.expect("There is no command /nothing")
            terminal.expect("> ")
            terminal.type("\x04")
            self.assertEqual(terminal.end()[1], 0)

    def test_a_dumb_terminal_is_read_without_editing(self):
        with chat("-n", "2", env={"TERM": "dumb"}) as terminal:
            terminal.expect("> ")
            terminal.type("/help\n")
            terminal.expect("forget the conversation")
            terminal.type("/exit\n")
            self.assertEqual(terminal.end()[1], 0)


SEES = MODEL.parent / "mm-gemma3"
PICTURE = MODEL.parents[2] / "pictures" / "rgb.png"


class WithPictures(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="espalier-chat-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def test_a_picture_on_the_command_line_is_a_part_of_the_prompt(self):
        def prompt_tokens(*flags):
            ended = espalier("run", SEES, "what is it?", "--temperature", "0", "-n", "4", "--stats", *flags)
            self.assertEqual(ended.code, 0, ended)
            return int(re.search(r"\[(\d+) prompt tokens", ended.err)[1])
        words = prompt_tokens()
        one = prompt_tokens("--image", PICTURE)
        self.assertGreater(one, words + 4)
        self.assertEqual(prompt_tokens("--image", PICTURE, "--image", PICTURE), 2 * one - words)

    def test_what_is_no_picture_or_finds_no_eyes_is_refused(self):
        for model, file, sentence in ((SEES, "/nonexistent.png", "is no file that can be read"), (SEES, SEES / "config.json", "picture"),
                                      (MODEL, PICTURE, "this model reads no pictures")):
            ended = espalier("run", model, "hello", "-n", "1", "--image", file)
            self.assertEqual((ended.code, ended.out), (2 if model == SEES else ended.code, ""), ended)
            self.assertNotEqual(ended.code, 0)
            self.assertIn(sentence, ended.err)

    def test_a_chat_shows_counts_and_saves_what_a_server_answers_alike(self):
        saved = self.folder / "chat.json"
        with Terminal("run", SEES, "--temperature", "0", "-n", "6", "--stats") as terminal:
            def say(line, answer):
                terminal.expect("> ")
                terminal.type(line + "\n")
                return terminal.expect(answer)
            say("/image /nonexistent.png", "is no file that can be read")
            say(f"/image '{PICTURE}'", "shown with the next question")
            shown = int(re.search(r"\[(\d+) prompt tokens", say("what is it?", r"tok/s\]"))[1])
            self.assertGreaterEqual(int(re.search(r"\[(\d+) of \d+ tokens\]", say("/tokens", r"tokens\]"))[1]), shown)
            say(f"/save {saved}", "saved: ")
            say("/save /nonexistent/chat.json", "could not be written")
            say("/exit", "$")
            self.assertEqual(terminal.end()[1], 0)
        messages = json.loads(saved.read_text())["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant"])
        with Server(model=SEES) as server:
            answer = server.post("/v1/chat/completions", {"messages": messages[:1], "temperature": 0, "max_tokens": 6}).json
        self.assertEqual(answer["choices"][0]["message"]["content"], messages[1]["content"])
        self.assertEqual(answer["usage"]["prompt_tokens"], shown)


class WithoutAModel(unittest.TestCase):
    def test_a_script_is_told_what_would_fit(self):
        with tempfile.TemporaryDirectory() as cache:
            ended = espalier("run", env={"ESPALIER_CACHE": cache, "HF_HUB_CACHE": cache})
        self.assertEqual((ended.code, ended.out), (2, ""), ended)
        self.assertRegex(ended.err, r"name a model: espalier run \S+\n")
        self.assertRegex(ended.err, r"smollm2-135m +[\d.]+ MiB +\d+ s  to see that it works")

    def test_little_memory_makes_the_proposal_small(self):
        ended = espalier("run", limits={resource.RLIMIT_AS: 1 << 30})
        self.assertIn("name a model: espalier run smollm2-135m\n", ended.err)
        self.assertIn("more than the free memory", ended.err)

    def test_a_terminal_is_asked_and_what_is_here_is_listed(self):
        with tempfile.TemporaryDirectory() as cache, Terminal("run", env={"ESPALIER_CACHE": cache}) as terminal:
            terminal.expect("Which one. Enter takes ")
            terminal.expect("> ")
            terminal.type(f" {TEMPLATED} \n")
            terminal.expect("Ctrl-D ends")
            terminal.expect("> ")
            terminal.type("/exit\n")
            self.assertEqual(terminal.end()[1], 0)


class History(unittest.TestCase):
    def test_lines_outlive_the_program_and_only_their_owner_reads_them(self):
        with tempfile.TemporaryDirectory() as state:
            for line in ("/hlep", "\x1b[A\n"):
                with chat(env={"XDG_STATE_HOME": state}) as terminal:
                    terminal.expect("> ")
                    terminal.type(line + "\n")
                    terminal.expect("There is no command /hlep;")
                    terminal.expect("> ")
                    terminal.type("\x04")
                    self.assertEqual(terminal.end()[1], 0)
            kept = pathlib.Path(state, "espalier", "history")
            self.assertIn("hlep", kept.read_text())
            self.assertEqual(kept.stat().st_mode & 0o077, 0)

    def test_a_block_between_three_quotes_is_one_message(self):
        with chat("-n", "2", "--stats") as terminal:
            def tokens_of(*lines):
                terminal.expect("> ")
                terminal.type("/clear\n")
                terminal.expect("> ")
                for line in lines:
                    terminal.type(line + "\n")
                    if line != lines[-1]:
                        terminal.expect(r"\. ")
                return int(re.search(r"\[(\d+) prompt tokens", terminal.expect(r"tok/s\]"))[1])
            joined = tokens_of("hello\\", "/help me\\", "now")
            self.assertEqual(tokens_of('"""hello', "/help me", 'now"""'), joined)


if __name__ == "__main__":
    unittest.main()
