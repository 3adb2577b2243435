// `espalier grammar`: the constraint engine by itself.
#include <fmt/format.h>

#include <fstream>
#include <iostream>

#include "bench/workload/json_lines.h"
#include "command/command.h"
#include "engine/load/loaded_model.h"
#include "grammar/graph/automaton_graph.h"
#include "grammar_tool/stdio.h"

namespace espalier::command {
namespace {

using grammar::explain;
using grammar::shortened;
using grammar::to_dot;
using grammar::to_svg;

constexpr std::size_t kMostTitle = 100;  // bytes

struct ExplainOptions {
  std::string regex, schema, ebnf, lark, tag;
  std::vector<std::string> choices;
  std::string tokenizer, output;
  bool flexible = false;
  int states = 60;
};

// The text itself, or the file of that name.
Result<std::string> text_or_file(const std::string& value) {
  if (value.find('\n') != std::string::npos || value.find('{') != std::string::npos) return value;
  auto text = bench::read_text_file(value);
  if (!text.ok() && text.error().kind == Error::Kind::not_found) return value;
  return text;
}

Result<Constraint> constraint_of(const ExplainOptions& o) {
  using Kind = Constraint::Kind;
  const std::pair<Kind, const std::string*> texts[] = {
      {Kind::json_schema, &o.schema}, {Kind::ebnf, &o.ebnf}, {Kind::lark, &o.lark}, {Kind::structural_tag, &o.tag}};
  std::vector<Constraint> given;
  if (!o.regex.empty()) given.push_back({Kind::regex, o.regex});
  if (!o.choices.empty()) given.push_back({Kind::choice, Json(o.choices).dump()});
  for (const auto& [kind, text] : texts) {
    if (text->empty()) continue;
    ESP_TRY(std::string read, text_or_file(*text));
    given.push_back({kind, std::move(read), o.flexible});
  }
  if (given.size() == 1) return given[0];
  return bad_request("explain takes one of --regex, --json-schema, --ebnf, --lark, --choice and --structural-tag");
}

Result<> explain_to(const ExplainOptions& o) {
  ESP_TRY(const Constraint constraint, constraint_of(o));
  std::shared_ptr<grammar::Vocabulary> vocabulary;
  if (o.tokenizer.empty()) {
    vocabulary = std::make_shared<grammar::Vocabulary>(std::vector<std::string>());
  } else {
    ESP_TRY(const auto tokenizer, open_tokenizer_at(o.tokenizer));
    vocabulary = grammar::Vocabulary::of(tokenizer);
  }
  ESP_TRY(const auto grammar, grammar::Grammar::compile(constraint, vocabulary));
  ESP_TRY(const auto explained, explain(*grammar, static_cast<std::size_t>(o.states)));
  const std::string title = shortened(constraint.text.substr(0, constraint.text.find('\n')), kMostTitle);
  const bool svg = o.output.ends_with(".svg");
  if (!svg && !o.output.empty() && !o.output.ends_with(".dot"))
    return bad_request("--output must end in .svg or .dot", "output");
  const std::string picture = svg ? to_svg(explained, title) : to_dot(explained, title);
  if (o.output.empty()) {
    std::cout << picture;
    return success();
  }
  std::ofstream file(o.output, std::ios::binary);
  if (!(file << picture).flush()) return Error{Error::Kind::bad_file, o.output + " cannot be written", "output", {}};
  std::cout << fmt::format("{}: {} states and {} edges raw, {} and {} compressed\n", o.output,
                           explained.raw.nodes.size(), explained.raw.edges.size(), explained.compressed.nodes.size(),
                           explained.compressed.edges.size());
  return success();
}

}  // namespace

Run add_grammar(CLI::App& app) {
  auto stdio = std::make_shared<bool>(false);
  auto options = std::make_shared<ExplainOptions>();
  auto* verb = app.add_subcommand("grammar", "the constraint engine by itself: compile, walk and match, draw");
  verb->add_flag("--stdio", *stdio, "answer JSON requests, one a line, from stdin on stdout");
  auto* explain = verb->add_subcommand("explain", "draw the automaton of a constraint, raw and compressed");
  explain->add_option("--regex", options->regex, "a pattern")->type_name("PATTERN");
  explain->add_option("--json-schema", options->schema, "a schema, or its file")->type_name("JSON");
  explain->add_option("--ebnf", options->ebnf, "rules (GBNF), or their file")->type_name("RULES");
  explain->add_option("--lark", options->lark, "rules (Lark), or their file")->type_name("RULES");
  explain->add_option("--structural-tag", options->tag, "a structural tag, or its file")->type_name("JSON");
  explain->add_option("--choice", options->choices, "a string; may be given several times")->type_name("TEXT");
  explain->add_flag("--flexible", options->flexible, "whitespace between JSON tokens");
  explain
      ->add_option("--tokenizer", options->tokenizer,
                   "a folder, tokenizer.json or GGUF file: how many of its tokens may come in each state")
      ->type_name("PATH");
  explain->add_option("--states", options->states, "states that are followed, at most")
      ->type_name("N")
      ->check(CLI::Range(1, 5000))
      ->capture_default_str();
  explain->add_option("--output", options->output, ".svg or .dot; none: DOT to stdout")->type_name("FILE");
  explain->footer(
      "A state whose ways on were not followed any more says so; most grammars have no end of states.\n"
      "  espalier grammar explain --regex '(yes|no), [a-z]+' --tokenizer smollm2.gguf --output yes.svg");
  return [stdio, options, explain] {
    if (explain->parsed()) {
      const auto drawn = explain_to(*options);
      return drawn.ok() ? 0 : fail(drawn.error());
    }
    if (!*stdio) return fail(bad_request("espalier grammar needs --stdio or explain"));
    serve_grammar(std::cin, std::cout);
    return 0;
  };
}

}  // namespace espalier::command
