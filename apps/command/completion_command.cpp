// `espalier completion bash|zsh|fish`: a script for the shell, made from the verbs and flags that there are.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "command/command.h"
#include "command/output.h"

namespace espalier::command {
namespace {

// A verb as a shell completes it: what stands behind it.
struct Completed {
  std::string words;                 // "bench latency"
  std::vector<std::string> flags;    // with their dashes
  std::vector<std::string> effects;  // of the flags
  std::vector<std::string> verbs;    // that follow it
  std::string effect;
};

// One line of help without what a shell would read as its own.
std::string plain(std::string text) {
  std::erase_if(text, [](char c) { return c == '\'' || c == '"' || c == '`' || c == '\\' || c == '$' || c == '\n'; });
  return text;
}

Completed completed(const CLI::App& verb, const std::string& words) {
  Completed one{words, {}, {}, {}, plain(verb.get_description())};
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_group().empty() || option->get_lnames().empty()) continue;  // not in --help
    one.flags.push_back("--" + option->get_lnames().front());
    one.effects.push_back(plain(option->get_description()));
  }
  for (const CLI::App* next : verb.get_subcommands({})) one.verbs.push_back(next->get_name());
  return one;
}

void collect(const CLI::App& verb, const std::string& words, std::vector<Completed>& to) {
  to.push_back(completed(verb, words));
  for (const CLI::App* next : verb.get_subcommands({}))
    collect(*next, words.empty() ? next->get_name() : words + " " + next->get_name(), to);
}

// Verbs whose first word is a model.
constexpr std::string_view kOfModels = "serve run inspect show plan rm";

std::string bash(const std::vector<Completed>& all) {
  std::string cases;
  for (const Completed& one : all)
    cases +=
        fmt::format("    '{}') words='{} {}' ;;\n", one.words, fmt::join(one.verbs, " "), fmt::join(one.flags, " "));
  return "# espalier completion bash: source it, or put it in ~/.local/share/bash-completion/completions/espalier\n"
         "_espalier() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} path= words= word next\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    next=${path:+$path }$word\n"
         "    case \" $(_espalier_paths) \" in *\"|$next|\"*) path=$next ;; *) break ;; esac\n"
         "  done\n"
         "  case $path in\n" +
         cases +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n" +
         fmt::format("  case \" {} \" in *\" $path \"*)\n", kOfModels) +
         "    [[ $current == -* ]] || COMPREPLY+=($(compgen -W \"$(espalier list 2>/dev/null | cut -d ' ' -f 1)\" -- "
         "\"$current\"))\n"
         "  esac\n"
         "}\n"
         "_espalier_paths() {\n  echo '|" +
         [&] {
           std::string paths;
           for (const Completed& one : all)
             if (!one.words.empty()) paths += one.words + "|";
           return paths;
         }() +
         "'\n}\ncomplete -o default -F _espalier espalier\n";
}

std::string zsh(const std::vector<Completed>& all) {
  return "#compdef espalier\n"
         "# espalier completion zsh: put it in a folder of $fpath as _espalier, or source it behind compinit\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash(all);
}

std::string fish(const std::vector<Completed>& all) {
  std::string text = "# espalier completion fish: put it in ~/.config/fish/completions/espalier.fish\n";
  for (const Completed& one : all) {
    if (one.words.empty()) continue;
    const auto space = one.words.find(' ');
    const std::string first = one.words.substr(0, space);
    const std::string when =
        space == std::string::npos ? "__fish_use_subcommand" : fmt::format("__fish_seen_subcommand_from {}", first);
    text += fmt::format("complete -c espalier -n '{}' -f -a '{}' -d '{}'\n", when,
                        space == std::string::npos ? first : one.words.substr(space + 1), one.effect);
    const std::string behind =
        fmt::format("__fish_seen_subcommand_from {}", one.words.substr(one.words.rfind(' ') + 1));
    for (std::size_t i = 0; i < one.flags.size(); ++i)
      text +=
          fmt::format("complete -c espalier -n '{}' -l '{}' -d '{}'\n", behind, one.flags[i].substr(2), one.effects[i]);
  }
  return text + fmt::format(
                    "complete -c espalier -n '__fish_seen_subcommand_from {}' -a "
                    "'(espalier list 2>/dev/null | string split -f 1 \" \")'\n",
                    kOfModels);
}

}  // namespace

Run add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  auto* verb = app.add_subcommand("completion", "print a script that lets a shell complete verbs, flags and models");
  verb->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return [shell, &app] {
    std::vector<Completed> all;
    collect(app, "", all);
    put(*shell == "fish" ? fish(all) : *shell == "zsh" ? zsh(all) : bash(all));
    return 0;
  };
}

}  // namespace espalier::command
