// Any bytes as the body of a route: typed fields or a refusal that names one, never anything else.
// The first byte chooses the route: p is /v1/programs, r is /v1/responses, O and G Ollama's chat and generate, L and I llama.cpp's
// completion and infill, E bodies of texts that become vectors or scores.
#include <cstdint>
#include <cstdlib>

#include "server/fields/constraint_fields.h"
#include "server/llamacpp/completion_body.h"
#include "server/native/generate_body.h"
#include "server/ollama/ollama_body.h"
#include "server/openai/chat.h"
#include "server/openai/completions.h"
#include "server/pooling/text_input.h"
#include "server/programs/program_body.h"
#include "server/responses/items.h"
#include "server/responses/response_body.h"

namespace {

using namespace espalier;
using namespace espalier::server;

template <class T>
void judge(const Result<T>& parsed) {
  if (parsed.ok()) return;
  const int status = parsed.error().http_status();
  if (status < 400 || status >= 500 || parsed.error().message.empty()) std::abort();
}

// The dialects that have letters of their own; false: it is none of them.
bool judge_lettered(std::uint8_t letter, const Json& body, const ServerOptions& options) {
  switch (letter) {
    case 'O':
      judge(parse_ollama_chat(body, options, {}));
      (void)unknown_ollama_fields(body);
      return true;
    case 'G':
      judge(parse_ollama_generate(body, options, {}));
      return true;
    case 'L':
      judge(parse_llamacpp_completion(body, options, {}));
      (void)unknown_llamacpp_fields(body);
      return true;
    case 'E': {
      PooledBody pooled;
      judge(read_fields<PooledBody>(body, pooled_rows(), pooled));
      if (const Json* input = find_field(body, "input")) judge(read_texts(*input, "input", PairsIn::lists));
      return true;
    }
    case 'I':
      judge(parse_llamacpp_infill(body, options, {}));
      return true;
    default:
      return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ServerOptions options;
  if (size == 0) return 0;
  auto body = parse_json({reinterpret_cast<const char*>(data) + 1, size - 1}, request_limits());
  if (!body.ok() || !round_numbers_outside_constraints(*body).ok() || !body->is_object()) return 0;
  if (judge_lettered(data[0], *body, options)) return 0;
  switch (data[0] == 'p' ? 3 : data[0] == 'r' ? 4 : data[0] % 3) {
    case 0:
      judge(parse_completion(*body, options));
      (void)unknown_completion_fields(*body);
      break;
    case 1:
      judge(parse_chat(*body, options, {}));
      (void)unknown_chat_fields(*body);
      break;
    case 3:
      judge(parse_program(*body));
      (void)unknown_program_fields(*body);
      break;
    case 4: {
      const auto parsed = parse_response(*body, options, {}, false);
      judge(parsed);
      if (parsed.ok()) (void)messages_of(parsed->input);
      (void)unknown_response_fields(*body);
      break;
    }
    default:
      judge(parse_generate(*body, options));
      (void)unknown_generate_fields(*body);
  }
  return 0;
}
