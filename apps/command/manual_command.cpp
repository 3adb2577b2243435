// `espalier man [VERB...]`: pages for man(1), made of the tables that --help shows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "command/command.h"
#include "command/help_format.h"
#include "command/output.h"

namespace espalier::command {
namespace {

namespace fs = std::filesystem;

// Text as troff prints it: its own signs, dashes that can be copied, no line that begins as a request does.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool starts_line = out.empty() || out.back() == '\n';
    if (starts_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string words_of(const CLI::App& verb, const char* between) {
  return verb.get_parent() == nullptr ? verb.get_name()
                                      : words_of(*verb.get_parent(), between) + between + verb.get_name();
}

std::string page_name(const CLI::App& verb) {
  return words_of(verb, "-");
}

std::string of_option(const CLI::Option& option, bool is_positional) {
  const OptionHead head = option_head(option, is_positional);
  std::string line = fmt::format(".TP\n\\fB{}\\fR", roff(head.names));
  if (!head.value.empty()) line += fmt::format(" \\fI{}\\fR", roff(head.value));
  if (!head.notes.empty()) line += " " + roff(head.notes);
  line += "\n" + roff(option.get_description());
  if (const std::string twin = option.get_envname(); !twin.empty()) line += fmt::format("\n(environment: {})", twin);
  return line + "\n";
}

// Options by the headings of --help, in their order.
std::string options_of(const CLI::App& verb) {
  std::string out;
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_positional() || option->nonpositional() || option->get_group().empty()) continue;
    out += (out.empty() ? ".SH ARGUMENTS\n" : "") + of_option(*option, true);
  }
  std::vector<std::string> groups = verb.get_groups();
  for (const std::string& group : groups) {
    std::string part;
    for (const CLI::Option* option : verb.get_options())
      if (option->get_group() == group && option->nonpositional()) part += of_option(*option, false);
    if (part.empty() || group.empty()) continue;
    std::string heading = group;
    std::ranges::transform(heading, heading.begin(), [](unsigned char c) { return std::toupper(c); });
    out += fmt::format(".SH {}\n{}", roff(heading), part);
  }
  return out;
}

std::string verbs_of(const CLI::App& verb) {
  std::string out;
  for (const CLI::App* next : verb.get_subcommands({}))
    out += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", roff(page_name(*next)), roff(next->get_description()));
  return out.empty() ? out : ".SH VERBS\n" + out;
}

// As docs/command-line.md has them.
constexpr const char* kEnds =
    ".SH EXIT STATUS\n"
    "0 done; 1 failure; 2 usage; 3 a model or file is missing or malformed; 4 memory or threads that the system "
    "refuses;\n"
    "5 cannot bind; 6 network; 130 Ctrl\\-C during an answer; 143 stopped with requests cut off.\n"
    ".SH ENVIRONMENT\n"
    ".TP\n\\fBESPALIER_CACHE\\fR\nfolder of models and cached prefixes; else $XDG_CACHE_HOME/espalier\n"
    ".TP\n\\fBESPALIER_DEVICE_DIR\\fR\nwhere devices' shared objects lie (libespalier_cuda.so, libespalier_mpi.so); "
    "else beside the program, or in ../lib/espalier\n"
    ".TP\n\\fBESPALIER_DIST_SECRET\\fR\nwhat ranks of several hosts must know to join a group; none: whoever reaches "
    "the port\n"
    ".TP\n\\fBESPALIER_ISA\\fR\nthe instruction set of the kernels: scalar, avx2, avx512, neon\n"
    ".TP\n\\fBESPALIER_NCCL_LIBRARY\\fR\nNCCL's library, by which GPUs of several ranks give each other what they "
    "computed; "
    "else libnccl.so.2 where the system finds it, or by way of the host\n"
    ".TP\n\\fBHF_HOME\\fR, \\fBHF_TOKEN\\fR, \\fBHF_ENDPOINT\\fR, \\fBHF_HUB_OFFLINE\\fR\nthe hub's cache, key, "
    "address; 1: "
    "open no connection\n"
    ".TP\n\\fBSSL_CERT_FILE\\fR, \\fBSSL_CERT_DIR\\fR, \\fBhttps_proxy\\fR, \\fBno_proxy\\fR\nof connections that are "
    "opened\n";

std::string see_also(const CLI::App& verb) {
  std::vector<std::string> pages;
  if (verb.get_parent() != nullptr) pages.push_back(page_name(*verb.get_parent()));
  for (const CLI::App* next : verb.get_subcommands({})) pages.push_back(page_name(*next));
  std::string out;
  for (const std::string& page : pages) out += fmt::format("{}\\fB{}\\fR(1)", out.empty() ? "" : ",\n", roff(page));
  return out.empty() ? out : ".SH SEE ALSO\n" + out + "\n";
}

std::string usage_of(const CLI::App& verb) {
  std::string text = HelpFormat().make_usage(&verb, words_of(verb, " "));
  std::istringstream words(text);
  std::string out, word;
  words >> word;  // "Usage:"
  while (words >> word) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string page_of(const CLI::App& verb) {
  std::string title = page_name(verb);
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
  const std::string effect = roff(verb.get_description());
  std::string page = fmt::format(".TH {} 1 \"\" \"espalier {}\" \"Espalier\"\n", roff(title), ESPALIER_VERSION);
  page += fmt::format(".SH NAME\n{} \\- {}\n", roff(page_name(verb)), effect);
  page += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR\n", roff(usage_of(verb)));
  page += verbs_of(verb) + options_of(verb);
  if (verb.get_parent() == nullptr) page += kEnds;
  return page + see_also(verb);
}

// The verb that the words name, each one of the one before; null: `word` is none.
const CLI::App* found(const CLI::App& app, const std::vector<std::string>& words, std::string& word) {
  const CLI::App* at = &app;
  for (const std::string& next : words) {
    const auto verbs = at->get_subcommands({});
    const auto it = std::ranges::find_if(verbs, [&](const CLI::App* verb) { return verb->get_name() == next; });
    if (it == verbs.end()) return word = words_of(*at, " ") + " " + next, nullptr;
    at = *it;
  }
  return at;
}

Result<> write_page(const CLI::App& verb, const fs::path& folder) {
  const fs::path file = folder / (page_name(verb) + ".1");
  std::ofstream out(file, std::ios::binary);
  out << page_of(verb);
  if (!out.flush())
    return internal_error(fmt::format("cannot write {}; a folder that can be written to would work", file.string()));
  for (const CLI::App* next : verb.get_subcommands({})) {
    auto written = write_page(*next, folder);
    if (!written) return written;
  }
  return success();
}

}  // namespace

Run add_manual(CLI::App& app) {
  struct Wanted {
    std::vector<std::string> words;
    std::string folder;
  };
  auto wanted = std::make_shared<Wanted>();
  auto* verb = app.add_subcommand("man", "print a page for man: espalier man serve | man -l -");
  verb->add_option("verb", wanted->words, "whose page; none: that of espalier")->type_name("VERB");
  verb->add_option("--output", wanted->folder, "write the pages of all verbs into this folder, as espalier-serve.1")
      ->type_name("DIR");
  return [wanted, &app] {
    if (!wanted->folder.empty()) {
      const auto written = write_page(app, wanted->folder);
      return written ? 0 : fail(written.error());
    }
    std::string word;
    const CLI::App* const shown = found(app, wanted->words, word);
    if (shown == nullptr) return fail(bad_request(fmt::format("there is no {}; espalier help lists the verbs", word)));
    put(page_of(*shown));
    return 0;
  };
}

}  // namespace espalier::command
