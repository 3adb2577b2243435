"""Runs commands: each is told on stderr, kept for the report, and may fail without ending the whole run."""
import shlex
import signal
import subprocess
import sys
import tempfile


class Failed(Exception):
    """A figure that did not come; the text says why in one line, `said` is all that the command wrote to stderr."""

    def __init__(self, reason, said=""):
        super().__init__(reason)
        self.said = said


def _last_words(text, most=300):
    return " | ".join(line.strip() for line in text.strip().splitlines()[-4:])[-most:]


def _ending(code):
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


class Runner:
    def __init__(self, timeout):
        self.timeout, self.commands = timeout, []

    def note(self, words):
        text = shlex.join(words)
        print(f"$ {text}", file=sys.stderr, flush=True)
        if text not in self.commands:
            self.commands.append(text)

    def run(self, words, passing_on=False):
        """What the command printed; `passing_on` sends that to stderr instead, as it comes."""
        self.note(words)
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            try:
                process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sys.stderr if passing_on else subprocess.PIPE,
                                           stderr=errors, text=True)
            except OSError as error:
                raise Failed(str(error)) from None
            printed = self._finish(process)
            errors.seek(0)
            said = errors.read()
        if process.returncode:
            raise Failed(": ".join(filter(None, (_ending(process.returncode), _last_words(said)))), said)
        return printed

    def _finish(self, process):
        """To its end, or to ours: then it has time to end the servers that it has launched."""
        try:
            return process.communicate(timeout=self.timeout)[0]
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as reason:
            process.terminate()
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
            if isinstance(reason, KeyboardInterrupt):
                raise
            raise Failed(f"not done after {self.timeout} s (--timeout)") from None
