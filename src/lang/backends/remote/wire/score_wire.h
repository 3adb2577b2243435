// score_wire.h: scores and vectors as servers of OpenAI's, Cohere's and Jina's interfaces are asked for them.
// Threads: pure functions.
// Fails:   read_score(): network for bytes that are no such answer; what the server says of a text that it refuses.
#pragma once

#include <string>
#include <string_view>

#include "espalier/backend.h"

namespace espalier::lang {

// A POST.
struct ScoreWire {
  std::string path;  // behind the server's "/v1"
  Json body;
};
// `model`: where the call names none; empty: the field is left out.
ScoreWire write_score(const ScoreCall& call, const std::string& model);

Result<ScoreOutput> read_score(const std::string& server, const ScoreCall& call, std::string_view body);

// Of an answer's usage.
BackendUsage usage_of(const ScoreOutput& output);

}  // namespace espalier::lang
