// `espalier show MODEL`: what a model is, in a few lines; only the heads of its files are read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "command/command.h"
#include "command/output.h"
#include "engine/load/loaded_model.h"
#include "espalier/json.h"
#include "model/weights/check.h"
#include "tensor/describe.h"
#include "text/answer/call_format.h"
#include "text/answer/thinking_format.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::command {
namespace {

// What requests may ask of the chat template.
Json template_facts(const ModelFiles& files) {
  if (files.chat_template.empty()) return nullptr;
  const SpecialTokens special = files.tokenizer ? files.tokenizer->special_tokens() : SpecialTokens{};
  const auto parsed = ChatTemplate::parse(files.chat_template, special, files.tool_template);
  if (!parsed.ok()) return Json{{"usable", false}, {"why_not", parsed.error().message}};
  const ThinkingFormat* thinking = thinking_format_of(parsed->source());
  const CallFormat* calls = call_format_of(parsed->tool_source());
  return Json{{"usable", true},
              {"tools", parsed->mentions("tools")},
              {"tool_call_parser", calls != nullptr ? Json(std::string(calls->name)) : Json()},
              {"reasoning_parser", thinking != nullptr ? Json(std::string(thinking->name)) : Json()},
              {"documents", parsed->mentions("documents")},
              {"thinking_switch", parsed->mentions("enable_thinking") || parsed->mentions("reasoning_effort")}};
}

// What loading would refuse.
Result<> servable(const ModelFiles& files) {
  ESP_CHECK(can_compute(files.config));
  return check_weights(Weights(*files.weights, files.naming), files.config.spec);
}

Json facts_of(const std::string& path, const ModelFiles& files) {
  const Contents contents = describe(*files.weights);
  const ModelConfig& c = files.config;
  Json facts = {{"path", path},
                {"architecture", c.class_name},
                {"model_type", c.architecture},
                {"parameters", contents.parameters()},
                {"layers", c.spec.layers.size()},
                {"hidden", c.spec.hidden},
                {"vocabulary", c.vocabulary},
                {"context_length", c.context_length},
                {"quantization", contents.tensors.empty() ? "" : dominant_type(*files.weights)},
                {"bits_per_parameter", contents.bits_per_parameter()},
                {"bytes", contents.bytes()}};
  facts["tokenizer"] = files.tokenizer ? Json{{"ids", files.tokenizer->size()},
                                              {"bos", files.tokenizer->bos().value_or(-1)},
                                              {"eos", files.tokenizer->eos().value_or(-1)},
                                              {"path", files.tokenizer_path}}
                                       : Json();
  facts["chat_template"] = template_facts(files);
  facts["reads_pictures"] = files.tower.has_value();
  facts["tower"] = files.tower_path.empty() ? Json() : Json(files.tower_path);
  const auto fine = servable(files);
  facts["servable"] = fine.ok();
  if (!fine.ok()) facts["why_not"] = fine.error().message;
  return facts;
}

std::string words_of_template(const Json& facts) {
  if (facts.is_null()) return "none: /v1/completions and /generate only";
  if (!facts["usable"].get<bool>()) return "cannot be used: " + printable(facts["why_not"].get<std::string>());
  std::vector<std::string> words;
  const auto named = [&](const char* what, const Json& name) {
    if (name.is_string()) words.push_back(fmt::format("{} ({})", what, name.get<std::string>()));
  };
  if (facts["tools"].get<bool>() && facts["tool_call_parser"].is_null()) words.emplace_back("tools");
  named("tools", facts["tool_call_parser"]);
  named("thinking", facts["reasoning_parser"]);
  if (facts["thinking_switch"].get<bool>()) words.emplace_back("thinking can be switched");
  if (facts["documents"].get<bool>()) words.emplace_back("documents");
  return words.empty() ? "plain chat" : fmt::format("{}", fmt::join(words, ", "));
}

void print(const Json& facts) {
  const auto row = [](std::string_view name, const std::string& value) {
    put(fmt::format("  {:<16} {}\n", name, printable(value)));
  };
  put(printable(facts["path"].get<std::string>()) + "\n");
  row("architecture", facts["architecture"].get<std::string>());
  row("parameters", shown_count(facts["parameters"].get<std::uint64_t>()));
  row("layers",
      fmt::format("{} of {} values", facts["layers"].get<std::size_t>(), facts["hidden"].get<std::int64_t>()));
  row("context", fmt::format("{} tokens", facts["context_length"].get<std::int64_t>()));
  row("quantisation",
      fmt::format("{} ({:.2f} bits a parameter, {})", facts["quantization"].get<std::string>(),
                  facts["bits_per_parameter"].get<double>(), shown_bytes(facts["bytes"].get<std::uint64_t>())));
  const Json& tokenizer = facts["tokenizer"];
  row("tokenizer", tokenizer.is_null() ? std::string("none: token ids only")
                                       : fmt::format("{} ids, begin {}, end {}", tokenizer["ids"].get<std::int64_t>(),
                                                     tokenizer["bos"].get<int>(), tokenizer["eos"].get<int>()));
  row("chat template", words_of_template(facts["chat_template"]));
  if (facts["reads_pictures"].get<bool>())
    row("pictures", facts["tower"].is_null() ? "yes" : "yes, by " + facts["tower"].get<std::string>());
  row("servable", facts["servable"].get<bool>() ? "yes" : "no: " + facts["why_not"].get<std::string>());
}

int show(const std::string& model, bool json) {
  EngineOptions options;
  auto path = find_local_model(model);
  if (!path.ok()) return fail(path.error());
  options.model_path = *path;
  const auto files = open_model_files(options);
  if (!files.ok()) return fail(files.error());
  const Json facts = facts_of(*path, *files);
  if (json)
    put_json(facts);
  else
    print(facts);
  return 0;
}

}  // namespace

Run add_show(CLI::App& app) {
  struct Arguments {
    std::string model;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("show", "what a model is: architecture, size, context, template, tokenizer");
  verb->add_option("model", a->model, "a GGUF file, a folder with config.json, or a name of `espalier list`")
      ->required();
  verb->add_flag("--json", a->json, "as JSON");
  return [a] { return show(a->model, a->json); };
}

}  // namespace espalier::command
