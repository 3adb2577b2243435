// `espalier program FILE`: a program as data, run here or on a server.
#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <iterator>

#include "base/json/json_fields.h"
#include "bench/workload/json_lines.h"
#include "command/command.h"
#include "command/engine_flags.h"
#include "command/output.h"
#include "command/program_runner.h"
#include "espalier/compiler.h"

namespace espalier::command {
namespace {

constexpr int kFailed = 1;  // a run of the program has

struct ProgramArguments {
  std::string file, arguments, batch, draw;
  std::string model;
  ProgramServer server;
  std::vector<std::string> outputs, passes_on, passes_off;
  bool stream = false, report = false, json = false;
  double temperature = -1;
  int max_tokens = -1;
  std::int64_t seed = -1;
  EngineOptions engine;
};

Result<std::string> read_program(const std::string& file) {
  if (file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  return bench::read_text_file(file);
}

Result<Json> json_of(const std::string& text, const std::string& place) {
  auto json = parse_json(text);
  if (!json.ok()) return bad_request(fmt::format("{}: {}", place, json.error().message), place);
  return json;
}

// --args and --batch, as the body has them.
Result<Json> arguments_of(const ProgramArguments& a) {
  if (!a.batch.empty()) {
    Json list = Json::array();
    ESP_CHECK(bench::for_each_json_line(a.batch, std::nullopt, [&](const Json& one, std::size_t) {
      list.push_back(one);
      return success();
    }));
    return list;
  }
  if (a.arguments.empty()) return Json::object();
  if (!a.arguments.starts_with('@')) return json_of(a.arguments, "--args");
  ESP_TRY(const std::string text, bench::read_text_file(a.arguments.substr(1)));
  return json_of(text, a.arguments.substr(1));
}

Json sampling_of(const ProgramArguments& a) {
  Json sampling = Json::object();
  if (a.temperature >= 0) sampling["temperature"] = a.temperature;
  if (a.max_tokens >= 0) sampling["max_tokens"] = a.max_tokens;
  if (a.seed >= 0) sampling["seed"] = a.seed;
  return sampling;
}

Result<Json> body_of(const ProgramArguments& a, Json program) {
  Json passes = Json::object();
  Passes known;
  for (const auto& [names, on] : {std::pair(&a.passes_on, true), std::pair(&a.passes_off, false)})
    for (const std::string& name : *names) {
      ESP_CHECK(known.set(name, on));
      passes[name] = on;
    }
  Json body{{"program", std::move(program)}, {"sampling_params", sampling_of(a)}, {"passes", std::move(passes)}};
  ESP_TRY(body["arguments"], arguments_of(a));
  if (!a.outputs.empty()) body["outputs"] = a.outputs;
  return body;
}

// ---- What is printed ------------------------------------------------------------------------------------------------

void print_value(const std::string& name, const Json& value) {
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) print_value(fmt::format("{}[{}]", name, i), value[i]);
    return;
  }
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  put(fmt::format("{}:{}{}\n", name, text.find('\n') == std::string::npos ? ' ' : '\n', text));
}

std::string message_of(const Json& error) {
  const auto message = find_string(error, {"message"});
  return message.ok() && *message ? **message : error.dump();
}

// On stderr; false: there was none.
bool tell_errors(const Json& run, const std::string& which) {
  const Json* errors = find_field(run, "errors");
  const Json* whole = find_field(run, "error");
  if (errors != nullptr)
    for (const auto& [name, error] : errors->items())
      if (whole == nullptr || error != *whole)
        fmt::print(stderr, "espalier: {}{}: {}\n", which, printable(name), printable(message_of(error)));
  if (whole != nullptr) fmt::print(stderr, "espalier: {}{}\n", which, printable(message_of(*whole)));
  return errors != nullptr || whole != nullptr;
}

// False: something in it has failed.
bool print_run(const Json& run, std::size_t number, bool several) {
  if (several) put(fmt::format("{}--- run {}\n", number > 0 ? "\n" : "", number));
  const Json& variables = run["variables"];
  for (const auto& [name, value] : variables.items()) print_value(name, value);
  const Json* text = find_field(run, "text");
  if (variables.empty() && text != nullptr) put(text->get<std::string>() + "\n");
  return !tell_errors(run, several ? fmt::format("run {}: ", number) : "");
}

void print_report(const Json& report) {
  for (const Json& pass : report) {
    const Json& changes = pass["changes"];
    fmt::print(stderr, "{}: {}\n", pass["pass"].get<std::string>(),
               !pass["on"].get<bool>() ? "off"
               : changes.empty()       ? "nothing to change"
                                       : fmt::format("{} calls fewer a run, {} bytes of prompt shared",
                                                     pass["calls_saved"].get<std::int64_t>(),
                                                     pass["prompt_bytes_shared"].get<std::int64_t>()));
    for (const Json& change : changes) fmt::print(stderr, "  {}\n", printable(change.get<std::string>()));
  }
}

// The events of a stream, as they come.
class Teller {
 public:
  explicit Teller(const ProgramArguments& a) : json_(a.json), report_(a.report) {}

