#include "server/routes/handler.h"

#include <new>

#include "base/log.h"
#include "base/system/free_memory.h"
#include "server/admission/deadline.h"
#include "server/fields/constraint_fields.h"
#include "server/metrics/request_log.h"
#include "server/routes/model_waiter.h"

namespace espalier::server {
namespace {

// Bodies from this size on wait in the slow pool: to parse and encode them takes long enough to be felt.
constexpr std::size_t kBulkBytes = 128 * 1024;
// Behind bodies from this size on the allocator gives back what it keeps: their documents are many small pieces.
constexpr std::size_t kGiveBackBytes = 1024 * 1024;

struct Job {
  net::HttpRequest http;
  net::Responder responder;
  Budget::Charge charge;  // of a large body, until its work has begun
  bool large = false;
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();
};

bool is_json(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  return net::same_ignoring_case(type, "application/json") || type.ends_with("+json");
}

Result<Json> parse_body(const net::HttpRequest& http, Dialect dialect) {
  // curl's own type stands where these dialects' examples give none; pages of other origins are refused at the door.
  const bool any_type = dialect == Dialect::native || dialect == Dialect::ollama || dialect == Dialect::llamacpp;
  if (!any_type && !is_json(http.headers.get("content-type"))) {
    return bad_request("the body must be JSON and say so: Content-Type: application/json", {},
                       "unsupported_media_type");
  }
  auto parsed = parse_json(http.body, request_limits());
  if (parsed) {
    if (auto rounded = round_numbers_outside_constraints(*parsed); !rounded) parsed = rounded.error();
  }
  if (!parsed) {
    Error error = std::move(parsed).error();
    error.code = "invalid_json";
    return error;
  }
  if (!parsed->is_object()) return bad_request("the body must be a JSON object", {}, "invalid_json");
  return parsed;
}

void refuse(Service& service, Job& job, Dialect dialect, const Error& error) {
  if (error.code == "unsupported_media_type") {
    net::HttpError http = net::http_error(error);
    http.status = 415;
    return respond(service, job.http, job.responder, dialect, http);
  }
  respond(service, job.http, job.responder, dialect, error);
}

enum class BodyUse { json, ignored, raw };
struct Needed {
  BodyUse body = BodyUse::json;
  bool model = true;  // that the body or the query names, else the default one
  AdapterUse adapters = AdapterUse::named;
};

// A call before its model is known.
struct Read {
  Json body;
  std::chrono::steady_clock::duration waited{0};
};

Result<Read> read_body(Service& service, Job& job, Dialect dialect, BodyUse body_use) {
  const auto begun = std::chrono::steady_clock::now();
  ESP_CHECK(service.need_ready());
  Read read{{}, begun - job.arrived};
  if (body_use == BodyUse::json) {
    ESP_TRY(read.body, parse_body(job.http, dialect));
  }
  if (body_use != BodyUse::raw) std::string().swap(job.http.body);  // megabytes, perhaps; nobody reads it again
  return read;
}

// By the body's `model` (`name`, as older clients of Ollama write it), or the query's; one that is no text is refused by
// the route itself.
std::string named_model(Dialect dialect, const net::HttpRequest& http, const Json& body) {
  const Json* name = body.is_object() ? find_field(body, "model") : nullptr;
  if (name == nullptr && dialect == Dialect::ollama && body.is_object()) name = find_field(body, "name");
  if (name != nullptr && name->is_string()) return name->get<std::string>();
  const std::string* asked = http.query_value("model");
  return asked != nullptr ? *asked : std::string();
}

// Runs `work()`, which answers or returns an Error that is answered here.
template <class Work>
void answered(Service& service, Job& job, Dialect dialect, Work&& work) {
  if (job.responder.closed()) return;
  try {
    if (Result<> done = work(); !done) refuse(service, job, dialect, done.error());
  } catch (const std::bad_alloc&) {
    refuse(service, job, dialect, {Error::Kind::out_of_memory, "not enough memory for this request", {}, {}});
  } catch (const std::exception& failure) {
    log::error("{} {}: {}", job.http.id, job.http.route, failure.what());
    refuse(service, job, dialect, internal_error("the request failed inside the server; its id is " + job.http.id));
  }
}

Error too_many() {
  return {Error::Kind::unavailable, "too many requests wait to be read; try again", {}, "unavailable"};
}

template <class Use>
Result<> used(Service& service, Dialect dialect, const Use& use, const std::shared_ptr<Job>& job, Call call);

// The same call where nobody waits behind it.
template <class Use>
Result<> again_slowly(Service& service, Dialect dialect, const Use& use, const std::shared_ptr<Job>& job, Call call) {
  call.may_be_slow = true;
  BackgroundPool& pool = std::exchange(call.again_for_pictures, false) ? service.pictures : service.slow;
  call.again_slowly = false;
  auto kept = std::make_shared<Call>(std::move(call));
  const auto submitted = std::chrono::steady_clock::now();
  const bool taken = pool.submit([&service, dialect, use, job, kept, submitted](const CancelFlag& ended) {
    kept->waited += std::chrono::steady_clock::now() - submitted;
    kept->unwanted = [job, ended] { return ended.cancelled() || job->responder.closed(); };
    answered(service, *job, dialect, [&] { return used(service, dialect, use, job, std::move(*kept)); });
  });
  return taken ? success() : Result<>(too_many());
}

// The same call behind its downloads.
template <class Use>
Result<> again_with_files(Service& service, Dialect dialect, const Use& use, const std::shared_ptr<Job>& job,
                          Call call) {
  if (!call.fetched) call.fetched = std::make_shared<FetchedMedia>();
  const std::vector<MediaAddress> wanted = std::exchange(call.wanted, {});
  const auto fetched = call.fetched;
  const auto kept = std::make_shared<Call>(std::move(call));
  const bool taken = service.downloads.begin(
      wanted, fetched, [job] { return job->responder.closed(); },
      [&service, dialect, use, job, kept] {
        answered(service, *job, dialect, [&] { return again_slowly(service, dialect, use, job, std::move(*kept)); });
      });
  return taken ? success() : Result<>(too_many());
}

// The same call once its adapters are read; what else takes long is still left to its own pool.
template <class Use>
Result<> with_adapters(Service& service, Dialect dialect, const Use& use, const std::shared_ptr<Job>& job, Call call) {
  auto kept = std::make_shared<Call>(std::move(call));
  const auto submitted = std::chrono::steady_clock::now();
  const bool taken = service.slow.submit([&service, dialect, use, job, kept, submitted](const CancelFlag&) {
    kept->waited += std::chrono::steady_clock::now() - submitted;
    answered(service, *job, dialect, [&]() -> Result<> {
      ESP_CHECK(kept->adapters.load(service.adapters, *kept->model));
      return used(service, dialect, use, job, std::move(*kept));
    });
  });
  return taken ? success() : Result<>(too_many());
}

template <class Use>
Result<> used(Service& service, Dialect dialect, const Use& use, const std::shared_ptr<Job>& job, Call call) {
  if (call.model != nullptr && !call.adapters.take_loaded(service.adapters, *call.model))
    return with_adapters(service, dialect, use, job, std::move(call));
  auto done = use(call, *job);
  if (!call.wanted.empty()) return again_with_files(service, dialect, use, job, std::move(call));
  return call.runs_again() ? again_slowly(service, dialect, use, job, std::move(call)) : done;
}

// On the background pool again, once the model is there.
template <class Use>
Result<> when_loaded(Service& service, Dialect dialect, const Use& use, const std::shared_ptr<Job>& job, int place,
                     Read read, const NamedAdapters& adapters) {
  auto kept = std::make_shared<Read>(std::move(read));
  const auto then = [&service, dialect, use, job, kept, adapters](const ModelWait::Outcome& outcome) {
    if (!outcome.ok()) {
      refuse(service, *job, dialect, outcome.error());
      return true;
    }
    BackgroundPool& pool = job->large ? service.bulk : service.pool;
    return pool.submit([&service, dialect, use, job, kept, adapters, model = *outcome](const CancelFlag&) {
      answered(service, *job, dialect, [&] {
        Call call{service, job->http, model, std::move(kept->body), false, job->arrived, kept->waited};
        call.adapters = adapters;
        return used(service, dialect, use, job, std::move(call));
      });
    });
  };
  return ModelWaiter::begin(
      service, place,
      {[job] { return job->responder.closed(); }, deadline_of(job->http, service.options.request_timeout), then});
}

template <class Use>
Result<> read_and_use(Service& service, Dialect dialect, Needed needed, const Use& use,
                      const std::shared_ptr<Job>& job) {
  ESP_TRY(Read read, read_body(service, *job, dialect, needed.body));
  if (!needed.model) {
    return used(service, dialect, use, job,
                {service, job->http, nullptr, std::move(read.body), false, job->arrived, read.waited});
  }
  const std::string named = named_model(dialect, job->http, read.body);
  const bool looks = needed.adapters != AdapterUse::none;
  ESP_TRY(const auto target,
          NamedAdapters::target(service.adapters, service.models, named, looks ? read.body : Json()));
  ESP_TRY(auto adapters, NamedAdapters::of(service.adapters, target, named, read.body, needed.adapters));
  auto model = service.models.use(target.place);
  if (model == nullptr) return when_loaded(service, dialect, use, job, target.place, std::move(read), adapters);
  Call call{service, job->http, std::move(model), std::move(read.body), false, job->arrived, read.waited};
  call.adapters = std::move(adapters);
  return used(service, dialect, use, job, std::move(call));
}

template <class Use>
net::RequestHandler on_background_pool(Service& service, Dialect dialect, Needed needed, Use use) {
  return [&service, dialect, needed, use = std::move(use)](net::HttpRequest http, net::Responder responder) {
    auto job = std::make_shared<Job>(Job{std::move(http), std::move(responder), {}});
    const std::size_t size = job->http.body.size();
    const bool large = size >= kBulkBytes;
    if (large) {
      auto charge = service.body_budget.charge(static_cast<std::int64_t>(size),
                                               "too many large bodies wait to be read; try again later");
      if (!charge) return refuse(service, *job, dialect, charge.error());
      job->charge = std::move(charge).value();
      job->large = true;
    }
    BackgroundPool& pool = large ? service.bulk : service.pool;
    const bool taken = pool.submit([&service, dialect, needed, use, job, size](const CancelFlag&) {
      answered(service, *job, dialect, [&] { return read_and_use(service, dialect, needed, use, job); });
      if (size >= kGiveBackBytes) give_back_free_memory();
    });
    if (!taken) refuse(service, *job, dialect, too_many());
  };
}

auto answer_with(AnswerFunction function) {
  return [function = std::move(function)](Call& call, Job& job) -> Result<> {
    ESP_TRY(auto response, function(call));
    respond(call.service, job.http, job.responder, std::move(response));
    return success();
  };
}

// The caller's own name for a request is its id in the log and in the header too.
void adopt_rid(net::HttpRequest& http, const Json& body) {
  const Json* rid = find_field(body, "rid");
  if (rid == nullptr || !rid->is_string()) return;
  if (const auto& id = rid->get_ref<const std::string&>(); net::printable_id(id)) http.id = id;
}

auto generate_with(GenerateFunction function) {
  return [function = std::move(function)](Call& call, Job& job) -> Result<> {
    adopt_rid(job.http, call.body);
    ESP_TRY(auto generation, function(call));
    if (job.responder.closed()) return success();
    Delivery::begin(call.service, call.model, std::move(job.http), std::move(job.responder), std::move(generation));
    return success();
  };
}

auto serve_with(ServeFunction function) {
  return [function = std::move(function)](Call& call, Job& job) -> Result<> {
    adopt_rid(job.http, call.body);
    return function(call, job.http, job.responder);
  };
}

}  // namespace

net::HttpResponse json_answer(const Json& value) {
  return net::HttpResponse::json(200, json_text(value));
}

Result<> Call::check_model_name(std::string_view asked) const {
  if (!adapters.named().empty() && asked == adapters.named()) return success();
  return model->check_name(asked);
}

const std::string& Call::model_name() const {
  return adapters.by_model().empty() ? model->name() : adapters.by_model();
}

std::string session_owner(const Call& call) {
  return KeyRing::tenant(call.http.headers) + "\n" + call.model->name();
}

void respond(Service& service, const net::HttpRequest& request, net::Responder& responder, net::HttpResponse response) {
  service.metrics.answered(request.route, "", response.status);
  response.headers.set("x-request-id", request.id);
  responder.respond(std::move(response));
}

void respond(Service& service, const net::HttpRequest& request, net::Responder& responder, Dialect dialect,
             const Error& error) {
  net::HttpError http = net::http_error(error);
  if (http.retry_after_seconds > 0) http.retry_after_seconds = service.retry_after();
  respond(service, request, responder, dialect, http);
}

void respond(Service& service, const net::HttpRequest& request, net::Responder& responder, Dialect dialect,
             const net::HttpError& error) {
  auto response = error_response(dialect, error);
  response.close = error.code == "draining";
  if (error.status == 429 || error.status == 503) service.metrics.refused(error.code);
  if (service.options.log_requests) {
    const double seconds = seconds_since(request.received_at);
    log_refusal({request.id, request.route, error.status, seconds}, error.code, error.param);
  }
  respond(service, request, responder, std::move(response));
}

net::RequestHandler answering(Service& service, Dialect dialect, AnswerFunction function, AdapterUse adapters) {
  return on_background_pool(service, dialect, {BodyUse::json, true, adapters}, answer_with(std::move(function)));
}

net::RequestHandler answering_any(Service& service, Dialect dialect, AnswerFunction function) {
  return on_background_pool(service, dialect, {BodyUse::ignored}, answer_with(std::move(function)));
}

net::RequestHandler generating(Service& service, Dialect dialect, GenerateFunction function, AdapterUse adapters) {
  return on_background_pool(service, dialect, {BodyUse::json, true, adapters}, generate_with(std::move(function)));
}

net::RequestHandler serving_without_model(Service& service, Dialect dialect, ServeFunction function) {
  return on_background_pool(service, dialect, {BodyUse::json, false}, serve_with(std::move(function)));
}

net::RequestHandler serving(Service& service, Dialect dialect, ServeFunction function, AdapterUse adapters) {
  return on_background_pool(service, dialect, {BodyUse::json, true, adapters}, serve_with(std::move(function)));
}

net::RequestHandler serving_any(Service& service, Dialect dialect, ServeFunction function) {
  return on_background_pool(service, dialect, {BodyUse::ignored, true, AdapterUse::one},
                            serve_with(std::move(function)));
}

net::RequestHandler generating_any(Service& service, Dialect dialect, GenerateFunction function) {
  return on_background_pool(service, dialect, {BodyUse::ignored, true, AdapterUse::one},
                            generate_with(std::move(function)));
}

net::RequestHandler keeping(Service& service, Dialect dialect, AnswerFunction function) {
  return on_background_pool(service, dialect, {BodyUse::json, false}, answer_with(std::move(function)));
}

net::RequestHandler keeping_any(Service& service, Dialect dialect, AnswerFunction function) {
  return on_background_pool(service, dialect, {BodyUse::ignored, false}, answer_with(std::move(function)));
}

net::RequestHandler keeping_raw(Service& service, Dialect dialect, AnswerFunction function) {
  return on_background_pool(service, dialect, {BodyUse::raw, false}, answer_with(std::move(function)));
}

net::RequestHandler informing(Service& service, Dialect dialect, InfoFunction function) {
  return [&service, dialect, function = std::move(function)](net::HttpRequest http, net::Responder responder) {
    const auto target = NamedAdapters::known_target(service.adapters, service.models, named_model(dialect, http, {}));
    if (!target.ok()) return respond(service, http, responder, dialect, target.error());
    const int place = target->place;
    const auto tell = [&service, dialect, function](const ServedModel& model, const net::HttpRequest& request,
                                                    net::Responder& to) {
      auto response = function(service, model, request);
      if (!response) return respond(service, request, to, dialect, response.error());
      respond(service, request, to, std::move(response).value());
    };
    if (const auto model = service.models.look(place)) return tell(*model, http, responder);
    auto job = std::make_shared<Job>(Job{std::move(http), std::move(responder), {}});
    const auto then = [&service, dialect, tell, job](const ModelWait::Outcome& outcome) {
      if (outcome.ok())
        tell(**outcome, job->http, job->responder);
      else
        refuse(service, *job, dialect, outcome.error());
      return true;
    };
    const auto waits = ModelWaiter::begin(
        service, place,
        {[job] { return job->responder.closed(); }, deadline_of(job->http, service.options.request_timeout), then});
    if (!waits.ok()) refuse(service, *job, dialect, waits.error());
  };
}

net::RequestHandler telling(Service& service, Dialect dialect, TellFunction function) {
  return [&service, dialect, function = std::move(function)](net::HttpRequest http, net::Responder responder) {
    auto response = function(service, http);
    if (!response) return respond(service, http, responder, dialect, response.error());
    respond(service, http, responder, std::move(response).value());
  };
}

}  // namespace espalier::server
