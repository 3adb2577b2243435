// /v1/batches: many requests out of one file, made when nothing else runs.
#include <fmt/format.h>

#include <algorithm>

#include "base/json/json_fields.h"
#include "net/http/request_target.h"
#include "server/answer/call_id.h"
#include "server/batches/batch_store.h"
#include "server/delivery/dialect.h"
#include "server/files/file_store.h"
#include "server/responses/response_body.h"  // read_metadata
#include "server/routes/handler.h"
#include "server/routes/routes.h"
#include "server/store/data_store.h"
#include "server/store/page_query.h"

namespace espalier::server {
namespace {

constexpr std::string_view kEndpoints[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses",
                                           "/v1/embeddings"};
constexpr std::int64_t kWindowSeconds = 24 * 3600;

Result<> check_endpoint(const Service& service, const std::string& endpoint) {
  if (std::ranges::find(kEndpoints, endpoint) == std::end(kEndpoints)) {
    return bad_request(fmt::format("endpoint is {}; it may be /v1/chat/completions, /v1/completions, /v1/responses or "
                                   "/v1/embeddings",
                                   in_quotes(endpoint, 80)),
                       "endpoint");
  }
  net::HttpRequest asked;
  asked.method = net::Method::post;
  ESP_TRY(auto target, [&]() -> Result<net::RequestTarget> {
    auto parsed = net::parse_request_target(service.options.api_prefix + endpoint, asked.method);
    if (parsed.ok()) return std::move(*parsed);
    return internal_error("no such path");
  }());
  asked.path = std::move(target.path);
  asked.segments = std::move(target.segments);
  if (!service.router->refuse(asked)) return success();
  return unsupported_parameter(fmt::format("this server has no {}, so no batch can use it", endpoint), "endpoint");
}

Json new_batch(const Json& body, Json metadata) {
  const std::int64_t now = seconds_now();
  Json batch = {{"id", new_call_id("batch_")}, {"object", "batch"}};
  batch["endpoint"] = body["endpoint"];
  batch["errors"] = nullptr;
  batch["input_file_id"] = body["input_file_id"];
  batch["completion_window"] = "24h";
  batch["status"] = "validating";
  for (const char* name : {"output_file_id", "error_file_id"}) batch[name] = nullptr;
  batch["created_at"] = now;
  batch["in_progress_at"] = nullptr;
  batch["expires_at"] = now + kWindowSeconds;
  for (const char* name : {"finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at", "cancelled_at"})
    batch[name] = nullptr;
  batch["request_counts"] = {{"total", 0}, {"completed", 0}, {"failed", 0}};
  batch["metadata"] = std::move(metadata);
  return batch;
}

Result<net::HttpResponse> create_batch(Call& call) {
  ESP_TRY(const std::string file, get_string(call.body, "input_file_id"));
  ESP_TRY(const std::string endpoint, get_string(call.body, "endpoint"));
  ESP_TRY(const std::string window, get_string(call.body, "completion_window"));
  if (window != "24h") return bad_request("completion_window must be \"24h\"", "completion_window");
  if (const Json* after = find_field(call.body, "output_expires_after"); after != nullptr)
    return unsupported_parameter("output_expires_after is not supported: delete the files", "output_expires_after");
  ESP_TRY(Json metadata, read_metadata(call.body));
  ESP_CHECK(check_endpoint(call.service, endpoint));
  const std::string owner = call.service.keys->owner(call.http);
  const Json batch = new_batch(call.body, std::move(metadata));
  {
    ESP_TRY(auto data, call.service.data.open());
    auto input = load_file(*data, file, owner);
    if (!input) {
      Error error = std::move(input).error();
      error.field = "input_file_id";
      return error;
    }
    if (input->value("purpose", "") != "batch")
      return bad_request("the input file's purpose must be \"batch\"", "input_file_id");
    ESP_CHECK(add_batch(*data, owner, batch));
  }
  call.service.batches.wake();
  return json_answer(batch);
}

Result<net::HttpResponse> get_batch(Call& call) {
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(const Json batch, load_batch(*data, call.http.path_value("id"), call.service.keys->owner(call.http)));
  return json_answer(batch);
}

Result<net::HttpResponse> list_all_batches(Call& call) {
  ESP_TRY(const PageQuery query, read_page_query(call.http, 20, 100));
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(auto batches, list_batches(*data, call.service.keys->owner(call.http)));
  ESP_TRY(const Json page, page_of(std::move(batches), query));
  return json_answer(page);
}

Result<net::HttpResponse> cancel_batch(Call& call) {
  const std::string id(call.http.path_value("id"));
  const std::string owner = call.service.keys->owner(call.http);
  Json batch;
  {
    ESP_TRY(auto data, call.service.data.open());
    ESP_TRY(batch, load_batch(*data, id, owner));
    const std::string status = batch.value("status", "");
    if (status != "validating" && status != "in_progress" && status != "cancelling")
      return bad_request(fmt::format("the batch is {}; only one that is under way can be cancelled", status),
                         "batch_id");
    if (status != "cancelling") {
      ESP_TRY(batch, set_batch_status(*data, id, owner, "cancelling", 0));
    }
  }
  call.service.batches.wake();
  return json_answer(batch);
}

}  // namespace

Result<> add_batch_routes(net::Router& router, Service& service) {
  using net::Method;
  constexpr Dialect dialect = Dialect::openai;
  ESP_CHECK(router.add(Method::post, "/v1/batches", keeping(service, dialect, create_batch)));
  ESP_CHECK(router.add(Method::get, "/v1/batches", keeping_any(service, dialect, list_all_batches)));
  ESP_CHECK(router.add(Method::get, "/v1/batches/{id}", keeping_any(service, dialect, get_batch)));
  return router.add(Method::post, "/v1/batches/{id}/cancel", keeping_any(service, dialect, cancel_batch));
}

}  // namespace espalier::server
