// Any text as a model's output, in every format: nothing fails, and it means the same however it is cut.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/answer/answer_parser.h"

namespace {

using namespace espalier;

Answer in_pieces(std::string_view text, const AnswerOptions& options, std::size_t size) {
  AnswerParser parser(options);
  Answer answer;
  while (!text.empty()) {
    fold(answer, parser.feed(text.substr(0, size)));
    text.remove_prefix(std::min(size, text.size()));
  }
  fold(answer, parser.finish());
  return answer;
}

std::shared_ptr<const CallTools> some_tools() {
  static const auto tools = std::make_shared<const CallTools>(std::vector<CallableTool>{
      {"f",
       R"({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": ["object", "null"]}}})"}});
  return tools;
}

}  // namespace

// The first two bytes choose the formats, the third the size of the pieces.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 3), size - 3);
  const auto calls = call_formats();
  const auto thinking = thinking_formats();
  AnswerOptions options{.calls = &calls[data[0] % calls.size()],
                        .begins = static_cast<AnswerBegins>(data[2] / 64 % 3),
                        .tools = some_tools(),
                        .only_known_tools = data[2] % 2 == 1};
  if (data[1] != 0) options.thinking = &thinking[data[1] % thinking.size()];
  const Answer whole = in_pieces(text, options, size);
  if (whole != in_pieces(text, options, 1)) std::abort();
  if (whole != in_pieces(text, options, 2 + data[2] % 32)) std::abort();
  if (options.thinking == nullptr && whole.calls.empty() && whole.content.size() > text.size()) std::abort();
  for (const ToolCall& call : whole.calls)
    if (call.name.empty() || call.arguments.empty()) std::abort();
  return 0;
}
