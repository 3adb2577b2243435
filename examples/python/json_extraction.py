"""Facts out of running text, as JSON that always fits its schema."""

import json

import _backend
import espalier as sgl

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "population": {"type": "integer", "minimum": 0, "maximum": 99999999},
        "capital": {"type": "boolean"},
        "rivers": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 3},
    },
    "required": ["name", "population", "capital", "rivers"],
}
TEXTS = (
    "Vienna, the capital of Austria, has about two million inhabitants and lies on the Danube.",
    "Basel on the Rhine is a city of 177,000 people.",
)


@sgl.function
def extract(s, text):
    s += sgl.user("Extract the city as JSON: " + text)
    s += sgl.assistant(sgl.gen("city", json_schema=json.dumps(SCHEMA), max_tokens=512))


if __name__ == "__main__":
    backend = _backend.open_backend()
    for state in extract.run_batch([{"text": t} for t in TEXTS], temperature=0, backend=backend):
        city = json.loads(state["city"])
        print(city, "| tokens that needed no choice:", state.get_meta_info("city").get("forced_tokens"))
