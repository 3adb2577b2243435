#include "grammar_tool/stdio.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <sstream>

#include "base/json/json_fields.h"
#include "engine/load/loaded_model.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::command {
namespace {

using grammar::count_tokens;
using grammar::MaskWords;

double cpu_micros(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

class Stopwatch {
 public:
  explicit Stopwatch(clockid_t cpu = CLOCK_THREAD_CPUTIME_ID) : clock_(cpu) { restart(); }
  void restart() {
    cpu_ = cpu_micros(clock_);
    wall_ = std::chrono::steady_clock::now();
  }
  void stop() {
    wall_micros = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - wall_).count();
    cpu_used = cpu_micros(clock_) - cpu_;
  }
  double wall_micros = 0, cpu_used = 0;

 private:
  clockid_t clock_;
  double cpu_ = 0;
  std::chrono::steady_clock::time_point wall_;
};

bool has_bit(const MaskWords& mask, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  return id / 32 < mask.size() && ((mask[id / 32] >> (id % 32)) & 1) != 0;
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

Result<std::vector<TokenId>> tokens_of(const Json& request, TokenId size) {
  ESP_TRY(const Json* list, get_array(request, "tokens"));
  std::vector<TokenId> tokens;
  for (const Json& token : *list) {
    ESP_TRY(const std::int64_t id, as_integer(token, "tokens", {0, size - 1}));
    tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

Result<Constraint::Kind> kind_named(const std::string& name) {
  using Kind = Constraint::Kind;
  if (name == "json_schema") return Kind::json_schema;
  if (name == "json_object") return Kind::json_object;
  if (name == "regex") return Kind::regex;
  if (name == "ebnf") return Kind::ebnf;
  if (name == "lark") return Kind::lark;
  if (name == "choice") return Kind::choice;
  if (name == "structural_tag") return Kind::structural_tag;
  return bad_request(
      fmt::format("kind {} is not known; there are json_schema, json_object, regex, ebnf, lark, choice and "
                  "structural_tag",
                  in_quotes(name)),
      "kind");
}

Result<> check_spec(Constraint::Kind kind, const Json& spec) {
  using Kind = Constraint::Kind;
  const bool rules = kind == Kind::regex || kind == Kind::ebnf || kind == Kind::lark;
  if (rules && !spec.is_string()) return bad_request("spec must be a string", "spec");
  if (kind == Kind::choice && !spec.is_array()) return bad_request("spec must be a list of strings", "spec");
  return success();
}

}  // namespace

std::optional<std::string> GrammarStdio::answer(const std::string& line) {
  const auto failed = [](const Error& error) {
    return Reply{{"ok", false}, {"error", error.message}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  JsonLimits limits;
  limits.depth = 4000;
  limits.exact_numbers = true;  // of schemas
  const auto request = parse_json(line, limits);
  if (!request.ok()) return failed(request.error());
  const auto reply = handle(*request);
  if (quit_) return std::nullopt;
  return reply.ok() ? reply->dump(-1, ' ', false, Json::error_handler_t::replace) : failed(reply.error());
}

Result<GrammarStdio::Reply> GrammarStdio::handle(const Json& request) {
  struct Handler {
    std::string_view op;
    Result<Reply> (GrammarStdio::*run)(const Json&);
  };
  static constexpr std::array kHandlers{
      Handler{"tokenizer", &GrammarStdio::open_tokenizer},
      Handler{"options", &GrammarStdio::set_options},
      Handler{"compile", &GrammarStdio::compile},
      Handler{"walk", &GrammarStdio::walk},
      Handler{"match", &GrammarStdio::match},
      Handler{"empty", &GrammarStdio::empty},
      Handler{"free", &GrammarStdio::drop},
  };
  if (!request.is_object()) return bad_request("a request must be an object with a field op", "op");
  ESP_TRY(const std::string op, get_string(request, "op"));
  if (op == "quit") {
    quit_ = true;
    return Reply();
  }
  for (const Handler& handler : kHandlers) {
    if (handler.op == op) return (this->*handler.run)(request);
  }
  return bad_request(fmt::format("op {} is not known", in_quotes(op)), "op");
}

Result<GrammarStdio::Reply> GrammarStdio::open_tokenizer(const Json& request) {
  ESP_TRY(const std::string path, get_string(request, "path"));
  Stopwatch watch;
  ESP_TRY(const auto tokenizer, open_tokenizer_at(path));
  vocabulary_ = grammar::Vocabulary::of(tokenizer);
  watch.stop();
  eos_ = -1;
  ESP_TRY(const auto wished, find_integer(request, "eos"));
  if (wished) eos_ = static_cast<TokenId>(*wished);
  for (const char* name : {"<|eot_id|>", "<|im_end|>", "<|endoftext|>", "</s>"}) {
    if (eos_ >= 0) break;
    if (const auto found = tokenizer->find(name)) eos_ = *found;
  }
  return Reply{
      {"ok", true}, {"name", path}, {"vocab", tokenizer->size()}, {"eos", eos_}, {"micros", watch.wall_micros}};
}

Result<GrammarStdio::Reply> GrammarStdio::set_options(const Json& request) {
  ESP_TRY(const auto spaces, find_string(request, "ws"));
  ESP_TRY(const auto strict, find_boolean(request, "strict"));
  if (spaces && *spaces != "flex" && *spaces != "compact") return bad_request("ws must be flex or compact", "ws");
  if (spaces) flexible_ = *spaces == "flex";
  if (strict) strict_ = *strict;
  return Reply{{"ok", true}};
}

Result<GrammarStdio::Reply> GrammarStdio::compile(const Json& request) {
  if (vocabulary_ == nullptr) return bad_request("compile needs a tokenizer first", "op");
  ESP_TRY(const std::string kind, get_string(request, "kind"));
  const Json* spec = find_field(request, "spec");
  if (!request.contains("spec")) return bad_request("spec is missing", "spec");
  Constraint constraint;
  ESP_TRY(constraint.kind, kind_named(kind));
  ESP_CHECK(check_spec(constraint.kind, request["spec"]));
  constraint.flexible_whitespace = flexible_;
  constraint.closed = strict_ ? Constraint::Closed::all : Constraint::Closed::as_written;
  const Json& value = spec != nullptr ? *spec : request["spec"];
  constraint.text = value.is_string() && kind != "json_schema" ? value.get<std::string>() : json_text(value);
  Stopwatch watch(CLOCK_PROCESS_CPUTIME_ID);
  auto compiled = grammar::Grammar::compile(constraint, vocabulary_);
  watch.stop();
  Reply reply{{"ok", compiled.ok()}};
  if (compiled.ok()) {
    reply["id"] = next_;
    reply["bytes"] = (*compiled)->memory();
    grammars_[next_++] = *compiled;
  } else {
    reply["error"] = compiled.error().message;
    reply["field"] = compiled.error().field;
    reply["status"] = compiled.error().http_status();
  }
  reply["micros"] = watch.wall_micros;
  reply["cpu_micros"] = watch.cpu_used;
  return reply;
}

Result<std::shared_ptr<grammar::Grammar>> GrammarStdio::grammar_of(const Json& request) {
  ESP_TRY(const std::int64_t id, get_integer(request, "id"));
  const auto found = grammars_.find(id);
  if (found == grammars_.end()) return bad_request(fmt::format("there is no grammar {}", id), "id");
  return found->second;
}

Result<GrammarStdio::Reply> GrammarStdio::walk(const Json& request) {
  ESP_TRY(const auto grammar, grammar_of(request));
  ESP_TRY(const std::vector<TokenId> tokens, tokens_of(request, static_cast<TokenId>(vocabulary_->size())));
  ESP_TRY(const auto wants_forced, find_boolean(request, "forced"));
  Reply reply{{"ok", true}};
  Reply allowed = Reply::array(), popcount = Reply::array(), micros = Reply::array(), cpu = Reply::array(),
        accepting = Reply::array();
  grammar::State state = grammar->start();
  bool refused = false;
  Stopwatch watch;
  for (const TokenId token : tokens) {
    watch.restart();
    const auto mask = grammar->mask(state);
    watch.stop();
    if (!mask.ok()) return mask.error();
    micros.push_back(watch.wall_micros);
    cpu.push_back(watch.cpu_used);
    popcount.push_back(count_tokens(**mask));
    const bool ends = token == eos_ && grammar->complete(state);
    refused = !ends && !has_bit(**mask, token);
    allowed.push_back(refused ? 0 : 1);
    if (refused || ends) break;
    watch.restart();
    ESP_TRY(state, grammar->read(state, token));
    watch.stop();
    accepting.push_back(watch.wall_micros);
  }
  reply["allowed"] = std::move(allowed);
  reply["popcount"] = std::move(popcount);
  reply["micros"] = std::move(micros);
  reply["cpu_micros"] = std::move(cpu);
  reply["accept_micros"] = std::move(accepting);
  reply["complete"] = !refused && grammar->complete(state);
  if (wants_forced.value_or(false)) {
    Reply forced = Reply::array(), forced_micros = Reply::array();
    state = grammar->start();
    const std::size_t steps = reply["allowed"].size() - (refused ? 1 : 0);
    for (std::size_t i = 0; i < reply["allowed"].size(); ++i) {
      watch.restart();
      ESP_TRY(const grammar::Forced found, grammar->forced(state, std::span(tokens).first(i)));
      watch.stop();
      forced_micros.push_back(watch.wall_micros);
      forced.push_back(found.bytes.empty() ? Reply(0) : Reply::array({hex(found.bytes), found.tokens}));
      if (i < steps && tokens[i] != eos_) {
        ESP_TRY(state, grammar->read(state, tokens[i]));
      }
    }
    reply["forced"] = std::move(forced);
    reply["forced_micros"] = std::move(forced_micros);
  }
  return reply;
}

Result<GrammarStdio::Reply> GrammarStdio::match(const Json& request) {
  ESP_TRY(const auto grammar, grammar_of(request));
  ESP_TRY(const std::string text, get_string(request, "text"));
  ESP_TRY(const grammar::State state, grammar->read(grammar->start(), text));
  const bool accepted = state != grammar::Automaton::dead;
  return Reply{{"ok", true}, {"accepted", accepted}, {"complete", accepted && grammar->complete(state)}};
}

Result<GrammarStdio::Reply> GrammarStdio::empty(const Json&) {
  constexpr std::size_t kTimes = 1001;
  std::array<double, kTimes> wall{}, cpu{};
  for (std::size_t i = 0; i < kTimes; ++i) {
    Stopwatch watch;
    watch.stop();
    wall[i] = watch.wall_micros;
    cpu[i] = watch.cpu_used;
  }
  std::ranges::sort(wall);
  std::ranges::sort(cpu);
  return Reply{{"ok", true}, {"micros", wall[kTimes / 2]}, {"cpu_micros", cpu[kTimes / 2]}};
}

Result<GrammarStdio::Reply> GrammarStdio::drop(const Json& request) {
  ESP_TRY(const std::int64_t id, get_integer(request, "id"));
  grammars_.erase(id);
  return Reply{{"ok", true}};
}

void serve_grammar(std::istream& in, std::ostream& out) {
  GrammarStdio session;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    const auto reply = session.answer(line);
    if (!reply) return;
    out << *reply << '\n' << std::flush;
  }
}

}  // namespace espalier::command
