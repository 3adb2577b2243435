// `espalier inspect MODEL`: hyperparameters, tensors, sizes and template, without loading a weight.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>

#include "command/command.h"
#include "command/output.h"
#include "engine/load/loaded_model.h"
#include "model/arch/table.h"
#include "model/weight_check.h"
#include "tensor/describe.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace espalier::command {
namespace {

void print_hyperparameters(const ModelFiles& files) {
  const ModelConfig& c = files.config;
  auto row = [](std::string_view name, const std::string& value) { fmt::print("  {:<18} {}\n", name, value); };
  fmt::print("hyperparameters\n");
  row("architecture", std::string(name(c.architecture)));
  row("vocabulary", std::to_string(c.vocabulary));
  row("hidden", std::to_string(c.hidden));
  row("inner", std::to_string(c.inner));
  row("layers", std::to_string(c.layers));
  row("heads", fmt::format("{} query, {} key/value, {} values each", c.heads, c.kv_heads, c.head_dim));
  row("norm epsilon", fmt::format("{}", c.norm_eps));
  row("rope", fmt::format("theta {}, {} dimensions", c.rope_theta, c.rope_dims));
  row("context", fmt::format("{} tokens", c.context_length));
  row("head", c.tied_head ? "tied to the embedding" : "own");
  row("end tokens", fmt::format("{}", fmt::join(c.eos, " ")));
  const auto longest = std::max_element(c.windows.begin(), c.windows.end());
  if (longest != c.windows.end() && *longest > 0) row("sliding window", fmt::format("{} tokens", *longest));
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
  ESP_TRY(const DecoderSpec spec, declare(files.config));
  ESP_CHECK(check_weights(Weights(*files.weights, files.naming), spec));
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
