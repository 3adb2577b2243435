// Any bytes as a chat template: refused, or rendered within its limits, or failed with a sentence.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/chat/chat_template.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  static const Json messages =
      Json::parse(R"([{"role": "system", "content": " S "}, {"role": "user", "content": "Hi <b> é😀"},
    {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, true, null]}}}]},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}, {"role": "assistant", "content": "so"}])");
  static const Json tools = Json::parse(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}}])");
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto chat = ChatTemplate::parse(source, {{"bos_token", "<s>"}});
  if (!chat.ok()) {
    if (chat.error().message.empty()) std::abort();
    return 0;
  }
  const jinja::Limits limits{
      .steps = 50'000, .depth = 20, .output_bytes = 10'000, .memory_bytes = 4 << 20, .cpu_milliseconds = 0};
  for (const bool go_on : {false, true}) {
    const ChatInput input{
        .messages = &messages, .tools = &tools, .continue_final_message = go_on, .now = 1'000'000'000};
    const auto rendered = chat->render(input, limits);
    const auto traced = chat->render_traced(input, limits);
    if (traced.ok() && rendered.ok() && traced->text != *rendered) std::abort();
    std::size_t end = 0;
    for (const TextRange& range : traced.ok() ? traced->own : std::vector<TextRange>()) {
      if (range.begin < end || range.end <= range.begin || range.end > traced->text.size()) std::abort();
      end = range.end;
    }
    if (!rendered.ok() && rendered.error().code != "template_error") std::abort();
    if (rendered.ok() && rendered->size() > limits.output_bytes) std::abort();
    if (rendered.ok() && is_utf8(source) && !is_utf8(*rendered)) std::abort();
  }
  return 0;
}
