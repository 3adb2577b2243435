// pooled_body.h: what bodies of routes that give vectors and scores have in common, whatever the dialect.
//
// Threads: values and pure functions. Fails: bad_request naming the field.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/fields/field_table.h"
#include "server/pooling/vectors.h"
#include "server/routes/handler.h"

namespace espalier::server {

// The fields, read.
struct PooledBody {
  std::string model, rid, cache_salt, extra_key, user;
  int priority = 0;
  bool background = false;
  std::optional<int> deadline_ms;

  NumberType numbers = NumberType::floats;  // encoding_format, embedding_type
  std::optional<int> dimensions;
  std::optional<bool> normalised;  // as asked; else the model's own
  bool add_special = true;
  bool raw_scores = false;          // as the model gives them
  std::optional<int> longest;       // longer texts are cut to so many tokens; -1: to what the model takes
  bool cut_first = false;           // their first tokens go, not their last
  bool each = false;                // every token's vector
  std::string prompt, prompt_name;  // put before each text; by its name
  std::string input_type;           // "query", "document", ...: what looks for a prompt of such a name
  std::string instruct;             // of rerankers

  // Width of a vector of the model's, as asked.
  Result<int> width(const PooledInfo& info) const;
};

// Tokens that a text of this body may have before it is cut, for all kinds of models; none: too long ones are refused.
std::optional<std::size_t> most_tokens(const Call& call, const PooledBody& body);

std::span<const FieldRow<PooledBody>> pooled_rows();
// `own`: names that the route reads beside these. Unknown ones are noted.
Result<PooledBody> read_pooled_body(const Call& call, std::initializer_list<std::string_view> own);

// The model's own words about what it gives. Fails: it generates text, and nothing of what is asked for.
Result<const PooledInfo*> need_pooled(const Call& call);
// Fails, too, where the model gives the other of the two.
Result<const PooledInfo*> need_embeddings(const Call& call);
Result<const PooledInfo*> need_scores(const Call& call);
// An embedding model's with one vector for a text, whatever its length.
Result<const PooledInfo*> need_one_vector(const Call& call);

// What the model calls a score of its own, by its number.
std::string label_of(const PooledInfo& info, std::size_t label);

// What becomes of the engine's values in answers: cut to the width, normed.
void shape(const PooledBody& body, const PooledInfo& info, int width, PooledEvent& pooled);

}  // namespace espalier::server
