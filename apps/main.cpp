// The `espalier` command: finds the verb and runs it. What verbs do lies in command/ and serve/.
#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <new>

#include "command/command.h"
#include "command/engine_flags.h"
#include "serve/serve_command.h"

namespace espalier {
namespace {

int run(int argc, char** argv) {
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

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  using espalier::Error;
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return espalier::run(argc, argv);
  } catch (const std::bad_alloc&) {
    return espalier::command::fail({Error::Kind::out_of_memory,
                                    "out of memory: more of it (ulimit -v, a container's memory.max), a smaller model "
                                    "or a smaller --max-total-tokens would work",
                                    {},
                                    {}});
  } catch (const std::exception& failure) {
    return espalier::command::fail(espalier::internal_error(failure.what()));
  }
}
