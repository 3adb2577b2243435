#include "lang/compiler/served_batch.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "lang/choices/choices.h"
#include "lang/compiler/streams.h"
#include "lang/graph/options_json.h"
#include "lang/state_core.h"

namespace espalier::lang {
namespace {

constexpr std::size_t kMostCalls = 2048;  // of one request: half of what a server takes unless it is told otherwise

bool has_json_form(const Graph::Content& content) {
  if (std::holds_alternative<node::Media>(content)) return false;
  if (const auto* score = std::get_if<node::Score>(&content)) return score->options.backend == nullptr;
  const auto* select = std::get_if<node::Select>(&content);
  return select == nullptr || is_of_the_language(select->method.get());
}

// Whether the program's own state is in a turn behind its last node.
bool stays_open(const Graph& graph) {
  bool open = false;
  for (const Graph::Node& one : graph.nodes) {
    if (one.stream != 0) continue;
    if (std::holds_alternative<node::RoleBegin>(one.content)) open = true;
    if (std::holds_alternative<node::RoleEnd>(one.content)) open = false;
  }
  return open;
}

std::size_t calls_of(const Graph& graph, const GenOptions& defaults) {
  std::size_t calls = 0;
  for (const Graph::Node& one : graph.nodes) {
    if (const auto* gen = gen_of(one.content))
      calls += static_cast<std::size_t>(std::max(1, gen->options.n.value_or(defaults.n.value_or(1))));
    if (const auto* select = std::get_if<node::Select>(&one.content)) calls += 2 * select->choices.size();
    if (std::holds_alternative<node::ScoredText>(one.content)) ++calls;
  }
  return calls;
}

}  // namespace

std::optional<ServedProgram> ServedProgram::of(const Graph& graph, const CompileOptions& options) {
  ServedProgram served;
  served.server_ = options.backend->programs();
  if (!served.server_ || !graph.ends_because.empty() || stays_open(graph)) return std::nullopt;
  if (!std::ranges::all_of(graph.nodes, has_json_form, &Graph::Node::content)) return std::nullopt;
  served.name_ = graph.name;
  served.parameters_ = graph.parameters;
  const auto names = names_of_program(graph);
  served.names_.assign(names.begin(), names.end());
  served.most_runs_ =
      std::max<std::size_t>(1, kMostCalls / std::max<std::size_t>(1, calls_of(graph, options.defaults)));
  served.body_ = {{"program", graph.to_json()}, {"sampling_params", options_to_json(options.defaults)}};
  for (const std::string_view pass : Passes::names())
    if (pass != "submit_batches") served.body_["passes"][std::string(pass)] = options.passes.is_on(pass);
  return served;
}

std::shared_ptr<ServedRuns> ServedProgram::begin(std::span<const Arguments> items) const {
  Json body = body_;
  Json& all = body["arguments"] = Json::array();
  for (const Arguments& item : items) {
    Json values = Json::object();
    for (const auto& [name, value] : item.values()) values[name] = value;
    all.push_back(std::move(values));
  }
  return server_->begin(std::move(body), items.size());
}

State ServedProgram::run(std::shared_ptr<ServedRuns> runs, std::size_t number, const RunOptions& options) const {
  auto item = std::make_shared<const ServedItem>(ServedItem{std::move(runs), number, names_});
  return Function(name_, {}, [item](State& s, const Arguments&) { s.core()->append(GraphItem(item)); })
      .run({}, options);
}

bool ServedProgram::takes(const Arguments& arguments) const {
  const auto is_parameter = [&](const auto& one) {
    return std::ranges::find(parameters_, one.first) != parameters_.end();
  };
  return arguments.values().size() == parameters_.size() && std::ranges::all_of(arguments.values(), is_parameter);
}

ServedBatch::ServedBatch(ServedProgram program, std::vector<Arguments> items, std::size_t at_once, RunOptions options,
                         Begin otherwise)
    : program_(std::move(program)),
      items_(std::move(items)),
      at_once_(std::min(at_once, program_.most_runs())),
      options_(std::move(options)),
      otherwise_(std::move(otherwise)) {}

ServedBatch::~ServedBatch() {
  if (runs_) runs_->close();
}

State ServedBatch::begin(std::size_t item) {
  if (item == end_) request(item);
  return runs_ ? program_.run(runs_, item - first_, options_) : otherwise_(items_[item]);
}

// For the items from `first` on, up to one that says itself what is wrong with it.
void ServedBatch::request(std::size_t first) {
  if (runs_) runs_->close();
  runs_ = nullptr;
  first_ = end_ = first;
  while (!refused_ && end_ < items_.size() && end_ - first_ < at_once_ && program_.takes(items_[end_])) ++end_;
  if (end_ == first_) {
    ++end_;
    return;
  }
  auto runs = program_.begin(std::span(items_).subspan(first_, end_ - first_));
  const auto accepted = runs->accepted();
  if (accepted.ok()) {
    runs_ = std::move(runs);
    return;
  }
  log::info("the server does not take the batch as one request ({}); it is made call by call",
            accepted.error().message);
  refused_ = true;
}

}  // namespace espalier::lang
