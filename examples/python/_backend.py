"""Who answers the examples: the server of ESPALIER_BASE_URL or OPENAI_BASE_URL, else the default model in this process."""

import os

import espalier as sgl


def open_backend():
    """The back end for an example, also set as the process's default one.

    A server that speaks Espalier's or SGLang's own interface is used by it, with the key of ESPALIER_API_KEY or
    OPENAI_API_KEY; any other by OpenAI's, with the model of OPENAI_MODEL. The model in process is that of ESPALIER_MODEL
    (smollm2-135m), computed with ESPALIER_ACTIVATIONS (int8; f32: exact, the same on every processor).
    """
    url = os.environ.get("ESPALIER_BASE_URL") or os.environ.get("OPENAI_BASE_URL")
    backend = _server(url) if url else _model()
    sgl.set_default_backend(backend)
    return backend


def _model():
    return sgl.Engine(model_path=os.environ.get("ESPALIER_MODEL", "smollm2-135m"),
                      activations=os.environ.get("ESPALIER_ACTIVATIONS", "int8"))


def _server(url):
    root = url.rstrip("/").removesuffix("/v1")
    try:
        return sgl.RuntimeEndpoint(root, os.environ.get("ESPALIER_API_KEY") or os.environ.get("OPENAI_API_KEY"))
    except sgl.ProgramError as error:
        if error.kind == "network":  # nobody is there
            raise
        return sgl.OpenAI(os.environ.get("OPENAI_MODEL", "default"), base_url=root + "/v1")