  Result<> tell(const Json& event) {
    ESP_TRY(const std::string type, get_string(event, {"type"}));
    if (report_ && type == "program") print_report(event["report"]);
    if (json_) put(event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    if (type == "run_end")
      fine_ = (json_ ? !event.contains("error") && !event.contains("errors") : end(event)) && fine_;
    if (!json_ && (type == "node" || type == "node_end")) node(event, type == "node_end");
    return success();
  }
  bool fine() const { return fine_; }

 private:
  void node(const Json& event, bool over) {
    const auto name = event.value("name", fmt::format("node {}", event["node"].get<int>()));
    const auto label = fmt::format("run {}, {}", event["run"].get<int>(), name);
    const bool chosen = over && (!begun_.contains(label) || begun_[label] == 0);
    if (!over || chosen) {
      const std::string piece = over ? event["value"].dump() : event["delta"].get<std::string>();
      if (label != open_) put(fmt::format("{}[{}] ", open_.empty() ? "" : "\n", label));
      put(piece);
      open_ = label;
      ++begun_[label];
    }
    if (over) begun_.erase(label);
  }
  bool end(const Json& run) {
    if (!open_.empty()) put("\n");
    open_.clear();
    return !tell_errors(run, fmt::format("run {}: ", run["run"].get<int>()));
  }

  const bool json_, report_;
  bool fine_ = true;
  std::string open_;                  // whose pieces the line has
  std::map<std::string, int> begun_;  // pieces of each that has not ended
};

Result<int> draw(const ProgramArguments& a, const Json& program) {
  ESP_TRY(const Graph graph, Graph::from_json(program));
  put(a.draw == "dot" ? as_dot(graph) : a.draw == "svg" ? as_svg(graph) : as_text(graph));
  return 0;
}

Result<int> run_program(ProgramArguments& a) {
  ESP_TRY(const std::string text, read_program(a.file));
  ESP_TRY(Json program, json_of(text, a.file == "-" ? "stdin" : a.file));
  if (!a.draw.empty()) return draw(a, program);
  ESP_TRY(const Json body, body_of(a, std::move(program)));
  Teller teller(a);
  OnEvent on_event;
  if (a.stream) on_event = [&teller](const Json& event) { return teller.tell(event); };
  Json answer;
  if (!a.server.base_url.empty()) {
    a.server.model = a.model;
    if (const char* key = std::getenv("OPENAI_API_KEY"); a.server.api_key.empty() && key != nullptr)
      a.server.api_key = key;
    ESP_TRY(answer, run_on_server(a.server, body, on_event));
  } else {
    const std::string name = a.model.empty() ? "smollm2-135m" : a.model;
    ESP_CHECK(a.engine.check());
    ESP_CHECK(find_models(name, a.engine));
    ESP_TRY(answer, run_in_process(a.engine, name, body, on_event));
  }
  if (a.stream) return teller.fine() ? 0 : kFailed;
  if (a.report) print_report(answer["report"]);
  const Json& results = answer["results"];
  bool fine = true;
  for (std::size_t i = 0; i < results.size(); ++i)
    fine = (a.json ? !results[i].contains("error") && !results[i].contains("errors")
                   : print_run(results[i], i, results.size() > 1)) &&
           fine;
  if (a.json) put(answer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  return fine ? 0 : kFailed;
}

}  // namespace

Run add_program(CLI::App& app) {
  auto a = std::make_shared<ProgramArguments>();
  auto* verb = app.add_subcommand("program", "run a program that is a graph in JSON, here or on a server");
  verb->add_option("file", a->file, "the graph, as to_json() writes it; - is stdin")->required();
  auto* one = verb->add_option("--args", a->arguments,
                               "arguments by name, a JSON object; or @ and the name of a file that holds one");
  verb->add_option("--batch", a->batch, "a file with the arguments of one run a line, each a JSON object")
      ->excludes(one);
  verb->add_option("--model", a->model,
                   "smollm2-135m, a GGUF file, a folder with config.json, or a hub repository; of a server: what it "
                   "calls the model. Default: smollm2-135m, the server's own");
  verb->add_option("--base-url", a->server.base_url,
                   "a server to run it on, as one request if it is Espalier's, else call by call");
  verb->add_option("--api-key", a->server.api_key, "of that server; default: the environment's OPENAI_API_KEY");
  verb->add_option("--outputs", a->outputs,
                   "NAME,NAME: the variables that are wanted; what only others need is left out")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb->add_flag("--stream", a->stream, "print what is generated as it comes");
  verb->add_option("--pass", a->passes_on, "a pass of the compiler that is to be on; may be given several times")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb->add_option("--no-pass", a->passes_off, "one that is to be off; may be given several times")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb->add_flag("--report", a->report, "print on stderr what each pass has changed");
  verb->add_option("--draw", a->draw, "draw the graph and run nothing: text, svg, or dot for Graphviz")
      ->check(CLI::IsMember({"text", "dot", "svg"}));
  verb->add_flag("--json", a->json, "print the whole answer as JSON; with --stream one event a line");
  verb->add_option("--temperature,--temp", a->temperature, "0 to 2, of generations that leave it open; default: 1")
      ->check(CLI::Range(0.0, 2.0));
  verb->add_option("--max-tokens,-n", a->max_tokens, "of a generation that leaves it open; default: 128")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--seed,-s", a->seed, "0 or more: makes sampling repeatable; default: another each time")
      ->check(CLI::NonNegativeNumber);
  add_engine_flags(*verb, a->engine);
  return [a] {
    const auto code = run_program(*a);
    return code.ok() ? *code : fail(code.error());
  };
}

}  // namespace espalier::command
