#include "server/batches/batch_input.h"

#include <fmt/format.h>

#include <unordered_set>

#include "base/json/json_fields.h"

namespace espalier::server {
namespace {

constexpr std::size_t kMostFaults = 100, kMostCustomId = 512;
// The body of a line is text.
constexpr JsonStep kBodySteps[] = {{0, "body", JsonStep::as_text}};

Result<BatchLine> read_batch_line(std::string_view text, std::string_view endpoint) {
  JsonLimits limits;
  limits.exact_numbers = true;
  limits.places = kBodySteps;
  auto parsed = parse_json(text, limits);
  if (!parsed || !parsed->is_object()) {
    return bad_request(parsed ? "the line is no JSON object" : parsed.error().message, {}, "invalid_json_line");
  }
  BatchLine line;
  ESP_TRY(line.custom_id, get_string(*parsed, "custom_id"));
  if (line.custom_id.empty() || line.custom_id.size() > kMostCustomId)
    return bad_request("custom_id must have 1 to 512 bytes", "custom_id");
  ESP_TRY(const std::string method, get_string(*parsed, "method"));
  if (method != "POST") return bad_request("method must be POST", "method", "invalid_method");
  ESP_TRY(const std::string url, get_string(*parsed, "url"));
  if (url != endpoint) {
    return bad_request(fmt::format("url is {}, but the batch is for {}", in_quotes(url, 80), endpoint), "url",
                       "mismatched_url");
  }
  const Json* body = find_field(*parsed, "body");
  if (body == nullptr || !body->is_string() || !body->get_ref<const std::string&>().starts_with('{'))
    return bad_request("body must be a JSON object", "body");
  line.body = body->get<std::string>();
  return line;
}

}  // namespace

BatchInput parse_batch_input(std::string_view content, std::string_view endpoint) {
  BatchInput input;
  std::unordered_set<std::string> ids;
  const auto fault = [&](std::string code, std::string message, std::string param, std::size_t line) {
    if (input.faults.size() < kMostFaults)
      input.faults.push_back({std::move(code), std::move(message), std::move(param), line});
  };
  for (std::size_t number = 1; !content.empty(); ++number) {
    const std::size_t end = content.find('\n');
    std::string_view text = content.substr(0, end);
    content.remove_prefix(end == content.npos ? content.size() : end + 1);
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.find_first_not_of(" \t") == text.npos) continue;
    if (input.lines.size() == kMostBatchLines) {
      fault("too_many_tasks", fmt::format("a batch may have {} lines at most", kMostBatchLines), {}, 0);
      break;
    }
    auto line = read_batch_line(text, endpoint);
    if (!line) {
      const Error& why = line.error();
      fault(why.code.empty() ? "invalid_request" : why.code, why.message, why.field, number);
      continue;
    }
    if (!ids.insert(line->custom_id).second) {
      fault("duplicate_custom_id", fmt::format("the custom_id {} is there twice", in_quotes(line->custom_id, 80)),
            "custom_id", number);
      continue;
    }
    input.lines.push_back(std::move(line).value());
  }
  if (input.lines.empty() && input.faults.empty()) fault("empty_file", "the file has no line", {}, 0);
  return input;
}

}  // namespace espalier::server
