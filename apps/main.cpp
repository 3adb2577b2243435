// The `espalier` command: finds the verb and runs it. What verbs do lies in command/ and serve/.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

#include "base/log.h"
#include "base/threads/start_thread.h"
#include "command/command.h"
#include "command/engine_flags.h"
#include "command/environment.h"
#include "command/help_format.h"
#include "command/output.h"
#include "serve/foreign_flags.h"
#include "serve/serve_command.h"

namespace espalier {
namespace {

using Words = std::vector<std::string>;

// `help`, `help VERB...` and `version` are what other programs call --help and --version. Help of help is help.
Words translated(int argc, char** argv) {
  Words words = command::translate_habits(argc, argv);
  if (words.empty()) return words;
  if (words.front() == "serve") return serve::respelled(std::move(words));
  if (words.front() == "version") words.front() = "--version";
  if (words.front() != "help") return words;
  words.erase(words.begin(), std::find_if(words.begin(), words.end(), [](auto& word) { return word != "help"; }));
  words.push_back("--help");
  return words;
}

int usage(const std::string& sentence) {
  return command::fail(bad_request(sentence));
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  if (app.get_parent() == nullptr) names.push_back("help");
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

// The verb that was meant, as far as the words reached: `bench latency`.
const CLI::App& deepest(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

std::string full_name(const CLI::App& verb) {
  return verb.get_parent() == nullptr ? verb.get_name() : full_name(*verb.get_parent()) + " " + verb.get_name();
}

std::string no_such(const CLI::App& verb, const std::string& word) {
  return fmt::format("there is no {} {}{}", full_name(verb), word, command::did_you_mean(word, verb_names(verb)));
}

// Behind `help` stand verbs, each one of the one before; the sentence about the first word that is none, or empty.
std::string not_a_verb(const CLI::App& app, const Words& words) {
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    if (word == "--help" || word == "-h") continue;  // translated() put one there
    const auto verbs = at->get_subcommands({});
    const auto found = std::find_if(verbs.begin(), verbs.end(), [&](auto* verb) { return verb->get_name() == word; });
    if (found == verbs.end()) return fmt::format("{}\n{} --help tells more", no_such(*at, word), full_name(*at));
    at = *found;
  }
  return {};
}

bool is_flag(const std::string& word) {
  return word.size() > 1 && word.front() == '-';
}

// CLI11 lists what is left over; the first word that nobody knows is what was wrong.
std::string unknown_word(const CLI::App& verb, const Words& words) {
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (is_flag(word) && verb.get_option_no_throw(name) == nullptr) return name;
  }
  return words.back();
}

// " (as ESPALIER_PORT says)" when the flag that a sentence of CLI11's is about has its value from the environment.
std::string said_by(const CLI::App& verb, const std::string& sentence, const Words& words) {
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_envname().empty() || std::getenv(option->get_envname().c_str()) == nullptr) continue;
    const auto given = [&](const std::string& word) { return option->check_name(word.substr(0, word.find('='))); };
    const std::size_t name = sentence.find(option->get_name());
    const std::size_t end = name + option->get_name().size();
    if (name == std::string::npos || (end < sentence.size() && sentence[end] != ' ' && sentence[end] != ':')) continue;
    if (std::none_of(words.begin(), words.end(), given)) return fmt::format(" (as {} says)", option->get_envname());
  }
  return {};
}

int explain(const CLI::App& app, const CLI::ParseError& wrong, const Words& words) {
  const CLI::App& verb = deepest(app);
  std::string sentence = wrong.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&wrong) != nullptr) {
    const std::string word = unknown_word(verb, words);
    sentence = fmt::format("{} is not known here{}", word, command::did_you_mean(word, command::long_names(verb)));
  } else if (!verb.get_subcommands({}).empty() && &verb != &app && words.size() > 1 && !is_flag(words[1])) {
    sentence = no_such(verb, words[1]);
  } else if (sentence.starts_with(':')) {  // CLI11 does not name an option that is not in --help
    sentence = (is_flag(words.back()) ? words.back() : "a flag") + sentence;
  } else {
    sentence += said_by(verb, sentence, words);
  }
  return usage(fmt::format("{}\n{} --help tells more", sentence, full_name(verb)));
}

constexpr const char* kWhatToType =
    "Espalier serves language models, and runs the programs that call them.\n"
    "\n"
    "  espalier run                chat in this terminal; proposes a model that fits this machine\n"
    "  espalier serve MODEL        serve it: OpenAI's routes and others, and a page at http://127.0.0.1:30000/\n"
    "  espalier list               the models on this machine\n"
    "  espalier help               all verbs\n";

