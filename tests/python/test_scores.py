"""score(), rerank() and embed(): a reranker and an embedding model in process and behind a server, alone and beside a model that
generates. The numbers are those of Engine.rerank() and Engine.embed(), which are the routes'."""

import math

import pytest

import espalier as sgl
from small_model import ARGUMENTS, SOURCE

MODELS = SOURCE / "tests" / "data" / "goldens" / "models"
DOCUMENTS = ["she sells sea shells", "the quick brown fox", "the quick"]


def opened(request, name):
    kind = sgl.Engine if request.param == "in process" else sgl.Runtime
    with kind(model_path=str(MODELS / name), **ARGUMENTS) as backend:
        yield backend


@pytest.fixture(params=["in process", "over HTTP"], scope="module")
def embedder(request):
    yield from opened(request, "emb-text-minilm")


@pytest.fixture(params=["in process", "over HTTP"], scope="module")
def reranker(request):
    yield from opened(request, "rerank-text-bert")


@pytest.fixture(scope="module")
def reference():
    """What the routes say, in process."""
    with sgl.Engine(model_path=str(MODELS / "emb-text-minilm"), **ARGUMENTS) as embeds:
        with sgl.Engine(model_path=str(MODELS / "rerank-text-bert"), **ARGUMENTS) as ranks:
            yield embeds, ranks


def test_vectors(embedder, reference):
    @sgl.function
    def vectors(s, text):
        s += "nothing is said" + sgl.embed("one", text) + sgl.embed("many", [text, "another"])
        s += sgl.embed("short", text, dimensions=16)

    s = vectors.run("the quick brown fox", backend=embedder)
    wanted = reference[0].embed(["the quick brown fox", "another"])
    assert s["one"] == wanted[0] and s["many"] == wanted
    assert len(s["short"]) == 16 and math.isclose(sum(x * x for x in s["short"]), 1, rel_tol=1e-5)
    assert s.text() == "nothing is said"
    assert s.get_meta_info("one")["usage"]["prompt_tokens"] > 0


def test_scores_and_ranks(reranker, reference):
    @sgl.function
    def ranked(s, query, documents):
        s += sgl.score("fit", query, documents) + sgl.score("alone", query, documents[0])
        s += sgl.rerank("best", query, documents, top_n=2)

    s = ranked.run("fox", DOCUMENTS, backend=reranker)
    results = reference[1].rerank("fox", DOCUMENTS)
    by_index = {entry["index"]: entry["relevance_score"] for entry in results}
    assert s["fit"] == [by_index[i] for i in range(3)] and s["alone"] == by_index[0]
    assert s["best"] == [entry["document"]["text"] for entry in results[:2]]
    assert s.get_meta_info("best")["indices"] == [entry["index"] for entry in results[:2]]


def test_a_generated_list_is_ranked_by_another_back_end(backend, reranker):
    @sgl.function
    def best_of(s, query):
        s += "The " + sgl.gen("drafts", n=3, max_tokens=6, temperature=1)
        s += sgl.rerank("best", query, s["drafts"], backend=reranker)
        s += " Best: " + s["best"][0]

    s = best_of.run("fox")
    assert sorted(s["best"]) == sorted(s["drafts"])
    assert s.text() == "The " + s["drafts"][0] + " Best: " + s["best"][0]


def test_a_graph_with_documents_as_a_parameter(reranker, reference):
    @sgl.function
    def retrieved(s, query, documents):
        s += sgl.rerank("facts", query, documents, top_n=1)
        s += "Fact: " + s["facts"]
        s += sgl.score("fit", query, documents)

    program = retrieved.compile(backend=reranker)
    assert program.whole
    states = program.run_batch([{"query": "fox", "documents": DOCUMENTS[:count]} for count in (1, 2, 3)])
    for count, s in zip((1, 2, 3), states):
        results = reference[1].rerank("fox", DOCUMENTS[:count])
        assert s["facts"] == [results[0]["document"]["text"]] and len(s["fit"]) == count
        assert s.text() == "Fact: " + s["facts"][0]
        assert max(s["fit"]) == results[0]["relevance_score"]


def test_refusals(embedder, backend):
    @sgl.function
    def blank(s):
        s += sgl.embed("v", ["fine", " "])

    with pytest.raises(sgl.ProgramError, match=r"input\[1\]"):
        blank.run(backend=embedder)["v"]

    @sgl.function
    def not_made_for_it(s):
        s += sgl.embed("v", "fine")

    with pytest.raises(sgl.ProgramError, match="is-embedding"):
        not_made_for_it.run()["v"]
    with pytest.raises(sgl.ProgramError, match="generate first"):
        sgl.score("n", "query", ["a", sgl.gen("g")])
    with pytest.raises(sgl.ProgramError, match="documents is empty"):
        sgl.rerank("n", "query", [])
