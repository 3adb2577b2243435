"""The Ray Serve deployment of python/espalier/serve.py: with Ray where it is installed, else its replica alone, called as
Ray calls it. Needs the Python package that a release build makes (build/release/python)."""
import asyncio
import importlib.util
import json
import os
import sys
import types
import unittest
from unittest import mock

from served import BINARY, MODEL, NAME, SHORT, SOURCE

ARGS = {"model": str(MODEL), "served_model_name": NAME, "chat_template": SHORT, "threads": 1, "activations": "f32"}
GREEDY = {"max_new_tokens": 12, "temperature": 0}


def load():
    """espalier.serve, of the package that was built."""
    sys.path.insert(0, os.environ.get("ESPALIER_PYTHON_PACKAGE", str(SOURCE / "build" / "release" / "python")))
    os.environ["ESPALIER_BINARY"] = BINARY
    try:
        import espalier.serve
    except ImportError as failure:
        raise unittest.SkipTest(f"the Python package is not built ({failure})") from None
    return espalier.serve


class Request:
    """What Starlette hands to a deployment."""

    def __init__(self, method, path, body=None):
        self.method, self.url = method, types.SimpleNamespace(path=path, query="")
        self.headers = {"Content-Type": "application/json", "Host": "ray"}
        self._body = b"" if body is None else json.dumps(body).encode()

    async def body(self):
        return self._body


class RayServe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.serve = load()

    def test_a_replica_passes_on_what_its_server_says(self):
        async def ask():
            replica = self.serve.Replica(ARGS)
            try:
                await replica.check_health()
                said = await replica.generate(types.SimpleNamespace(prompt="Once upon", sampling_params=GREEDY))
                body = {"text": "Once upon", "sampling_params": GREEDY}
                whole = await replica(Request("POST", "/generate", body))
                whole_text = b"".join([piece async for piece in whole.body_iterator])
                streamed = await replica(Request("POST", "/generate", {**body, "stream": True}))
                events = b"".join([piece async for piece in streamed.body_iterator])
                missing = await replica(Request("GET", "/no-such-route"))
                await replica._session.close()
                return said, whole.status_code, json.loads(whole_text), streamed.headers["content-type"], events, missing.status_code
            finally:
                replica._server.shutdown()

        said, status, whole, kind, events, missing = asyncio.run(ask())
        last = [line for line in events.decode().split("\n") if line.startswith("data: {")][-1]
        self.assertEqual((status, missing), (200, 404))
        self.assertEqual(whole["text"], said["text"])
        self.assertEqual(json.loads(last[6:])["text"], said["text"])
        self.assertTrue(kind.startswith("text/event-stream"))

    def test_the_deployment_has_its_options(self):
        told = {}

        class Deployed:
            def options(self, **options):
                told.update(options)
                return self

            def bind(self, args):
                return args

        fake = types.ModuleType("ray.serve")
        fake.deployment = lambda replica: Deployed()
        with mock.patch.dict(sys.modules, {"ray": types.ModuleType("ray"), "ray.serve": fake}):
            self.assertEqual(self.serve.deployment(ARGS, num_replicas=3), ARGS)
        self.assertEqual((told["num_replicas"], told["name"]), (3, "espalier"))

    @unittest.skipIf(importlib.util.find_spec("ray") is None, "Ray is not installed (pip install 'ray[serve]')")
    def test_ray_serves_two_replicas(self):
        import ray
        from ray import serve

        ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", object_store_memory=100 << 20,
                 runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path), "ESPALIER_BINARY": BINARY}})
        self.addCleanup(ray.shutdown)
        self.addCleanup(serve.shutdown)
        handle = serve.run(self.serve.deployment(ARGS, num_replicas=2, ray_actor_options={"num_cpus": 0.1}), route_prefix=None)
        asked = [types.SimpleNamespace(prompt=f"Once upon {i % 3}", sampling_params=GREEDY) for i in range(12)]
        replies = [reply.result() for reply in [handle.generate.remote(one) for one in asked]]
        texts = [reply["text"] for reply in replies]
        self.assertEqual(texts, texts[:3] * 4)


if __name__ == "__main__":
    unittest.main()