int run(int argc, char** argv) {
  const Words words = translated(argc, argv);
  CLI::App app("Espalier: serves language models, and runs the programs that call them", "espalier");
  app.formatter(std::make_shared<command::HelpFormat>());
  app.set_version_flag("--version,-V", "espalier " ESPALIER_VERSION);
  app.require_subcommand(1);
  app.footer("espalier help VERB tells what it takes; espalier help flags, what becomes of other servers' flags.");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // a flag given again wins
  const std::map<std::string, command::Run> verbs = {
      {"serve", command::add_serve(app, words)}, {"run", command::add_run(app)},
      {"bench", command::add_bench(app)},        {"inspect", command::add_inspect(app)},
      {"pull", command::add_pull(app)},          {"list", command::add_list(app)},
      {"rm", command::add_remove(app)},          {"ps", command::add_ps(app)},
      {"show", command::add_show(app)},          {"plan", command::add_plan(app)},
      {"doctor", command::add_doctor(app)},      {"completion", command::add_completion(app)},
      {"program", command::add_program(app)},    {"grammar", command::add_grammar(app)},
      {"quantize", command::add_quantize(app)},  {"man", command::add_manual(app)},
  };
  if (words.empty()) {
    std::fputs(kWhatToType, stderr);
    return 2;
  }
  if (words.size() == 2 && words.front() == "flags" && words.back() == "--help") {
    command::put(serve::describe_foreign_flags());
    return command::end_output(0);
  }
  if (!words.front().starts_with('-') && !verbs.contains(words.front()))
    return usage(fmt::format("there is no verb {}{}\nespalier help lists the verbs", words.front(),
                             command::did_you_mean(words.front(), verb_names(app))));
  if (std::string_view(argv[1]) == "help") {
    if (const std::string wrong = not_a_verb(app, words); !wrong.empty()) return usage(wrong);
  }
  try {
    app.parse(Words(words.rbegin(), words.rend()));  // as CLI11 wants a vector
  } catch (const CLI::Success& shown) {
    return command::end_output(app.exit(shown));
  } catch (const CLI::ParseError& wrong) {
    return explain(app, wrong, words);
  }
  const std::string verb = app.get_subcommands().front()->get_name();
  if (verb != "serve") {  // which first has to know how its log looks
    if (const std::string unknown = command::unknown_variables(app); !unknown.empty()) log::warning("{}", unknown);
  }
  return command::end_output(verbs.at(verb)());
}

// fmt's, when stdout cannot be written, and std::thread's.
int system_failed(const std::system_error& failure) {
  const int number = failure.code().value();
  if (number == EAGAIN) return command::fail(no_thread("next", failure.code().message()));
  if (number == EPIPE || number == ENOSPC || number == EIO || number == EFBIG || number == EDQUOT)
    return command::output_failed(number);
  return command::fail(internal_error(failure.what()));
}

constexpr std::string_view kNoMemory =
    "out of memory: more of it (ulimit -v, a container's memory.max), a smaller model or a smaller --max-total-tokens "
    "would work";

// Nothing may be allocated any more.
[[noreturn]] void end_without_memory() {
  for (const std::string_view part : {std::string_view("espalier: "), kNoMemory, std::string_view("\n")})
    if (::write(STDERR_FILENO, part.data(), part.size()) < 0) break;
  std::_Exit(Error{Error::Kind::out_of_memory, {}, {}, {}}.exit_code());
}

// An allocation that fails on a thread of the engine or the server ends up here.
[[noreturn]] void terminated() {
  try {
    if (const auto failure = std::current_exception()) std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    end_without_memory();
  } catch (...) {
    std::abort();  // a bug: the core is wanted
  }
  std::abort();
}

// Libraries abort where an allocation of theirs fails: glibc when a thread first uses a variable of its own, Rust's always.
// Whether that was the reason shows a mapping as large as what malloc asks for last.
void aborted(int) {
  constexpr std::size_t kLastTry = 1 << 20;
  void* const probe = ::mmap(nullptr, kLastTry, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) end_without_memory();
  ::munmap(probe, kLastTry);
  std::signal(SIGABRT, SIG_DFL);  // and abort() raises it again
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  using espalier::Error;
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGABRT, espalier::aborted);
  std::set_terminate(espalier::terminated);
  try {
    return espalier::run(argc, argv);
  } catch (const std::bad_alloc&) {
    return espalier::command::fail({Error::Kind::out_of_memory, std::string(espalier::kNoMemory), {}, {}});
  } catch (const std::system_error& failure) {
    return espalier::system_failed(failure);
  } catch (const std::exception& failure) {
    return espalier::command::fail(espalier::internal_error(failure.what()));
  }
}
