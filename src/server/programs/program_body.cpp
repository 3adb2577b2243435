#include "server/programs/program_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "lang/choices/choices.h"
#include "lang/compiler/streams.h"
#include "lang/gen_options.h"
#include "lang/graph/options_json.h"
#include "server/fields/request_names.h"
#include "server/programs/program_host.h"

namespace espalier::server {
namespace {

using P = ProgramBody;

constexpr std::int64_t kMostRuns = 4096;
constexpr std::int64_t kNodeBytes = 256;  // of a queued node beside its text, about

Error placed(Error error, std::string_view place) {
  if (error.field.empty())
    error.field = place;
  else if (error.message.starts_with(error.field))
    error.message.insert(0, fmt::format("{}.", place));
  if (error.field != place) error.field.insert(0, fmt::format("{}.", place));
  return error;
}

Result<> read_graph(P& out, const Json& value, std::string_view place) {
  auto graph = Graph::from_json(value);
  if (!graph.ok()) return graph.error().field == place ? graph.error() : placed(std::move(graph).error(), place);
  out.graph = std::move(graph).value();
  if (out.graph.ends_because.empty()) return success();
  return bad_request(fmt::format("the program is only a beginning: {}", out.graph.ends_because),
                     "program.ends_because");
}

Result<Arguments> read_one(const Json& value, const std::string& place) {
  if (!value.is_object()) return bad_request(fmt::format("{} must be an object, name to value", place), place);
  Arguments arguments;
  for (const auto& [name, argument] : value.get_ref<const Json::object_t&>()) arguments.set(name, argument);
  return arguments;
}

Result<> read_arguments(P& out, const Json& value, std::string_view place) {
  if (!value.is_array()) {
    ESP_TRY(Arguments one, read_one(value, std::string(place)));
    out.arguments.push_back(std::move(one));
    return success();
  }
  if (value.empty() || std::ssize(value) > kMostRuns)
    return bad_request(fmt::format("{} must be an object, or a list of 1 to {}", place, kMostRuns), std::string(place));
  for (std::size_t i = 0; i < value.size(); ++i) {
    ESP_TRY(Arguments one, read_one(value[i], fmt::format("{}[{}]", place, i)));
    out.arguments.push_back(std::move(one));
  }
  return success();
}

Result<> read_defaults(P& out, const Json& value, std::string_view place) {
  if (!value.is_object()) return bad_request(fmt::format("{} must be an object", place), std::string(place));
  ESP_TRY(out.defaults, lang::options_from_json(value, std::string(place)));
  auto fine = lang::check(out.defaults);
  return fine.ok() ? fine : placed(std::move(fine).error(), place);
}

Result<> read_passes(P& out, const Json& value, std::string_view place) {
  if (!value.is_object())
    return bad_request(fmt::format("{} must be an object, name to true or false", place), std::string(place));
  for (const auto& [name, on] : value.get_ref<const Json::object_t&>()) {
    const std::string field = fmt::format("{}.{}", place, name);
    ESP_TRY(const bool wanted, as_bool(on, field));
    auto set = out.passes.set(name, wanted);
    if (!set.ok()) return bad_request(fmt::format("{}: {}", field, set.error().message), field);
  }
  return success();
}

Result<> read_outputs(P& out, const Json& value, std::string_view place) {
  if (!value.is_array()) return bad_request(fmt::format("{} must be a list of names", place), std::string(place));
  ESP_TRY(out.outputs, as_strings(value, place));
  return success();
}

constexpr FieldRow<P> kRows[] = {
    {"program", &read_graph, "none", "the graph, as Graph::to_json() writes it"},
    {"arguments", &read_arguments, "{}", "of one run, name to value; or a list of such, one for each run"},
    {"sampling_params", &read_defaults, "{}", "what generations leave open, by the names of a gen()'s options"},
    {"passes", &read_passes, "{}", "the compiler's, each true or false"},
    {"outputs", &read_outputs, "all, and the text", "the variables that are wanted"},
    {"model", &P::model, "the served model", "a served name, \"default\" or nothing"},
    {"stream", &P::stream, "false", "server-sent events"},
    {"nodes", &P::nodes, "true", "of a stream: false tells the ends of runs alone"},
    {"rid", &read_short<P, &P::rid, kMostIdBytes>, "made up", "the request's id, where its calls' ids begin"},
    kAdapterRow<P>,
    {"cache_salt", &read_short<P, &P::cache_salt, kMostSaltBytes>, "none",
     "requests of different salts share no cached prefix"},
    {"extra_key", &read_short<P, &P::extra_key, kMostSaltBytes>, "none", "the same; both count"},
    {"priority", &P::priority, "0", "larger runs first under --schedule-policy priority", {-1e9, 1e9}},
    {"user", &read_short<P, &P::user, kMostSaltBytes>, "none", "who is asking, of the key: for --fair-tenants"},
    {"background", &P::background, "false", "runs only when nothing else waits, and gives way to what comes"},
    {"deadline_ms", &P::deadline_ms, "none", "each call waits at most so many milliseconds to begin", {1, 86'400'000}},
};

Result<> check_arguments(const P& body, bool batch) {
  const auto& parameters = body.graph.parameters;
  for (std::size_t i = 0; i < body.arguments.size(); ++i) {
    const std::string place = batch ? fmt::format("arguments[{}]", i) : "arguments";
    const auto& values = body.arguments[i].values();
    for (const std::string& name : parameters)
      if (!values.contains(name))
        return bad_request(fmt::format("{}.{} is missing: it is a parameter of the program", place, name),
                           fmt::format("{}.{}", place, name));
    for (const auto& [name, value] : values)
      if (std::ranges::find(parameters, name) == parameters.end())
        return bad_request(fmt::format("{}.{} is no parameter of the program; it has {}", place, name,
                                       parameters.empty() ? "none" : fmt::format("{}", fmt::join(parameters, ", "))),
                           fmt::format("{}.{}", place, name));
  }
  return success();
}

Result<> check_outputs(const P& body) {
  if (!body.outputs) return success();
  const auto names = lang::names_of_program(body.graph);
  for (std::size_t i = 0; i < body.outputs->size(); ++i) {
    const std::string& name = (*body.outputs)[i];
    if (names.contains(name)) continue;
    return bad_request(fmt::format("outputs[{}] is {}, but the program sets {}", i, in_quotes(name, 40),
                                   names.empty() ? "no variable" : fmt::format("{}", fmt::join(names, ", "))),
                       fmt::format("outputs[{}]", i));
  }
  return success();
}

// Whether the engine would take such a generation, whatever its prompt.
Result<Request> tried(const GenOptions& defaults, const GenOptions& options, const ChatFormat& format,
                      const ModelLimits& limits) {
  auto call = lang::gen_call(defaults, options, format);
  if (!call.ok()) return std::move(call).error();
  RequestFields fields;
  fields.prompt = {0};
  fields.sampling = call->sampling;
  fields.logprobs.enabled = call->return_logprob;
  fields.logprobs.top = call->top_logprobs_num.value_or(0);
  auto made = make_request(std::move(fields), limits, {});
  return made.ok() ? std::move(made) : Result<Request>(in_program_names(std::move(made).error()));
}

std::int64_t logprobs_of(const Request& request, const GenOptions& defaults, const GenOptions& options,
                         const ModelLimits& limits) {
  if (!request.fields().logprobs.enabled) return 0;
  const bool of_prompt = options.logprob_start_len.value_or(defaults.logprob_start_len.value_or(-1)) >= 0;
  const std::int64_t positions = request.max_new_tokens() + (of_prompt ? limits.context_length : 0);
  return positions * (1 + request.fields().logprobs.top) * request.sampling().n;
}

// What one run asks for.
class Costs {
 public:
  Costs(const P& body, const ChatFormat& format, const ModelLimits& limits)
      : body_(body), format_(format), limits_(limits) {}

