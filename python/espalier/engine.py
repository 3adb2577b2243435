"""An engine in this process: offline batches without a server, and a back end for programs."""

from __future__ import annotations

import atexit
import json
from typing import Any, AsyncIterator, Coroutine, Iterator, Literal, Optional, Sequence, Union, overload

from espalier import _espalier
from espalier.errors import ProgramError, error_of_reply
from espalier.flags import flags
from espalier.http_calls import events_of, read_reply
from espalier.lang.backend.base_backend import BaseBackend
from espalier.runtime import ServerTokenizer, told
from espalier.waiting import ready

Reply = Any  # {"text", "output_ids", "meta_info"}, or a list of such
Prompt = Union[str, Sequence[str]]


class _Call:
    """One request to the engine's routes; dropping it cancels it."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def wait(self) -> Any:
        while not self._native.ended:
            self._native.wait()
        return self._reply()

    async def wait_async(self) -> Any:
        while not self._native.ended:
            await ready(self._native)
            self._native.take()
        return self._reply()

    def events(self) -> Iterator[Any]:
        rest = b""
        while not (self._native.ended and not rest):
            self._native.wait()
            lines, rest = self._lines(rest)
            yield from events_of(lines)

    async def events_async(self) -> AsyncIterator[Any]:
        rest = b""
        while not (self._native.ended and not rest):
            await ready(self._native)
            self._native.take()
            lines, rest = self._lines(rest)
            for event in events_of(lines):
                yield event

    def _lines(self, rest: bytes) -> tuple[list[bytes], bytes]:
        if self._native.status >= 400:
            while not self._native.ended:
                self._native.wait()
            self._reply()
        if self._native.ended and not self._native.whole:
            self._reply()
        *lines, rest = (rest + self._native.body()).split(b"\n")
        return lines, b"" if self._native.ended else rest

    def _reply(self) -> Any:
        if not self._native.whole:
            raise ProgramError("the engine was shut down before it had answered", "cancelled")
        return read_reply(self._native.status, self._native.body())


class _PooledCall:
    """A call for vectors or scores."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    def wait_for(self) -> Any:
        try:
            return self._call.wait()
        except ProgramError as refusal:
            raise told(refusal) from refusal

    async def wait_for_async(self) -> Any:
        try:
            return await self._call.wait_async()
        except ProgramError as refusal:
            raise told(refusal) from refusal


