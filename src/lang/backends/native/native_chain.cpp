#include "lang/backends/native/native_chain.h"

#include <algorithm>

#include "base/json/json_fields.h"
#include "lang/backends/remote/calls/call_handle.h"
#include "lang/backends/remote/wire/wire_text.h"

namespace espalier::lang::native {
namespace {

constexpr std::string_view kChaining = "native";
constexpr std::size_t kMostHoles = 128;  // a hole and the literal before it are two segments

// A segment of the answer as a single call's meta_info: all that is told of the hole but its output.
Json meta_of(const Json& segment, const Json& whole) {
  Json meta = Json::object();
  if (const Json* id = find_field(whole, "id")) meta["id"] = *id;
  for (const auto& [name, value] : segment.get_ref<const Json::object_t&>())
    if (name != "name" && name != "text" && name != "output_ids") meta[name] = value;
  if (const Json* version = find_field(whole, "weight_version")) meta["weight_version"] = *version;
  return meta;
}

// A count that cannot make a sum overflow, whatever the server sent.
std::int64_t count_of(const Json& segment, std::string_view name) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  return std::clamp<std::int64_t>(integer_or_zero(segment, name), 0, most);
}

Result<GenOutput> read_hole(const Json& segment, const Json& whole) {
  const Json* text = find_field(segment, "text");
  const Json* reason = find_field(segment, "finish_reason");
  if (!text || !text->is_string() || !reason) return bad_reply(kChaining, "a segment without text and finish_reason");
  if (auto error = given_up(*reason)) return std::move(*error);
  return GenOutput{{text->get<std::string>()}, {meta_of(segment, whole)}};
}

}  // namespace

bool fits_segments(const Document& document, const ChainCall& call) {
  if (call.parts.empty() || call.parts.size() > kMostHoles || !document.pictures.empty()) return false;
  if (document.text.empty() && call.parts.front().literal.empty()) return false;
  return std::ranges::all_of(call.parts, [](const ChainCall::Part& part) {
    return part.gen.sampling.n == 1 && !part.gen.stream && !part.gen.return_logprob && !part.gen.prompt_only;
  });
}

Result<Json> write_segments(const NativeServer& server, const Document& document, const ChainCall& call) {
  Json segments = Json::array({document.text + call.parts.front().literal});
  for (std::size_t i = 0; i < call.parts.size(); ++i) {
    const ChainCall::Part& part = call.parts[i];
    if (i > 0 && !part.literal.empty()) segments.push_back(part.literal);
    Json hole = Json::object();
    hole["name"] = std::to_string(i);
    ESP_TRY(hole["sampling_params"], write_sampling_params(server, part.gen));
    segments.push_back(std::move(hole));
  }
  Json body = Json::object();
  body["segments"] = std::move(segments);
  return body;
}

Result<SegmentsAnswer> read_segments(std::string_view body, std::size_t holes) {
  ESP_TRY(const Json reply, read_reply_json(kChaining, body));
  if (auto error = told_error(std::string(kChaining), reply)) return std::move(*error);
  const Json* segments = find_field(reply, "segments");
  const Json* whole = find_field(reply, "meta_info");
  if (!segments || !segments->is_array() || segments->size() != holes || !whole || !whole->is_object())
    return bad_reply(kChaining, "not as many segments as were asked for");
  SegmentsAnswer answer;
  for (const Json& segment : *segments) {
    // What stands before a hole is what was generated until there, and what was read.
    answer.prompt_tokens =
        std::max(answer.prompt_tokens, count_of(segment, "prompt_tokens") - answer.completion_tokens);
    answer.completion_tokens += count_of(segment, "completion_tokens");
    ESP_TRY(GenOutput output, read_hole(segment, *whole));
    answer.outputs.push_back(std::move(output));
  }
  return answer;
}

std::unique_ptr<Call> begin_native_chain(std::shared_ptr<RequestQueue> queue, const NativeServer& server,
                                         const Document& document, const ChainCall& call, ChainSink sink) {
  const auto body = write_segments(server, document, call);
  if (!body.ok()) return refuse(*queue, [sink = std::move(sink), error = body.error()] { sink(error); });
  auto state = std::make_shared<CallState>();
  Outgoing outgoing;
  outgoing.request = queue->request("/generate", wire_text(*body));
  outgoing.request.stop = state->stop.get_token();
  outgoing.on_end = [queue, state, holes = call.parts.size(), sink = std::move(sink)](Result<std::string> reply) {
    if (state->ended.exchange(true) || state->stop.stop_requested()) return;
    if (!reply.ok()) return sink(std::move(reply).error());
    auto answer = read_segments(*reply, holes);
    if (!answer.ok()) return sink(std::move(answer).error());
    queue->counters().prompt_tokens += answer->prompt_tokens;
    queue->counters().completion_tokens += answer->completion_tokens;
    sink(std::move(answer->outputs));
  };
  queue->send(std::move(outgoing));
  return std::make_unique<CallHandle>(std::move(queue), std::move(state));
}

}  // namespace espalier::lang::native
