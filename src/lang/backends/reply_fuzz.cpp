// Any bytes as the answer of any dialect: nothing breaks, and the pieces of a stream are the text that it ends with.
//
// The first byte picks the dialect, the second how the answer is read: whole, or as events cut at line feeds.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/json/json.h"
#include "lang/backends/anthropic/anthropic_wire.h"
#include "lang/backends/gemini/gemini_wire.h"
#include "lang/backends/native/native_chain.h"
#include "lang/backends/native/native_select.h"
#include "lang/backends/openai/openai_select.h"
#include "lang/backends/remote/calls/endpoint.h"
#include "lang/choices/choices.h"

namespace {

using namespace espalier;
using namespace espalier::lang;

constexpr int kReaders = 4;

std::unique_ptr<ReplyReader> reader_of(int dialect, int samples) {
  if (dialect == 0) return native::generate_reader(samples);
  if (dialect == 1) return openai::openai_reader(samples);
  if (dialect == 2) return anthropic::anthropic_reader(samples > 1);
  return gemini::gemini_reader();
}

// The pieces; false when the answer was refused in the middle.
bool read_events(ReplyReader& reader, std::string_view bytes, std::string& heard) {
  while (!bytes.empty()) {
    const auto end = std::min(bytes.find('\n'), bytes.size());
    const auto piece = reader.event(bytes.substr(0, end));
    if (!piece.ok()) return false;
    if (*piece) heard += (*piece)->text;
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  return true;
}

void read_answer(int dialect, int mode, std::string_view bytes) {
  const int samples = 1 + mode / 2 % 3;
  const auto reader = reader_of(dialect, samples);
  std::string heard;
  const bool streamed = mode % 2 == 1;
  if (streamed ? !read_events(*reader, bytes, heard) : !reader->whole(bytes).ok()) return;
  const auto reply = reader->finish();
  if (!reply.ok()) return;
  if (reply->output.texts.size() != reply->output.meta.size() || reply->output.texts.empty()) std::abort();
  if (streamed && heard != reply->output.texts[0]) std::abort();
}

void read_segments_of(int mode, std::string_view bytes) {
  const auto holes = static_cast<std::size_t>(1 + mode % 3);
  const auto answer = native::read_segments(bytes, holes);
  if (!answer.ok()) return;
  if (answer->outputs.size() != holes || answer->prompt_tokens < 0) std::abort();
}

void read_scores_of(int mode, std::string_view bytes) {
  const SelectCall call{{"a", "bc"}, mode % 2 ? unconditional_likelihood_normalized() : greedy_token_selection(), 0};
  if (const auto scores = native::read_scores(bytes, call); scores.ok())
    static_cast<void>(decided(*call.method, *scores));
  const auto json = parse_json(bytes);
  if (!json.ok()) return;
  static_cast<void>(native::behind_prompt(*json, mode, "a text"));
  static_cast<void>(openai::echoed_tail(*json, static_cast<std::size_t>(mode)));
  static_cast<void>(told_error("x", *json));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const int dialect = data[0] % (kReaders + 2);
  static_cast<void>(refusal("x", 400, bytes));
  if (dialect < kReaders)
    read_answer(dialect, data[1], bytes);
  else if (dialect == kReaders)
    read_scores_of(data[1], bytes);
  else
    read_segments_of(data[1], bytes);
  return 0;
}
