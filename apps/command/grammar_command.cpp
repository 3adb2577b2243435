// `espalier grammar`: the constraint engine by itself.
#include <iostream>

#include "command/command.h"
#include "grammar_tool/stdio.h"

namespace espalier::command {

Run add_grammar(CLI::App& app) {
  auto stdio = std::make_shared<bool>(false);
  auto* verb = app.add_subcommand("grammar", "the constraint engine by itself: compile, walk and match");
  verb->add_flag("--stdio", *stdio, "answer JSON requests, one a line, from stdin on stdout");
  return [stdio] {
    if (!*stdio) return fail(bad_request("espalier grammar needs --stdio"));
    serve_grammar(std::cin, std::cout);
    return 0;
  };
}

}  // namespace espalier::command
