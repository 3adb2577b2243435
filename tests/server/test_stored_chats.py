"""Chat completions that are kept (`store`): asked for again, listed, changed, deleted, there after a SIGKILL."""
import shutil
import tempfile
import unittest

from harness import Server
from test_tools import SHOWS, TOOLS

try:
    import openai
except ImportError:
    openai = None

USER = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is the weather?"}]


class StoredChats(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.data, True)

    def server(self, *flags):
        server = Server("--chat-template", SHOWS, "--data-dir", self.data, *flags)
        self.addCleanup(server.kill)
        return server

    def ask(self, server, **more):
        body = {"messages": USER, "temperature": 0, "max_tokens": 8, "store": True, "metadata": {"from": "test"}, **more}
        return server.post("/v1/chat/completions", body)

    def test_an_answer_is_there_after_the_server_was_killed(self):
        server = self.server()
        whole = self.ask(server).json
        events = self.ask(server, stream=True, tools=TOOLS, tool_choice="required", max_tokens=200).events
        streamed = [e for e in events if e != "[DONE]"]
        server.process.kill()
        server.process.wait()
        server = self.server()
        kept = server.get(f"/v1/chat/completions/{whole['id']}").json
        self.assertEqual((kept["choices"], kept["usage"], kept["metadata"]), (whole["choices"], whole["usage"], {"from": "test"}))
        self.assertEqual((kept["temperature"], kept["seed"]), (0, None))
        calls = [c for e in streamed for one in e["choices"] for c in one["delta"].get("tool_calls") or [] if "id" in c]
        kept = server.get(f"/v1/chat/completions/{streamed[0]['id']}").json["choices"][0]
        self.assertEqual([c["id"] for c in kept["message"]["tool_calls"]], [c["id"] for c in calls])
        self.assertEqual(kept["finish_reason"], "tool_calls")

    def test_they_are_listed_in_pages_changed_and_deleted(self):
        server = self.server()
        ids = [self.ask(server, metadata={"n": str(i % 2)}).json["id"] for i in range(5)]
        self.ask(server, store=False)
        first = server.get("/v1/chat/completions?limit=2").json
        self.assertEqual(([one["id"] for one in first["data"]], first["has_more"], first["last_id"]), (ids[:2], True, ids[1]))
        rest = server.get(f"/v1/chat/completions?after={ids[1]}").json
        self.assertEqual([one["id"] for one in rest["data"]], ids[2:])
        newest = server.get("/v1/chat/completions?order=desc&metadata[n]=1").json
        self.assertEqual([one["id"] for one in newest["data"]], [ids[3], ids[1]])
        changed = server.post(f"/v1/chat/completions/{ids[0]}", {"metadata": {"seen": "yes"}}).json
        self.assertEqual(server.get(f"/v1/chat/completions/{ids[0]}").json, changed)
        messages = server.get(f"/v1/chat/completions/{ids[0]}/messages").json["data"]
        self.assertEqual([(m["role"], m["content"]) for m in messages], [(m["role"], m["content"]) for m in USER])
        self.assertEqual(messages[1]["id"], f"{ids[0]}-1")
        gone = server.request("DELETE", f"/v1/chat/completions/{ids[0]}")
        self.assertEqual(gone.json, {"object": "chat.completion.deleted", "id": ids[0], "deleted": True})
        for again in (server.get(f"/v1/chat/completions/{ids[0]}"), server.request("DELETE", f"/v1/chat/completions/{ids[0]}"),
                      server.get("/v1/chat/completions/chatcmpl-none/messages")):
            self.assertEqual((again.status, again.json["error"]["code"]), (404, "completion_not_found"))
        self.assertEqual(server.post(f"/v1/chat/completions/{ids[1]}", {"metadata": {"n": 1}}).json["error"]["param"], "metadata")
        self.assertEqual(server.get("/v1/chat/completions?order=up").json["error"]["param"], "order")

    def test_they_belong_to_the_key_that_made_them(self):
        server = self.server("--api-key", "a", "--api-key", "b")
        made = server.post("/v1/chat/completions", {"messages": USER, "max_tokens": 4, "store": True}, headers={"Authorization": "Bearer a"}).json
        for key, status in (("a", 200), ("b", 404)):
            self.assertEqual(server.get(f"/v1/chat/completions/{made['id']}", headers={"Authorization": f"Bearer {key}"}).status, status)

    @unittest.skipIf(openai is None, "OpenAI's client is not installed")
    def test_openais_client_has_them_all(self):
        server = self.server()
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none").chat.completions
        made = client.create(model="default", messages=USER, max_tokens=4, store=True, metadata={"a": "b"})
        self.assertEqual(client.retrieve(made.id).choices[0].message.content, made.choices[0].message.content)
        self.assertEqual([one.id for one in client.list()], [made.id])
        self.assertEqual(client.update(made.id, metadata={"c": "d"}).metadata, {"c": "d"})
        self.assertEqual([m.content for m in client.messages.list(made.id)], [m["content"] for m in USER])
        self.assertTrue(client.delete(made.id).deleted)


if __name__ == "__main__":
    unittest.main()