  Result<ProgramCost> sum() {
    for (at_ = 0; at_ < body_.graph.nodes.size(); ++at_)
      ESP_CHECK(std::visit([this](const auto& content) { return add(content); }, body_.graph.nodes[at_].content));
    cost_.nodes = std::ssize(body_.graph.nodes);
    cost_.bytes += cost_.nodes * kNodeBytes;
    return cost_;
  }

 private:
  Result<> add(const node::Gen& gen) { return add_gen(gen, 0); }
  Result<> add(const Graph::Sample& sample) {
    return add_gen(sample.gen, groups_.insert(sample.group).second ? sample.of : 1);
  }
  // `samples`: of one call; 0: as the options say.
  Result<> add_gen(const node::Gen& gen, int samples) {
    auto request = tried(body_.defaults, gen.options, format_, limits_);
    if (!request.ok()) return placed(std::move(request).error(), fmt::format("program.nodes[{}].options", at_));
    const int n = samples > 0 ? samples : request->sampling().n;
    cost_.calls += n;
    cost_.logprobs += logprobs_of(*request, body_.defaults, gen.options, limits_);
    return success();
  }
  Result<> add(const node::Select& select) {
    SelectCall call{select.choices, select.method, select.temperature};
    if (auto fine = lang::check_select(call); !fine.ok())
      return placed(std::move(fine).error(), fmt::format("program.nodes[{}]", at_));
    cost_.calls += std::ssize(select.choices) * (call.method->needs_unconditional() ? 2 : 1);
    for (const std::string& choice : select.choices) cost_.bytes += std::ssize(choice);
    return success();
  }
  Result<> add(const node::ScoredText&) {
    ++cost_.calls;
    return success();
  }
  Result<> add(const node::Text& text) {
    cost_.bytes += std::ssize(text.text);
    return success();
  }
  Result<> add(const node::Media& media) {
    cost_.bytes += std::ssize(media.picture->bytes);
    return success();
  }
  Result<> add(const node::Argument& argument) {
    ++appended_[argument.name];
    return success();
  }
  template <class T>
  Result<> add(const T&) {
    return success();
  }

