#include "lang/graph/prefix.h"

#include <future>

#include "lang/turns.h"
#include "lang/waiting.h"

namespace espalier::lang {

std::string constant_prefix(const Graph& graph, const ChatFormat& format) {
  Document document;
  for (const Graph::Node& one : graph.nodes) {
    if (one.stream != 0) continue;
    if (const auto* text = std::get_if<node::Text>(&one.content))
      document.text += text->text;
    else if (const auto* begin = std::get_if<node::RoleBegin>(&one.content))
      (void)begin_turn(document, format, begin->role);
    else if (const auto* end = std::get_if<node::RoleEnd>(&one.content))
      (void)end_turn(document, format, end->role);
    else
      break;
  }
  return document.text;
}

Result<> compute_prefix(Backend& backend, std::string text) {
  auto promise = std::make_shared<std::promise<Result<GenOutput>>>();
  auto answer = promise->get_future();
  Document document;
  document.text = std::move(text);
  GenCall call;
  call.prompt_only = true;
  call.sampling.max_new_tokens = 0;
  const std::unique_ptr<Context> context = backend.context();
  const std::unique_ptr<Call> under_way = context->generate(
      document, std::move(call),
      {.on_piece = {}, .on_end = [promise](Result<GenOutput> output) { promise->set_value(std::move(output)); }});
  while (answer.wait_for(kLookUp) != std::future_status::ready) look_up();
  const auto output = answer.get();
  return output.ok() ? success() : Result<>(output.error());
}

}  // namespace espalier::lang
