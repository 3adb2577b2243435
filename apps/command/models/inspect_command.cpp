// `espalier inspect MODEL`: hyperparameters, tensors, sizes and template, without loading a weight.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <functional>

#include "command/command.h"
#include "command/output.h"
#include "engine/load/loaded_model.h"
#include "model/program/builder.h"
#include "model/weights/check.h"
#include "tensor/describe.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::command {
namespace {

// "4 x 16 keys, 4 x 16 values" of each kind of layer, and how many there are.
void print_kept(const Keeps& keeps, const std::function<void(std::string_view, const std::string&)>& row) {
  std::vector<std::pair<TokenField, int>> kinds;
  for (const TokenField& field : keeps.per_token) {
    const auto known = std::ranges::find(kinds, field, &std::pair<TokenField, int>::first);
    if (known == kinds.end())
      kinds.emplace_back(field, 1);
    else
      ++known->second;
  }
  for (const auto& [f, count] : kinds)
    row("kept per token", fmt::format("{} x {} heads of {} key values, {}{}", count, f.heads, f.key_dim,
                                      f.latent ? fmt::format("the first {} the value too", f.value_dim)
                                               : fmt::format("{} values", f.value_dim),
                                      f.window > 0 ? fmt::format(", window {}", f.window) : ""));
  if (keeps.state_floats > 0)
    row("kept per sequence", fmt::format("a state of {}", shown_bytes(keeps.state_floats * sizeof(float))));
}

void print_hyperparameters(const ModelFiles& files) {
  const ModelConfig& c = files.config;
  auto row = [](std::string_view name, const std::string& value) { fmt::print("  {:<18} {}\n", name, value); };
  fmt::print("hyperparameters\n");
  row("architecture", c.architecture);
  row("vocabulary", std::to_string(c.vocabulary));
  row("hidden", std::to_string(c.spec.hidden));
  row("layers", std::to_string(c.spec.layers.size()));
  row("norm epsilon", fmt::format("{:g}", c.spec.norm.eps));
  row("context", fmt::format("{} tokens", c.context_length));
  row("end tokens", fmt::format("{}", fmt::join(c.eos, " ")));
  const Weights weights(*files.weights, files.naming);
  if (const auto program = Builder::build(c.spec, &weights); program.ok()) print_kept(program->keeps, row);
}

void print_contents(const Contents& contents, bool all) {
  fmt::print("contents\n  {} parameters, {} ({:.2f} bits each)\n", shown_count(contents.parameters()),
             shown_bytes(contents.bytes()), contents.bits_per_parameter());
  for (const TypeUse& type : contents.types)
    fmt::print("  {:<8} {:>5} tensors {:>10} parameters {:>10}\n", name(type.type), type.tensors,
               shown_count(type.parameters), shown_bytes(type.bytes));
  if (!all) return;
  fmt::print("tensors\n");
  for (const TensorUse& tensor : contents.tensors)
    fmt::print("  {:<48} {:<8} [{}] {}\n", printable(tensor.name), name(tensor.type), fmt::join(tensor.shape, ", "),
               shown_bytes(tensor.bytes));
}

// What loading would refuse, asked without reading a weight.
Result<> servable(const ModelFiles& files) {
  ESP_CHECK(can_compute(files.config));
  ESP_CHECK(check_weights(Weights(*files.weights, files.naming), files.config.spec));
  return files.weights->intact();
}

void print_text(const ModelFiles& files) {
  if (files.tokenizer)
    fmt::print("tokenizer\n  {} ids, begin {}, end {}\n", files.tokenizer->size(), files.tokenizer->bos().value_or(-1),
               files.tokenizer->eos().value_or(-1));
  else
    fmt::print("tokenizer\n  none: token ids only\n");
  fmt::print("chat template\n{}\n", files.chat_template.empty() ? "  none" : printable(files.chat_template));
  if (files.chat_template.empty() || !files.tokenizer) return;
  const auto parsed = ChatTemplate::parse(files.chat_template, files.tokenizer->special_tokens());
  if (!parsed.ok())
    fmt::print(stderr, "espalier: the chat template cannot be used: {}\n", printable(parsed.error().message));
}

int inspect(const std::string& model, bool all) {
  EngineOptions options;
  auto path = find_model(model);
  if (!path.ok()) return fail(path.error());
  options.model_path = *path;
  const auto files = open_model_files(options);
  if (!files.ok()) return fail(files.error());
  fmt::print("{}\n", printable(*path));
  print_hyperparameters(*files);
  print_contents(describe(*files->weights), all);
  print_text(*files);
  if (const auto fine = servable(*files); !fine.ok()) {
    Error refused = fine.error();
    refused.message = "this model cannot be run: " + refused.message;
    return fail(refused);
  }
  return 0;
}

}  // namespace

Run add_inspect(CLI::App& app) {
  struct Arguments {
    std::string model;
    bool brief = false;
  };
  auto a = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("inspect", "print a model's hyperparameters, tensors, sizes and template");
  verb->add_option("model", a->model, "a GGUF file, a folder with config.json, or a name")->required();
  verb->add_flag("--brief", a->brief, "leave the list of tensors out");
  return [a] { return inspect(a->model, !a->brief); };
}

}  // namespace espalier::command