  const P& body_;
  const ChatFormat& format_;
  const ModelLimits& limits_;
  std::size_t at_ = 0;
  ProgramCost cost_;
  std::set<int> groups_;

 public:
  std::map<std::string, std::int64_t> appended_;  // how often an argument is
};

// As text.
std::int64_t argument_bytes(const Json& value) {
  return value.is_string() ? std::ssize(value.get_ref<const std::string&>()) : std::ssize(value.dump());
}

}  // namespace

Error in_program_names(Error error) {
  static const std::array<Alias, 4> names{{{"max_new_tokens", "max_tokens"},
                                           {"min_new_tokens", "min_tokens"},
                                           {"sampling_seed", "seed"},
                                           {"input_ids", "text"}}};
  return renamed(std::move(error), names);
}

Result<ProgramBody> parse_program(const Json& body) {
  ProgramBody out;
  if (find_field(body, "program") == nullptr) return bad_request("program is missing; send a graph", "program");
  ESP_CHECK(read_fields(body, std::span<const FieldRow<P>>(kRows), out));
  if (out.arguments.empty()) out.arguments.emplace_back();
  const Json* arguments = find_field(body, "arguments");
  ESP_CHECK(check_arguments(out, arguments != nullptr && arguments->is_array()));
  ESP_CHECK(check_outputs(out));
  return out;
}

std::span<const FieldRow<ProgramBody>> program_rows() {
  return kRows;
}

std::vector<std::string> unknown_program_fields(const Json& body) {
  return KnownNames().with(program_rows()).unknown_in(body);
}

Result<ProgramCost> check_program(const ProgramBody& body, const ChatFormat& format, const ModelLimits& limits,
                                  const ServerOptions& options) {
  // A model that gives vectors or scores has no use for them.
  if (auto defaults = tried({}, body.defaults, format, limits); !defaults.ok() && !limits.pools)
    return placed(std::move(defaults).error(), "sampling_params");
  Costs costs(body, format, limits);
  ESP_TRY(ProgramCost cost, costs.sum());
  const std::int64_t runs = std::ssize(body.arguments);
  cost.calls *= runs;
  cost.bytes *= runs;
  cost.nodes *= runs;
  cost.logprobs *= runs;
  for (const Arguments& arguments : body.arguments)
    for (const auto& [name, value] : arguments.values())
      if (const auto times = costs.appended_.find(name); times != costs.appended_.end())
        cost.bytes += times->second * argument_bytes(value);
  if (cost.calls > options.max_program_calls)
    return bad_request(fmt::format("the program makes {} calls in {} runs, {} are allowed (--max-program-calls); send "
                                   "fewer arguments at once",
                                   cost.calls, runs, options.max_program_calls),
                       "arguments", "program_too_large");
  if (cost.bytes > kMostProgramBytes)
    return Error{Error::Kind::too_large,
                 fmt::format("the program's nodes and texts are {} bytes in {} runs, {} are allowed; send fewer "
                             "arguments at once",
                             cost.bytes, runs, kMostProgramBytes),
                 "arguments", "program_too_large"};
  if (cost.logprobs > options.max_logprob_entries)
    return bad_request(
        fmt::format("the program may ask for {} log-probabilities, but at most {} are given at once; ask for fewer "
                    "(max_tokens, logprob_start_len, top_logprobs_num)",
                    cost.logprobs, options.max_logprob_entries),
        "program");
  return cost;
}

}  // namespace espalier::server
