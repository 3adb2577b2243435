// /v1/files: what batches read and write.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "server/delivery/token_name.h"  // is_utf8
#include "server/files/file_store.h"
#include "server/files/multipart.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"
#include "server/store/data_store.h"
#include "server/store/page_query.h"

namespace espalier::server {
namespace {

constexpr std::string_view kPurposes[] = {"batch", "assistants", "fine-tune", "vision", "user_data", "evals"};
constexpr std::size_t kLongestName = 255;
constexpr std::int64_t kLeastSeconds = 3600, kMostSeconds = 2'592'000;

Result<const FormPart*> part_named(const std::vector<FormPart>& parts, std::string_view name) {
  const FormPart* found = nullptr;
  for (const FormPart& part : parts) {
    if (part.name != name) continue;
    if (found != nullptr) return bad_request(fmt::format("{} is there twice", name), std::string(name));
    found = &part;
  }
  return found;
}

Result<std::string> read_purpose(const std::vector<FormPart>& parts) {
  ESP_TRY(const FormPart* part, part_named(parts, "purpose"));
  if (part == nullptr) return bad_request("purpose is missing", "purpose");
  if (std::ranges::find(kPurposes, part->content) != std::end(kPurposes)) return std::string(part->content);
  return bad_request(fmt::format("purpose is {}; it may be batch, assistants, fine-tune, vision, user_data or evals",
                                 in_quotes(part->content, 40)),
                     "purpose");
}

Result<std::optional<std::int64_t>> read_expiry(const std::vector<FormPart>& parts) {
  ESP_TRY(const FormPart* anchor, part_named(parts, "expires_after[anchor]"));
  ESP_TRY(const FormPart* seconds, part_named(parts, "expires_after[seconds]"));
  if (anchor == nullptr && seconds == nullptr) return std::optional<std::int64_t>();
  if (anchor == nullptr || anchor->content != "created_at")
    return bad_request("expires_after[anchor] must be created_at", "expires_after");
  std::int64_t value = 0;
  const std::string_view text = seconds == nullptr ? std::string_view() : seconds->content;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || value < kLeastSeconds || value > kMostSeconds)
    return bad_request("expires_after[seconds] must be a whole number from 3600 to 2592000", "expires_after");
  return std::optional(value);
}

Result<net::HttpResponse> upload(Call& call) {
  ESP_TRY(const auto parts, parse_multipart(call.http.headers.get("content-type"), call.http.body));
  NewFile file;
  ESP_TRY(file.purpose, read_purpose(parts));
  ESP_TRY(file.seconds, read_expiry(parts));
  ESP_TRY(const FormPart* part, part_named(parts, "file"));
  if (part == nullptr) return bad_request("file is missing", "file");
  if (part->content.empty()) return bad_request("the file is empty", "file");
  file.filename = part->filename.empty() ? "upload" : part->filename;
  const bool shown = std::ranges::none_of(file.filename, [](unsigned char c) { return c < ' ' || c == 127; });
  if (!shown || file.filename.size() > kLongestName || !is_utf8(file.filename))
    return bad_request("the file's name must be text of at most 255 bytes without control characters", "file");
  file.owner = call.service.keys->owner(call.http);
  file.content = part->content;
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(const Json stored, add_file(*data, file));
  return json_answer(stored);
}

Result<net::HttpResponse> list(Call& call) {
  ESP_TRY(const PageQuery query, read_page_query(call.http, 10'000, 10'000));
  const std::string* purpose = call.http.query_value("purpose");
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(auto files, list_files(*data, call.service.keys->owner(call.http), purpose == nullptr ? "" : *purpose));
  ESP_TRY(const Json page, page_of(std::move(files), query));
  return json_answer(page);
}

Result<net::HttpResponse> get_file(Call& call) {
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(const Json file, load_file(*data, call.http.path_value("id"), call.service.keys->owner(call.http)));
  return json_answer(file);
}

// Nothing that a browser would show or run: the content is a stranger's.
Result<net::HttpResponse> get_content(Call& call) {
  net::HttpResponse response;
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(response.body, file_content(*data, call.http.path_value("id"), call.service.keys->owner(call.http)));
  response.headers.set("Content-Type", "application/octet-stream");
  response.headers.set("Content-Disposition", "attachment");
  response.headers.set("X-Content-Type-Options", "nosniff");
  return response;
}

Result<net::HttpResponse> remove_file(Call& call) {
  const std::string id(call.http.path_value("id"));
  ESP_TRY(auto data, call.service.data.open());
  ESP_CHECK(delete_file(*data, id, call.service.keys->owner(call.http)));
  const Json told = {{"id", id}, {"object", "file"}, {"deleted", true}};
  return json_answer(told);
}

}  // namespace

Result<> add_file_routes(net::Router& router, Service& service) {
  using net::Method;
  constexpr Dialect dialect = Dialect::openai;
  ESP_CHECK(router.add(Method::post, "/v1/files", keeping_raw(service, dialect, upload)));
  ESP_CHECK(router.add(Method::get, "/v1/files", keeping_any(service, dialect, list)));
  ESP_CHECK(router.add(Method::get, "/v1/files/{id}", keeping_any(service, dialect, get_file)));
  ESP_CHECK(router.add(Method::del, "/v1/files/{id}", keeping_any(service, dialect, remove_file)));
  return router.add(Method::get, "/v1/files/{id}/content", keeping_any(service, dialect, get_content));
}

}  // namespace espalier::server
