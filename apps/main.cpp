// The `espalier` command: finds the verb and runs it. What verbs do lies in command/ and serve/.
#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>

#include "command/command.h"
#include "command/engine_flags.h"
#include "serve/serve_command.h"

int main(int argc, char** argv) {
  using namespace espalier;
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Espalier: serves language models, and runs the programs that call them", "espalier");
  app.set_version_flag("--version", ESPALIER_VERSION);
  app.require_subcommand(1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // a flag given again wins
  const std::map<std::string, command::Run> verbs = {
      {"serve", command::add_serve(app)},     {"run", command::add_run(app)},   {"bench", command::add_bench(app)},
      {"inspect", command::add_inspect(app)}, {"pull", command::add_pull(app)}, {"list", command::add_list(app)},
  };
  auto words = command::translate_habits(argc, argv);
  std::reverse(words.begin(), words.end());  // as CLI11 wants a vector
  try {
    app.parse(words);
  } catch (const CLI::Success& shown) {
    return app.exit(shown);
  } catch (const CLI::ParseError& wrong) {
    app.exit(wrong);
    return 2;
  }
  return verbs.at(app.get_subcommands().front()->get_name())();
}
