"""A server in a process of its own, as SGLang's ``Runtime``."""

from __future__ import annotations

import atexit
import json
import re
import subprocess
import sys
import threading
import time
from typing import Any, AsyncIterator, Optional, Sequence, Union

from espalier.errors import DeadlineError, ProgramError, UnsupportedError
from espalier.flags import flags
from espalier.http_calls import HttpServer
from espalier.lang.backend.runtime_endpoint import RuntimeEndpoint
from espalier.program_file import program_file

_READY = re.compile(r"espalier: ready on (http://\S+)")


class _Process:
    """``espalier serve`` and what it says on stderr, which goes on to ours."""

    def __init__(self, words: list[str], quiet: bool) -> None:
        # The server ends with its input, a pipe of which only this process holds the other end: so also when this one is
        # killed. (PR_SET_PDEATHSIG would end it with the thread that started it.)
        self.process = subprocess.Popen(
            [program_file(), "serve", "--end-with-stdin", *words],
            start_new_session=True,  # Ctrl-C is for this program, and the server ends with it
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._quiet = quiet
        self._said: list[str] = []
        self._url: Optional[str] = None
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, name="espalier-server-log", daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = _READY.search(line)
            with self._changed:
                self._url = found.group(1) if found else self._url
                self._said = [*self._said[-50:], line]
                self._changed.notify_all()
            if not self._quiet:
                sys.stderr.write(line)
        with self._changed:
            self._changed.notify_all()

    def wait_ready(self, seconds: float) -> str:
        end = time.monotonic() + seconds
        with self._changed:
            while self._url is None and self.process.poll() is None and time.monotonic() < end:
                self._changed.wait(0.2)
            if self._url is not None:
                return self._url
            said = "".join(self._said).strip()
        ended = self.process.poll()
        self.stop()
        what = said or "it said nothing"
        if ended is None:
            raise DeadlineError(f"the server was not ready within {seconds:g} s: {what}", "timeout", "launch_timeout")
        raise ProgramError(f"the server ended with exit code {ended}: {what}", "unavailable")

    def stop(self, seconds: float = 10) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


class Runtime:
    """Starts ``espalier serve`` on a free port and waits until it is ready; :meth:`shutdown` (or the end of the
    program, or of a ``with`` block) ends it.

    Attributes:
        url: its address.
        generate_url: its ``/generate``.
        endpoint: the back end for programs.
        pid: of the process.
    """

    def __init__(
        self, log_level: str = "error", launch_timeout: float = 300, *, timeout: Optional[float] = None, **server_args: Any
    ) -> None:
        """Starts it.

        Args:
            log_level: of the server; at "error" nothing it says is shown.
            launch_timeout: seconds that loading may take; ``timeout`` is the same.
            server_args: flags of ``espalier serve``, with underscores: ``model_path``, ``max_total_tokens``, ...

        Raises:
            ProgramError: it ended before it was ready; with what it said.
            TimeoutError: it was not ready in that time.
        """
        arguments: dict[str, Any] = {"port": 0, **server_args, "log_level": log_level}
        self._args = server_args
        self._process = _Process(flags(arguments), quiet=log_level == "error")
        atexit.register(self.shutdown)
        self.url = self._process.wait_ready(launch_timeout if timeout is None else timeout)
        self.pid = self._process.process.pid
        self.generate_url = self.url + "/generate"
        key = server_args.get("api_key")
        self._server = HttpServer(self.url, key)
        self.endpoint = RuntimeEndpoint(self.url, key)

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(self, *_: Any) -> None:
        self.shutdown()

    def shutdown(self) -> None:
        """Ends the server; a second call does nothing."""
        atexit.unregister(self.shutdown)
        self._process.stop()

    def cache_prefix(self, prefix: str) -> None:
        """Computes a text, so that what begins with it finds it in the prefix cache."""
        self.endpoint.cache_prefix(prefix)

    def start_profile(self) -> None:
        """``/start_profile``, where the server has it."""
        self.endpoint.start_profile()

    def stop_profile(self) -> None:
        """``/stop_profile``, where the server has it."""
        self.endpoint.stop_profile()

    def get_tokenizer(self) -> "ServerTokenizer":
        """The server's tokenizer."""
        return ServerTokenizer(self._server)

    def generate(
        self,
        prompt: Union[str, Sequence[str]],
        sampling_params: Optional[dict[str, Any]] = None,
        return_logprob: Optional[Union[bool, Sequence[bool]]] = False,
        logprob_start_len: Optional[Union[int, Sequence[int]]] = None,
        top_logprobs_num: Optional[Union[int, Sequence[int]]] = None,
        lora_path: Optional[Any] = None,
        session_id: Optional[str] = None,
    ) -> str:
        """The reply of ``/generate`` as JSON text, as SGLang's Runtime gives it.

        Raises:
            ProgramError: what the server refuses.
        """
        body: dict[str, Any] = {
            "text": prompt,
            "sampling_params": sampling_params or {},
            "return_logprob": return_logprob,
            "logprob_start_len": logprob_start_len,
            "top_logprobs_num": top_logprobs_num,
            "lora_path": lora_path,
            "session_id": session_id,
        }
        reply = self._server.json("POST", "/generate", {k: v for k, v in body.items() if v is not None})
        return json.dumps(reply)

    async def async_generate(
        self, prompt: str, sampling_params: Optional[dict[str, Any]] = None, session_id: Optional[str] = None
    ) -> AsyncIterator[str]:
        """``async for`` over the pieces of the text of one prompt."""
        body: dict[str, Any] = {"text": prompt, "sampling_params": sampling_params or {}, "stream": True}
        if session_id is not None:
            body["session_id"] = session_id
        seen = 0
        async for event in self._server.async_events("/generate", body):
            piece = event["text"][seen:]
            seen += len(piece)
            if piece:
                yield piece

    add_request = async_generate

    async def get_server_info(self) -> dict[str, Any]:
        """What ``/get_server_info`` tells."""
        info: dict[str, Any] = await self._server.async_json("GET", "/get_server_info")
        return info

    def encode(self, prompt: Union[str, Sequence[str]]) -> str:
        """The reply of ``/encode`` as JSON text.

        Raises:
            NotImplementedError: the model generates text (``--is-embedding`` makes an embedding model of it).
        """
        try:
            return json.dumps(self._server.json("POST", "/encode", {"text": prompt}))
        except ProgramError as refusal:
            raise told(refusal) from refusal


def told(refusal: ProgramError) -> ProgramError:
    """A refusal to embed by a model that generates text is a NotImplementedError."""
    return UnsupportedError(refusal.message, "unsupported", refusal.field, refusal.code) if "--is-embedding" in str(refusal) else refusal


class ServerTokenizer:
    """A server's tokenizer, by its routes ``/tokenize`` and ``/detokenize``."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text."""
        body = {"prompt": text, "add_special_tokens": add_special_tokens}
        ids: list[int] = self._server.json("POST", "/tokenize", body)["tokens"]
        return ids

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of ids."""
        body = {"tokens": list(token_ids), "skip_special_tokens": skip_special_tokens}
        return str(self._server.json("POST", "/detokenize", body)["text"])

    def apply_chat_template(
        self, conversation: Sequence[dict[str, Any]], tokenize: bool = True, add_generation_prompt: bool = False
    ) -> Union[str, list[int]]:
        """Messages as the model's chat template renders them: ids, or their text."""
        body = {"messages": list(conversation), "add_generation_prompt": add_generation_prompt}
        ids: list[int] = self._server.json("POST", "/tokenize", body)["tokens"]
        return ids if tokenize else self.decode(ids)
