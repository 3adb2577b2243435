// POST /v1/grammar/graph: a constraint's automaton, drawn for whoever writes one, and how far a text goes in it. No model
// is asked, and nothing that requests use is touched.
#include <fmt/format.h>

#include "espalier/constraint_graph.h"
#include "server/delivery/json_writer.h"
#include "server/fields/constraint_fields.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

constexpr int kMostStates = 400;
constexpr std::size_t kMostTried = 1 << 16;  // bytes
constexpr std::chrono::milliseconds kSlowDrawing{300};

void write_graph(JsonWriter& json, const AutomatonGraph& graph) {
  json.key("nodes").open('[');
  for (const auto& node : graph.nodes)
    json.open('{').field("depth", node.depth).field("end", node.complete).field("more", node.open).close('}');
  json.close(']').key("edges").open('[');
  for (const auto& edge : graph.edges)
    json.open('{').field("from", edge.from).field("to", edge.to).field("label", edge.label).close('}');
  json.close(']');
}

// The constraint in any of a chat body's spellings, {"tried": a text, "states": of the drawing}.
Result<net::HttpResponse> draw_graph(Call& call) {
  ConstraintFields asked;
  ESP_CHECK(read_fields(call.body, openai_constraint_rows(), asked));
  if (asked.constraint.kind == Constraint::Kind::none)
    return bad_request("send the constraint as regex, json_schema, ebnf, choices, structural_tag or response_format",
                       "regex");
  ESP_TRY(const auto tried, find_string(call.body, "tried"));
  if (tried && tried->size() > kMostTried)
    return bad_request(fmt::format("tried has {} bytes, but may have {} at most", tried->size(), kMostTried), "tried");
  ESP_TRY(const auto states, find_integer(call.body, "states", {1, kMostStates}));
  asked.constraint.flexible_whitespace =
      asked.flexible_whitespace.value_or(call.service.options.json_whitespace == "flexible");
  ESP_TRY(const auto charge, call.service.views.charge(1, "too many constraints are drawn; try again later"));
  ConstraintGraphLimits limits;
  if (states) limits.states = static_cast<std::size_t>(*states);
  if (call.may_be_slow) limits.compile_time = kSlowDrawing;
  auto drawn = draw_constraint(asked.constraint, tried.value_or(""), limits);
  if (!drawn.ok()) {
    Error error = std::move(drawn).error();
    const bool slow = error.code == "grammar_too_complex" && error.kind != Error::Kind::too_large;
    if (slow && !call.may_be_slow) return call.run_again_slowly();
    error.message = fmt::format("{}: {}", asked.place, error.message);
    error.field = asked.place;
    return error;
  }
  std::string out;
  JsonWriter json(out);
  json.open('{').field("object", "grammar.graph").field("followed", drawn->followed);
  json.field("accepted", drawn->accepted).field("complete", drawn->complete);
  write_graph(json, drawn->graph);
  json.close('}');
  return net::HttpResponse::json(200, std::move(out));
}

}  // namespace

Result<> add_constraint_routes(net::Router& router, Service& service) {
  return router.add(net::Method::post, "/v1/grammar/graph", keeping(service, Dialect::openai, draw_graph));
}

}  // namespace espalier::server
