"""ask.py PORT [--ready]: is the server there; one chat answer, streamed, whose text and end are checked. Exit 1: no."""
import json
import sys
import urllib.request

address = f"http://127.0.0.1:{sys.argv[1]}"
if "--ready" in sys.argv:
    try:
        urllib.request.urlopen(address + "/readyz", timeout=5).close()
    except OSError:
        sys.exit(1)
    sys.exit(0)

body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
call = urllib.request.Request(address + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
lines = urllib.request.urlopen(call, timeout=60).read().decode().split("\n\n")
events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
text = "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
usage = next(event["usage"] for event in events if event.get("usage"))
if "data: [DONE]" not in lines or not text or usage["completion_tokens"] != 8:
    sys.exit(f"not an answer: {lines}")
page = urllib.request.urlopen(address + "/", timeout=5).read()
if b"<html" not in page:
    sys.exit("no page at /")
print(f"{usage['completion_tokens']} tokens streamed, a page of {len(page)} bytes")
