"""/generate: goldens, batches, streams, log-probabilities as every front end reads them."""
import re
import unittest

from harness import GOLDEN, VOCABULARY, ServerCase, in_parallel

GREEDY = {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True}


class Generate(ServerCase):
    def test_greedy_output_and_logprobs_are_the_goldens(self):
        for prompt in GOLDEN["prompts"]:
            reply = self.server.generate(input_ids=prompt["tokens"], return_logprob=True,
                                         sampling_params={"temperature": 0, "max_new_tokens": 32, "ignore_eos": True})
            self.assertEqual(reply["output_ids"], prompt["greedy"])
            got = [entry[0] for entry in reply["meta_info"]["output_token_logprobs"]]
            for a, b in zip(got, prompt["greedy_logprobs"]):
                self.assertAlmostEqual(a, b, delta=2e-3)
            meta = reply["meta_info"]
            self.assertEqual(meta["prompt_tokens"], len(prompt["tokens"]))
            self.assertEqual(meta["completion_tokens"], 32)
            self.assertEqual(meta["finish_reason"], {"type": "length", "length": 32})
            for key in ("id", "cached_tokens", "e2e_latency", "num_retractions", "weight_version", "cached_tokens_details"):
                self.assertIn(key, meta)

    def test_prompt_logprobs_are_the_goldens(self):
        prompt = next(p for p in GOLDEN["prompts"] if p.get("prompt_logprobs"))
        meta = self.server.generate(input_ids=prompt["tokens"], return_logprob=True, logprob_start_len=0,
                                    sampling_params={"temperature": 0, "max_new_tokens": 0})["meta_info"]
        got = meta["input_token_logprobs"]
        self.assertEqual([entry[1] for entry in got], prompt["tokens"])
        self.assertIsNone(got[0][0])
        for entry, expected in list(zip(got, prompt["prompt_logprobs"]))[1:]:
            self.assertAlmostEqual(entry[0], expected, delta=2e-3)
        values = [entry[0] for entry in got[1:]]
        self.assertAlmostEqual(meta["normalized_prompt_logprob"], sum(values) / len(values), places=9)
        self.assertEqual(meta["finish_reason"], {"type": "length", "length": 0})

    def test_the_first_prompt_logprob_is_laid_out_for_every_front_end(self):
        ids = GOLDEN["prompts"][2]["tokens"]

        def entries(tokens, **more):
            meta = self.server.generate(input_ids=ids, return_logprob=True, **more,
                                        sampling_params={"temperature": 0, "max_new_tokens": tokens})["meta_info"]
            return meta["input_token_logprobs"]

        whole = entries(0)
        self.assertEqual(len(whole), len(ids), "a missing start means the whole prompt when nothing is generated")
        at5 = entries(0, logprob_start_len=5)
        self.assertEqual(at5, whole[5:], "no null but at position 0")
        old = entries(0, logprob_start_len=5, return_text_in_logprobs=True)
        self.assertEqual([e[:2] for e in old], [e[:2] for e in whole[6:]], "the layout that select() was written for")
        self.assertTrue(all(isinstance(e[2], str) for e in old))
        new = entries(1, logprob_start_len=5)
        self.assertEqual(new[0], [None, ids[5], None])
        self.assertEqual(new[1:], whole[6:])
        self.assertEqual(entries(1), [])

    def test_an_empty_text_is_taken_where_nothing_is_asked(self):
        # What SGLang 0.3's front end sends for a fork, and every version for a select, before anything was said.
        ready = self.server.generate(text="", sampling_params={"max_new_tokens": 0}, rid="mine")
        self.assertEqual((ready["text"], ready["output_ids"]), ("", []))
        meta = ready["meta_info"]
        self.assertEqual((meta["prompt_tokens"], meta["completion_tokens"], meta["id"]), (0, 0, "mine"))
        self.assertEqual(meta["finish_reason"], {"type": "length", "length": 0})
        nothing = {"max_new_tokens": 0}
        for body in ({"sampling_params": {"max_new_tokens": 1}}, {}, {"sampling_params": nothing, "return_logprob": True},
                     {"sampling_params": nothing, "stream": True}, {"sampling_params": {**nothing, "n": 2}},
                     {"sampling_params": {**nothing, "choices": ["a", "b"], "choices_method": "greedy_token_selection"}}):
            reply = self.server.post("/generate", {"text": "", **body})
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "text"), body)
        self.assertEqual(self.server.post("/generate", {"text": [""], "sampling_params": nothing}).status, 400)

    def test_a_list_of_null_is_as_if_it_were_not_there(self):
        # What the compile mode of SGLang's front end 0.3 and 0.4 sends for settings that the program leaves alone.
        unset = {"logprob_start_len": [None], "top_logprobs_num": [None], "return_text_in_logprobs": [None]}
        plain = self.server.generate(text="hello", sampling_params=GREEDY)
        self.assertEqual(self.server.generate(text="hello", sampling_params=GREEDY, **unset)["output_ids"], plain["output_ids"])
        self.assertEqual(self.server.generate(text=["hello"], sampling_params=GREEDY, **unset)[0]["text"], plain["text"])
        for value in ([1], [None, None], []):
            reply = self.server.post("/generate", {"text": "hello", "top_logprobs_num": value})
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "top_logprobs_num"), value)

    def test_branches_are_appended_by_their_text(self):
        # SGLang's front end joins the texts itself, asks the server to join what was computed, and sends the whole.
        parts = ["Before the fork, so much is said by one for all of them.", " The first branch goes on.", " And so does the other."]
        for part in parts[1:]:
            self.server.generate(text=parts[0] + part, sampling_params={"max_new_tokens": 0})
        reply = self.server.post("/concate_and_append_request", {"src_rids": ["a1", "b2"], "dst_rid": "c3"})
        self.assertEqual((reply.status, reply.json), (200, {}))
        joined = self.server.generate(text="".join(parts), sampling_params=GREEDY)
        self.assertEqual(joined["text"], self.server.generate(text="".join(parts), cache_salt="x", sampling_params=GREEDY)["text"])
        for body, field in (({"dst_rid": "c"}, "src_rids"), ({"src_rids": "a", "dst_rid": 1}, "dst_rid"),
                            ({"src_rids": [1], "dst_rid": "c"}, "src_rids"), ({"src_rids": ["a"]}, "dst_rid")):
            reply = self.server.post("/concate_and_append_request", body)
            self.assertEqual(reply.status, 400, body)
            self.assertTrue(reply.json["error"]["param"].startswith(field), reply.json)

    def test_whole_distributions_reach_every_position(self):
        ids = GOLDEN["prompts"][1]["tokens"]
        meta = self.server.generate(input_ids=ids, return_logprob=True, logprob_start_len=0, top_logprobs_num=VOCABULARY,
                                    sampling_params={"temperature": 0, "max_new_tokens": 2, "ignore_eos": True})["meta_info"]
        self.assertEqual(len(meta["input_top_logprobs"]), len(ids))
        self.assertIsNone(meta["input_top_logprobs"][0])
        for position in meta["input_top_logprobs"][1:] + meta["output_top_logprobs"]:
            self.assertEqual(len(position), VOCABULARY)
            values = [entry[0] for entry in position]
            self.assertEqual(values, sorted(values, reverse=True))
        top5 = GOLDEN["prompts"][1]["last_top5"]
        self.assertEqual([e[1] for e in meta["output_top_logprobs"][0][:5]], [t[0] for t in top5])

    def test_asked_ids_are_reported_at_every_position(self):
        meta = self.server.generate(input_ids=[1, 27, 131], return_logprob=True, logprob_start_len=0, token_ids_logprob=[7, 3],
                                    sampling_params=GREEDY)["meta_info"]
        self.assertEqual(len(meta["output_token_ids_logprobs"]), 8)
        self.assertEqual([e[1] for e in meta["output_token_ids_logprobs"][0]], [7, 3])
        self.assertEqual(len(meta["input_token_ids_logprobs"]), 3)

    def test_a_batch_answers_in_order_and_n_makes_lists(self):
        prompts = [p["tokens"] for p in GOLDEN["prompts"][:3]]
        single = [self.server.generate(input_ids=p, sampling_params=GREEDY)["output_ids"] for p in prompts]
        batch = self.server.generate(input_ids=prompts, sampling_params=GREEDY)
        self.assertEqual([r["output_ids"] for r in batch], single)
        double = self.server.generate(input_ids=prompts, sampling_params={**GREEDY, "n": 2}, rid="x")
        self.assertEqual([r["meta_info"]["id"] for r in double], [f"x_{i}_{j}" for i in range(3) for j in range(2)])
        self.assertEqual([r["output_ids"] for r in double], [s for s in single for _ in range(2)])
        self.assertIsInstance(self.server.generate(input_ids=[prompts[0]], sampling_params=GREEDY), list)
        mixed = self.server.generate(input_ids=prompts, rid=["a", "b", "c"], return_logprob=[True, False, True],
                                     sampling_params=[{**GREEDY, "max_new_tokens": k} for k in (1, 2, 3)])
        self.assertEqual([len(r["output_ids"]) for r in mixed], [1, 2, 3])
        self.assertEqual([r["meta_info"]["id"] for r in mixed], ["a", "b", "c"])
        self.assertEqual(["output_token_logprobs" in r["meta_info"] for r in mixed], [True, False, True])

    def test_a_stream_is_cumulative_and_ends_with_the_whole(self):
        body = {"text": "hello world", "return_logprob": True, "logprob_start_len": 0, "top_logprobs_num": 2,
                "sampling_params": {"temperature": 1, "sampling_seed": 7, "max_new_tokens": 24, "ignore_eos": True}}
        whole = self.server.generate(**body)
        events = self.server.post("/generate", {**body, "stream": True}).events
        self.assertEqual(events[-1], "[DONE]")
        texts = [e["text"] for e in events[:-1]]
        for before, after in zip(texts, texts[1:]):
            self.assertTrue(after.startswith(before), "clients slice by length")
        last = events[-2]
        for key in ("text", "output_ids"):
            self.assertEqual(last[key], whole[key])
        for key in ("input_token_logprobs", "output_token_logprobs", "input_top_logprobs", "output_top_logprobs", "finish_reason"):
            self.assertEqual(last["meta_info"][key], whole["meta_info"][key], key)
        self.assertTrue(all(e["meta_info"]["finish_reason"] is None for e in events[:-2]))

    def test_a_stream_tells_its_last_token_once(self):
        sampling = {"temperature": 1, "sampling_seed": 11, "max_new_tokens": 40, "ignore_eos": True}
        text = self.server.generate(text="abc", sampling_params=sampling)["text"]
        for more in ({"max_new_tokens": 5}, {"stop": [text[6:8]]}):
            events = self.server.post("/generate", {"text": "abc", "stream": True, "sampling_params": {**sampling, **more}}).events
            counts = [len(e["output_ids"]) for e in events[:-1]]
            self.assertEqual(counts, list(range(1, len(counts) + 1)))
            self.assertIsNotNone(events[-2]["meta_info"]["finish_reason"])

    def test_a_streamed_batch_carries_indices(self):
        events = self.server.post("/generate", {"input_ids": [[1], [1, 27]], "stream": True, "sampling_params": GREEDY}).events
        last = {e["index"]: e for e in events[:-1]}
        self.assertEqual(sorted(last), [0, 1])
        self.assertEqual(last[0]["output_ids"], GOLDEN["prompts"][0]["greedy"][:8])

    def test_the_prefix_is_reused_unless_salts_differ(self):
        ids = [(i * 7) % 300 + 8 for i in range(60)]
        sampling = {"temperature": 0, "max_new_tokens": 1, "ignore_eos": True}

        def cached(**more):
            return self.server.generate(input_ids=ids, sampling_params=sampling, **more)["meta_info"]["cached_tokens"]

        self.assertEqual(cached(), 0)
        self.assertEqual(cached(), len(ids) - 1)
        self.assertEqual(cached(cache_salt="tenant"), 0)
        self.assertEqual(cached(cache_salt="tenant"), len(ids) - 1)
        self.assertEqual(cached(extra_key="tenant"), 0)

    def test_stop_strings_end_the_text_and_are_trimmed(self):
        sampling = {"temperature": 1, "sampling_seed": 11, "max_new_tokens": 40, "ignore_eos": True}
        free = self.server.generate(text="abc", sampling_params=sampling)
        stop = free["text"][6:8]
        cut = self.server.generate(text="abc", sampling_params={**sampling, "stop": [stop]})
        at = free["text"].index(stop)
        self.assertEqual(cut["text"], free["text"][:at])
        self.assertEqual(cut["meta_info"]["finish_reason"], {"type": "stop", "matched": stop})
        kept = self.server.generate(text="abc", sampling_params={**sampling, "stop": stop, "no_stop_trim": True})
        self.assertEqual(kept["text"], free["text"][:at] + stop)
        token = free["output_ids"][3]
        ended = self.server.generate(text="abc", sampling_params={**sampling, "stop_token_ids": [token]})
        first = free["output_ids"].index(token)
        self.assertEqual(ended["output_ids"], free["output_ids"][:first + 1])
        self.assertEqual(ended["meta_info"]["finish_reason"], {"type": "stop", "matched": token})

    def test_patterns_end_the_text_at_their_first_match_however_it_is_asked_for(self):
        sampling = {"temperature": 1, "sampling_seed": 11, "max_new_tokens": 200, "ignore_eos": True}
        free = self.server.generate(text="abc", sampling_params=sampling)["text"]
        pattern = "[a-z][A-Z0-9]|[0-9]{2}"
        found = re.search(pattern, free)
        self.assertIsNotNone(found, free)
        for stop_regex in (pattern, [pattern], ["never@{9}", pattern]):
            cut = self.server.generate(text="abc", sampling_params={**sampling, "stop_regex": stop_regex})
            self.assertEqual(cut["text"], free[:found.start()])
            self.assertEqual(cut["meta_info"]["finish_reason"], {"type": "stop", "matched": pattern})
        body = {"text": "abc", "sampling_params": {**sampling, "stop_regex": pattern}}
        events = self.server.post("/generate", {**body, "stream": True}).events[:-1]
        self.assertEqual(events[-1]["text"], free[:found.start()])
        for event in events:
            self.assertTrue(events[-1]["text"].startswith(event["text"]), "nothing is told that is trimmed later")
        beside = in_parallel(6, lambda i: self.server.generate(**body)["text"])
        self.assertEqual(set(beside), {free[:found.start()]})
        kept = self.server.generate(text="abc", sampling_params={**sampling, "stop_regex": pattern, "no_stop_trim": True})
        self.assertEqual(kept["text"], free[:found.end()])
        # What ends first counts, be it a string or a match.
        both = self.server.generate(text="abc", sampling_params={**sampling, "stop_regex": pattern, "stop": free[1:3]})
        self.assertEqual(both["meta_info"]["finish_reason"]["matched"], free[1:3])
        completion = self.server.post("/v1/completions", {"prompt": "abc", "seed": 11, "max_tokens": 200, "ignore_eos": True,
                                                          "stop_regex": pattern}).json["choices"][0]
        self.assertEqual((completion["text"], completion["finish_reason"]), (free[:found.start()], "stop"))
        refused = self.server.post("/v1/completions", {"prompt": "abc", "stop_regex": "a("})
        self.assertEqual((refused.status, refused.json["error"]["param"]), (400, "stop_regex"))
        ended = self.server.post("/generate", {"text": "a", "sampling_params": {"stop_regex": "end$"}})
        self.assertEqual((ended.status, ended.json["error"]["param"]), (422, "sampling_params.stop_regex"))

    def test_wrong_requests_name_the_field(self):
        cases = [({}, "text"), ({"text": ""}, "text"), ({"text": "a", "input_ids": [1]}, "input_ids"),
                 ({"input_ids": [VOCABULARY]}, "input_ids"), ({"input_ids": [1] * 600}, "input_ids"),
                 ({"text": "a", "sampling_params": {"temperature": -1}}, "sampling_params.temperature"),
                 ({"text": "a", "sampling_params": {"regex": "a("}}, "sampling_params.regex"),
                 ({"text": "a", "sampling_params": {"min_new_tokens": 5, "max_new_tokens": 4}}, "sampling_params.min_new_tokens"),
                 ({"input_ids": [1, 2], "return_logprob": True, "logprob_start_len": 3}, "logprob_start_len"),
                 ({"input_ids": [1, 2], "return_logprob": True, "top_logprobs_num": VOCABULARY + 1}, "top_logprobs_num"),
                 ({"text": "a", "sampling_params": {"logit_bias": {"320": 1}}}, "sampling_params.logit_bias"),
                 ({"text": "a", "sampling_params": {"stop": 5}}, "sampling_params.stop"),
                 ({"text": "a", "sampling_params": {"stop": ["x"] * 17}}, "sampling_params.stop"),
                 ({"text": "a", "sampling_params": {"stop_token_ids": [VOCABULARY]}}, "sampling_params.stop_token_ids"),
                 ({"text": "a", "sampling_params": {"n": 10 ** 20}}, "sampling_params.n"),
                 ({"text": "a", "sampling_params": {"stop_regex": "a("}}, "sampling_params.stop_regex"),
                 ({"text": "a", "sampling_params": {"stop_regex": ["b", "a*"]}}, "sampling_params.stop_regex"),
                 ({"text": "a", "sampling_params": {"stop_regex": ["x"] * 17}}, "sampling_params.stop_regex"),
                 ({"text": "a", "sampling_params": {"stop_regex": "x" * 257}}, "sampling_params.stop_regex"),
                 ({"text": "a", "sampling_params": {"stop_regex": "(a|b)*a(a|b){12}"}}, "sampling_params.stop_regex"),
                 ({"text": "a", "sampling_params": {"stop_regex": 5}}, "sampling_params.stop_regex"),
                 ({"text": 5}, "text"), ({"text": ["a", 5]}, "text"), ({"text": ["a", "a" * 5000]}, "text[1]"),
                 ({"text": "a", "user": 5}, "user"),
                 ({"text": "a", "lora_path": 5}, "lora_path")]
        for body, field in cases:
            reply = self.server.post("/generate", body)
            self.assertEqual(reply.status, 400, (body, reply.body))
            self.assertEqual(reply.json["error"]["param"], field, reply.body)
        long = self.server.post("/generate", {"input_ids": [1] * 600}).json["error"]
        self.assertEqual(long["code"], "context_length_exceeded")
        self.assertIn("600", long["message"])
        self.assertEqual(self.server.post("/generate", b"{broken").json["error"]["code"], "invalid_json")

    def test_an_id_in_use_is_refused_and_can_be_aborted(self):
        refused = aborted = False
        for _ in range(100):  # the model is tiny: it may be done before the second request is there
            raw = self.server.open_stream("/generate", {"input_ids": [1], "rid": "mine", "stream": True, "sampling_params":
                                                        {"temperature": 0, "max_new_tokens": 500, "ignore_eos": True}})
            raw.recv(100)
            again = self.server.post("/generate", {"input_ids": [1], "rid": "mine", "sampling_params": GREEDY})
            self.assertEqual(self.server.post("/abort_request", {"rid": "mine"}).status, 200)
            if again.status != 200:
                self.assertEqual(again.json["error"]["param"], "rid")
                refused = True
            data = b""
            while b"[DONE]" not in data and (piece := raw.recv(65536)):
                data += piece
            raw.close()
            aborted = aborted or b'"type":"abort"' in data
            if refused and aborted:
                return
        self.fail(f"refused: {refused}, aborted: {aborted}")


if __name__ == "__main__":
    unittest.main()
