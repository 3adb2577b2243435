// reply_reader.h: reads the answer to one request of a dialect, whole or as the events of a stream.
//
// Order:   whole once, or event*; then finish once.
// Threads: one at a time.
// Fails:   network for bytes that are no answer of this dialect and for a stream that was cut off; what the server says
//          inside an answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/backend.h"

namespace espalier::lang {

// What a generation's answer held: its output and token counts.
struct Reply {
  GenOutput output;
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
};

// Reads the answer to one generation in one dialect.
class ReplyReader {
 public:
  virtual ~ReplyReader() = default;
  virtual Result<> whole(std::string_view body) = 0;
  virtual Result<std::optional<Piece>> event(std::string_view data) = 0;  // the piece it brings, if any
  virtual Result<Reply> finish() = 0;
};

// JSON off the wire. Fails: network naming the server.
Result<Json> read_reply_json(std::string_view server, std::string_view body);
Error bad_reply(std::string_view server, std::string_view what);  // "openai: the answer has no choices"
Error cut_off(std::string_view server);

// What is told of an output, in the words of SGLang's meta_info.
struct OutputFacts {
  std::string id, finish;  // "stop", "length", ...; empty: not over yet
  Json matched;            // of "stop": the string
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};
Json meta_info(const OutputFacts& facts);

}  // namespace espalier::lang
