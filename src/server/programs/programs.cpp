// POST /v1/programs: a program as data, compiled and run beside the engine.
#include "server/answer/treatment.h"
#include "server/openai/body_fields.h"  // request_id, treatment
#include "server/programs/own_routes.h"
#include "server/programs/program_delivery.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

// Nodes of all runs that a short request's thread may spend its time with.
constexpr std::int64_t kQuickNodes = 2000;

Result<CompiledProgram> compiled(const ProgramBody& body, std::shared_ptr<Backend> backend) {
  CompileOptions options;
  options.backend = std::move(backend);
  options.defaults = body.defaults;
  options.outputs = body.outputs;
  options.passes = body.passes;
  if (body.stream) options.meta_read = MetaRead::every_node;
  return compile(body.graph, options);
}

// Scores are asked for as the program's own calls are, of its model and adapter unless they name another.
std::shared_ptr<lang::LocalRoutes> routes_for(const Call& call, const ProgramBody& body) {
  Json treatment = {{"model", call.model_name()},  {"cache_salt", body.cache_salt},
                    {"extra_key", body.extra_key}, {"priority", priority_of(call.http, body.priority)},
                    {"user", body.user},           {"background", body.background}};
  if (body.deadline_ms) treatment["deadline_ms"] = *body.deadline_ms;
  if (const Json* adapter = find_field(call.body, "lora_path")) treatment["lora_path"] = *adapter;
  return std::make_shared<OwnRoutes>(std::make_shared<const RouteDoor>(*call.service.router),
                                     call.service.options.api_prefix, std::move(treatment), KeyRing::tenant(call.http));
}

Result<> run_program(Call& call, net::HttpRequest& request, net::Responder& responder) {
  Service& service = call.service;
  ESP_CHECK(service.unknown_fields.note(unknown_program_fields(call.body), "/v1/programs"));
  ESP_TRY(Program program, [&]() -> Result<Program> {
    Program made;
    ESP_TRY(made.body, parse_program(call.body));
    return made;
  }());
  ProgramBody& body = program.body;
  ESP_CHECK(call.check_model_name(body.model));
  ESP_TRY(const auto host, service.programs.open(call.model));
  ESP_TRY(const ProgramCost cost, check_program(body, *host.format, call.model->limits(), service.options));
  if (cost.nodes > kQuickNodes && !call.may_be_slow) return call.run_again_slowly();
  program.nodes = std::make_shared<lang::TextBudget>(cost.bytes, service.program_texts);
  program.texts = std::make_shared<lang::TextBudget>(kMostProgramBytes, service.program_texts);
  ESP_CHECK(program.nodes->take(static_cast<std::size_t>(cost.bytes)));
  if (cost.logprobs > 0) {
    ESP_TRY(program.logprobs, service.logprob_budget.charge(
                                  cost.logprobs, "too many log-probabilities are being made at once; try again later"));
  }
  program.id = request_id(call.http, body.rid, 0, 1);
  ESP_TRY(RequestFields fields, treatment(call, body, program.id));
  program.backend =
      std::make_shared<lang::LocalBackend>(host.service, host.format, std::move(fields), routes_for(call, body));
  ESP_TRY(program.compiled, compiled(body, program.backend));
  if (responder.closed()) return success();
  return ProgramDelivery::begin(service, call.model, request, responder, std::move(program));
}

}  // namespace

Result<> add_program_routes(net::Router& router, Service& service) {
  return router.add(net::Method::post, "/v1/programs", serving(service, Dialect::openai, run_program));
}

}  // namespace espalier::server