class _Routes:
    """What :class:`espalier.http_calls.HttpServer` is, inside the process."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def begin(self, method: str, path: str, body: Optional[dict[str, Any]] = None) -> _Call:
        return _Call(self._native.call(method, path, "" if body is None else json.dumps(body)))

    def json(self, method: str, path: str, body: Optional[dict[str, Any]] = None) -> Any:
        return self.begin(method, path, body).wait()


class EngineEndpoint(BaseBackend):
    """The back end that an engine is."""

    def __init__(self, native: Any, routes: _Routes) -> None:
        super().__init__(native.backend(""))
        self._engine = native
        self._routes = routes

    def _take_template(self, name: str) -> None:
        self._set_native(self._engine.backend(name))

    def get_server_info(self) -> dict[str, Any]:
        """All arguments as they turned out, and what runs."""
        info: dict[str, Any] = self._routes.json("GET", "/get_server_info")
        return info

    def get_model_name(self) -> str:
        """The path of the model."""
        return str(self._routes.json("GET", "/get_model_info")["model_path"])


class Engine:
    """A model in this process.

        with Engine(model_path="smollm2-135m") as engine:
            engine.generate("The capital of France is", {"max_new_tokens": 8})["text"]

    It is also a back end: ``espalier.set_default_backend(engine)``. Replies are those of ``/generate``; no server is
    involved, no second process, and no ``if __name__ == "__main__"`` is needed.
    """

    def __init__(self, model_path: Optional[str] = None, **server_args: Any) -> None:
        """Loads the model; a name is fetched when it is not here.

        Args:
            model_path: a name ("smollm2-135m"), a GGUF file, a folder, or "org/name" of a hub.
            chat_template: of programs: a name ("chatml", "llama-3-instruct", ...); or a Jinja file. Default: the model's.
            server_args: further flags of ``espalier serve`` with underscores: ``context_length``, ``max_total_tokens``,
                ``max_running_requests``, ``chunked_prefill_size``, ``schedule_policy``, ``kv_cache_dtype``, ``threads``,
                ``random_seed``, ``load_format``, ``lora_paths``, ... What only tunes other engines is accepted.

        Raises:
            ProgramError: a flag that is unknown or cannot be honoured, or a model that cannot be loaded.
        """
        given = dict(server_args)
        given.pop("log_level", None)
        if isinstance(given.get("lora_paths"), dict):  # {name: path}
            given["lora_paths"] = [f"{lora}={path}" for lora, path in given["lora_paths"].items()]
        name = model_path if model_path is not None else given.pop("model", None)
        arguments: dict[str, Any] = {"model_path": name, "cache_disk": 0, **given}
        template = str(given.get("chat_template") or "")
        known = template in _espalier.chat_format_names()
        if known:  # for programs only; /generate takes text as it is
            del arguments["chat_template"]
        self._native: Any = _espalier.Engine(flags(arguments), template if known else "")
        self._routes = _Routes(self._native)
        self._endpoint: Optional[EngineEndpoint] = None
        atexit.register(self.shutdown)

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: Any) -> None:
        self.shutdown()

    def shutdown(self) -> None:
        """Ends it: what runs is cancelled, the memory given back. A second call does nothing."""
        atexit.unregister(self.shutdown)
        if self._native is not None:
            self._endpoint = None
            self._native.shutdown()

    @property
    def endpoint(self) -> EngineEndpoint:
        """The back end for programs."""
        if self._endpoint is None:
            self._endpoint = EngineEndpoint(self._native, self._routes)
        return self._endpoint

    def get_tokenizer(self) -> ServerTokenizer:
        """The model's tokenizer."""
        return ServerTokenizer(self._routes)

    # One argument a field of /generate; see reference of that route in docs/http.md.
    def _body(self, prompt: Optional[Prompt], input_ids: Any, more: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = {"text": prompt, "input_ids": input_ids, **more}
        return {name: value for name, value in body.items() if value is not None}

    @overload
    def generate(
        self,
        prompt: Optional[Prompt] = None,
        sampling_params: Optional[Any] = None,
        *,
        stream: Literal[True],
        **fields: Any,
    ) -> Iterator[Reply]: ...
    @overload
    def generate(
        self,
        prompt: Optional[Prompt] = None,
        sampling_params: Optional[Any] = None,
        input_ids: Optional[Any] = None,
        image_data: Optional[Any] = None,
        return_logprob: Optional[Any] = None,
        logprob_start_len: Optional[Any] = None,
        top_logprobs_num: Optional[Any] = None,
        token_ids_logprob: Optional[Any] = None,
        lora_path: Optional[Any] = None,
        custom_logit_processor: Optional[Any] = None,
        return_hidden_states: Optional[Any] = None,
        stream: bool = False,
        **fields: Any,
    ) -> Reply: ...
    def generate(
        self,
        prompt: Optional[Prompt] = None,
        sampling_params: Optional[Any] = None,
        input_ids: Optional[Any] = None,
        image_data: Optional[Any] = None,
        return_logprob: Optional[Any] = None,
        logprob_start_len: Optional[Any] = None,
        top_logprobs_num: Optional[Any] = None,
        token_ids_logprob: Optional[Any] = None,
        lora_path: Optional[Any] = None,
        custom_logit_processor: Optional[Any] = None,
        return_hidden_states: Optional[Any] = None,
        stream: bool = False,
        **fields: Any,
    ) -> Any:
        """Continues a prompt, or each of a list.

        Args:
            prompt: text, or a list.
            sampling_params: a dict ({"max_new_tokens": 128, "temperature": 1.0, "stop": ..., "regex": ...}), or one
                for each prompt.
            input_ids: token ids in place of text.
            return_logprob: log-probabilities in ``meta_info``; so do the following.
            logprob_start_len: of the prompt from that position on; -1: none.
            top_logprobs_num: so many likeliest tokens at each position.
            token_ids_logprob: of these tokens at each position.
            lora_path: the name of a LoRA adapter, or a list with one or None for each prompt.
            stream: gives an iterator of replies, each with all text so far.
            fields: further fields of ``/generate``: ``rid``, ``priority``, ``cache_salt``, ``choices``, ``segments``, ...

        Returns:
            ``{"text", "output_ids", "meta_info"}``, or a list of them in order.

        Raises:
            ProgramError: what is refused; a ValueError where a value is wrong.
        """
        call = self._begin(locals())
        return call.events() if stream else call.wait()

    def async_generate(
        self,
        prompt: Optional[Prompt] = None,
        sampling_params: Optional[Any] = None,
        input_ids: Optional[Any] = None,
        image_data: Optional[Any] = None,
        return_logprob: Optional[Any] = None,
        logprob_start_len: Optional[Any] = None,
        top_logprobs_num: Optional[Any] = None,
        token_ids_logprob: Optional[Any] = None,
        lora_path: Optional[Any] = None,
        custom_logit_processor: Optional[Any] = None,
        return_hidden_states: Optional[Any] = None,
        stream: bool = False,
        **fields: Any,
    ) -> Coroutine[Any, Any, Any]:
        """:meth:`generate` for an event loop: a reply, or with ``stream`` an async iterator of replies."""
        call = self._begin(locals())

        async def result() -> Any:
            return call.events_async() if stream else await call.wait_async()

        return result()

    def _begin(self, given: dict[str, Any]) -> _Call:
        given = {**given.pop("fields"), **{k: v for k, v in given.items() if k != "self"}}
        body = self._body(given.pop("prompt"), given.pop("input_ids"), given)
        if not body.get("stream"):
            body.pop("stream", None)
        return self._routes.begin("POST", "/generate", body)

    def encode(self, prompt: Optional[Any] = None, input_ids: Optional[Any] = None, **fields: Any) -> Reply:
        """Vectors of texts, or the scores of a classifier.

        Args:
            prompt: a text, a list of texts, or for a model that reads pairs a list of ``[first, second]``.
            input_ids: token ids instead, or a list of such.
            fields: further ones of ``/encode``: ``dimensions``, ``prompt_name``, ``normalize``, ``truncate``, ...

        Returns:
            ``{"embedding", "meta_info"}``, or a list of them in order.

        Raises:
            NotImplementedError: the model generates text (``is_embedding=True`` makes an embedding model of it).
        """
        return self._pooled("/encode", {**self._texts(prompt, input_ids), **fields}).wait_for()

    async def async_encode(self, prompt: Optional[Any] = None, input_ids: Optional[Any] = None, **fields: Any) -> Reply:
        """:meth:`encode` for an event loop."""
        return await self._pooled("/encode", {**self._texts(prompt, input_ids), **fields}).wait_for_async()

    def embed(self, texts: Prompt, dimensions: Optional[int] = None, **fields: Any) -> list[list[float]]:
        """The vectors of texts, in order; of one text a list of one.

        Args:
            texts: a text or a list of texts.
            dimensions: only the first so many values of each vector (Matryoshka).
            fields: further ones of ``/v1/embeddings``: ``prompt_name``, ``input_type``, ``normalize``, ``truncate``, ...

        Raises:
            ProgramError: a text that cannot be embedded; the message names it.
            NotImplementedError: the model generates text.
        """
        body = {"input": texts if isinstance(texts, str) else list(texts), **fields}
        if dimensions is not None:
            body["dimensions"] = dimensions
        data = self._pooled("/v1/embeddings", body).wait_for()["data"]
        for entry in data:
            if "error" in entry:
                raise error_of_reply(400, entry)
        return [entry["embedding"] for entry in data]

    def rerank(
        self, query: str, documents: Sequence[str], top_n: Optional[int] = None, **fields: Any
    ) -> list[dict[str, Any]]:
        """Documents by how well they answer a query, best first: ``{"index", "relevance_score", "document"}`` of each.

        A cross-encoder reads both, an embedding model compares their vectors, and a generating reranker is asked.
        """
        body: dict[str, Any] = {"query": query, "documents": list(documents), **fields}
        if top_n is not None:
            body["top_n"] = top_n
        results: list[dict[str, Any]] = self._pooled("/v1/rerank", body).wait_for()["results"]
        return results

    @staticmethod
    def _texts(prompt: Optional[Any], input_ids: Optional[Any]) -> dict[str, Any]:
        return {"text": prompt} if input_ids is None else {"input_ids": input_ids}

    def _pooled(self, path: str, body: dict[str, Any]) -> "_PooledCall":
        return _PooledCall(self._routes.begin("POST", path, body))

    def flush_cache(self) -> bool:
        """Empties the prefix cache.

        Raises:
            ProgramError: something runs or waits.
        """
        self._routes.json("POST", "/flush_cache")
        return True

    def get_server_info(self) -> dict[str, Any]:
        """All arguments as they turned out, and what runs."""
        return self.endpoint.get_server_info()

    def get_model_info(self) -> dict[str, Any]:
        """What the model is."""
        info: dict[str, Any] = self._routes.json("GET", "/get_model_info")
        return info

    def load_lora_adapter(self, lora_name: str, lora_path: str, pinned: bool = False) -> dict[str, Any]:
        """Reads a LoRA adapter, which ``lora_path=lora_name`` of :meth:`generate` names from then on.

        Args:
            lora_name: what it is to be called.
            lora_path: a PEFT folder or a .gguf file.
            pinned: it does not leave the memory for others.

        Raises:
            ProgramError: a file that is no adapter, or none for this model; a name that there is already.
        """
        body = {"lora_name": lora_name, "lora_path": str(lora_path), "pinned": pinned}
        reply: dict[str, Any] = self._routes.json("POST", "/load_lora_adapter", body)
        return reply

    def unload_lora_adapter(self, lora_name: str) -> dict[str, Any]:
        """Forgets a LoRA adapter; requests that use it end as if nothing had happened.

        Raises:
            ProgramError: there is none of that name.
        """
        reply: dict[str, Any] = self._routes.json("POST", "/unload_lora_adapter", {"lora_name": lora_name})
        return reply

    def open_session(self, capacity_of_str_len: int, session_id: Optional[str] = None) -> str:
        """Opens a session; its id."""
        body = {"capacity_of_str_len": capacity_of_str_len, "session_id": session_id}
        return str(self._routes.json("POST", "/open_session", {k: v for k, v in body.items() if v is not None}))

    def close_session(self, session_id: str) -> None:
        """Closes a session."""
        self._routes.json("POST", "/close_session", {"session_id": session_id})
