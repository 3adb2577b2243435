// scoring.h: how well texts and pictures go with a query, whatever the model: a cross-encoder reads both texts as a pair, an
// embedder gives two vectors whose cosine counts, a generating model is asked and the probability of "yes" counts.
//
// Threads: pure functions. Fails: bad_request naming the field; pictures take a while (Call::run_again_for_pictures).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/pooling/pooled_body.h"
#include "server/pooling/pooled_texts.h"
#include "server/pooling/text_input.h"

namespace espalier::server {

// A string, or an object with what is said and shown.
Result<ShownText> read_scored(const Json& value, const std::string& place);

// The same of a list, each at its own place.
Result<std::vector<ShownText>> read_scored_list(const Json& list, const std::string& place);

// A long query is read once for each of `count` texts. `bytes`: of all that is read so.
Result<> check_scored_size(const Call& call, std::string_view query_place, std::string_view text_place,
                           std::size_t count, std::size_t bytes);
// Asks for the next token alone, and for what these have of it.
void ask_for_next(RequestFields& fields, std::vector<TokenId> ids);

// Queries and documents: as many of both, or one query for all. Places are the fields' names.
struct ScoredTexts {
  std::vector<ShownText> queries, documents;
  std::string query_place = "query", document_place = "documents";
  bool is_list = true;  // of documents
};

// The requests, and what makes one score for each document of what they gave.
struct Scoring {
  std::vector<PooledText> texts;
  std::function<std::vector<double>(const std::vector<PooledText>&)> scores;
};
Result<Scoring> score_texts(const Call& call, PooledBody body, const ScoredTexts& asked);

}  // namespace espalier::server
