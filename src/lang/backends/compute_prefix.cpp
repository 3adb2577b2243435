#include "lang/backends/compute_prefix.h"

#include <future>

#include "lang/execute/waiting.h"

namespace espalier::lang {

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
  while (answer.wait_for(kInterruptCheck) != std::future_status::ready) check_interrupts();
  const auto output = answer.get();
  return output.ok() ? success() : Result<>(output.error());
}

}  // namespace espalier::lang
