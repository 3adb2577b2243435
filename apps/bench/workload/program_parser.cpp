// Operations as the file has them to a Program, with all that can be known before a run checked: where an operation may
// stand, and that every variable is set, by then and in this branch.
#include <fmt/format.h>

#include <map>
#include <set>

#include "base/json/json_fields.h"
#include "bench/workload/item_parser.h"

namespace espalier::bench {
namespace {

constexpr int kDeepest = 16;  // forks within forks

// What a branch knows at one point of its operations.
struct Scope {
  std::set<std::string> known, assigned;
  std::map<std::string, std::set<std::string>> pending;  // by fork not yet joined: the variables it will give
  std::set<std::string> forks;

  void assign(const std::string& name) {
    known.insert(name);
    assigned.insert(name);
  }
};

class Parser {
 public:
  explicit Parser(bool chat) : chat_(chat) {}

  Result<> parse(const Json& list, const std::string& place, Scope& scope, Ops& out) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string here = fmt::format("{}[{}]", place, i);
      ESP_TRY(const std::string kind, get_string(list[i], {"op", here}));
      ESP_CHECK(parse_one(kind, list[i], here, scope, out));
    }
    return success();
  }
  std::size_t calls() const { return calls_; }

 private:
  Result<> parse_one(const std::string& kind, const Json& op, const std::string& here, Scope& scope, Ops& out) {
    if (kind == "text") return parse_text(op, here, out);
    if (kind == "gen") return parse_gen(op, here, scope, out);
    if (kind == "select") return parse_select(op, here, scope, out);
    if (kind == "var") return parse_var(op, here, scope, out);
    if (kind == "msg") return parse_message(op, here, scope, out);
    if (kind == "fork") return parse_fork(op, here, scope, out);
    if (kind == "join") return parse_join(op, here, scope, out);
    return bad_request(
        fmt::format("{}.op is {}, but must be text, gen, select, var, msg, fork or join", here, in_quotes(kind, 40)),
        here + ".op");
  }

  static Error misplaced(const std::string& here, std::string_view why) {
    return bad_request(fmt::format("{} {}", here, why), here);
  }
  Result<> check_place(const std::string& here, bool is_call) const {
    if (!chat_) return success();
    if (role_.empty()) return misplaced(here, "stands outside a message, but a chat has nothing there");
    if (is_call && role_ != "assistant")
      return misplaced(here, fmt::format("is in a message of the {}; only an assistant's message is generated", role_));
    return success();
  }
  static Result<std::string> name_of(const Json& op, const char* field, const std::string& here) {
    ESP_TRY(std::string name, get_string(op, {field, here}));
    if (name.empty()) return bad_request(fmt::format("{}.{} is empty", here, field), here);
    return name;
  }

  Result<> parse_text(const Json& op, const std::string& here, Ops& out) const {
    ESP_CHECK(check_place(here, false));
    ESP_TRY(std::string text, get_string(op, {"text", here}));
    out.push_back({TextOp{std::move(text)}});
    return success();
  }

  Result<> parse_gen(const Json& op, const std::string& here, Scope& scope, Ops& out) {
    ESP_CHECK(check_place(here, true));
    GenOp gen;
    ESP_TRY(gen.var, name_of(op, "var", here));
    ESP_TRY(gen.call, parse_generation(op, here));
    ESP_TRY(const auto append, find_string(op, {"append", here}));
    ESP_TRY(const auto script, find_string(op, {"script", here}));
    if (append && *append != "model" && *append != "script" && *append != "none")
      return bad_request(
          fmt::format("{}.append is {}, but must be model, script or none", here, in_quotes(*append, 40)), here);
    if (append == "script") {
      if (!script) return bad_request(here + ".script is missing, but append is script", here + ".script");
      gen.append = GenOp::Append::script;
    }
    if (append == "none") gen.append = GenOp::Append::none;
    gen.script = script.value_or("");
    gen.number = gen.call.number = calls_++;
    scope.assign(gen.var);
    out.push_back({std::move(gen)});
    return success();
  }

  Result<> parse_select(const Json& op, const std::string& here, Scope& scope, Ops& out) {
    ESP_CHECK(check_place(here, true));
    SelectOp select;
    ESP_TRY(select.var, name_of(op, "var", here));
    ESP_TRY(select.choices, parse_choices(op, here));
    select.max_tokens = tokens_of_choices(select.choices);
    select.number = calls_++;
    scope.assign(select.var);
    out.push_back({std::move(select)});
    return success();
  }

  Result<> parse_var(const Json& op, const std::string& here, const Scope& scope, Ops& out) const {
    ESP_CHECK(check_place(here, false));
    VarOp var;
    ESP_TRY(var.name, name_of(op, "name", here));
    if (!scope.known.contains(var.name)) {
      std::string why = fmt::format("names {}, which no operation before it sets", in_quotes(var.name, 60));
      for (const auto& [fork, names] : scope.pending)
        if (names.contains(var.name)) why = fmt::format("reads {} before the fork {} is joined", var.name, fork);
      return misplaced(here + ".name", why);
    }
    ESP_TRY(const auto line, find_integer(op, {"line", here}, {-1'000'000, 1'000'000}));
    if (line) var.line = static_cast<int>(*line);
    ESP_TRY(const auto strip, find_boolean(op, {"strip", here}));
    var.strip = strip.value_or(false);
    out.push_back({std::move(var)});
    return success();
  }

  Result<> parse_message(const Json& op, const std::string& here, Scope& scope, Ops& out) {
    if (!chat_) return misplaced(here, "is a message, but the file's api is completions");
    if (!role_.empty()) return misplaced(here, "is a message inside a message");
    ESP_TRY(std::string role, get_string(op, {"role", here}));
    if (role != "system" && role != "user" && role != "assistant")
      return bad_request(fmt::format("{}.role is {}, but must be system, user or assistant", here, in_quotes(role, 40)),
                         here);
    ESP_TRY(const Json* ops, get_array(op, {"ops", here}));
    out.push_back({OpenMessage{role}});
    role_ = role;
    auto parsed = parse(*ops, here + ".ops", scope, out);
    role_.clear();
    out.push_back({CloseMessage{}});
    return parsed;
  }

  Result<> parse_fork(const Json& op, const std::string& here, Scope& scope, Ops& out) {
    if (!role_.empty()) return misplaced(here, "is a fork inside a message; fork before or after it");
    if (++depth_ > kDeepest) return misplaced(here, fmt::format("is deeper than {} forks", kDeepest));
    ForkOp fork;
    ESP_TRY(fork.var, name_of(op, "var", here));
    ESP_TRY(const std::string from, get_string(op, {"from", here}));
    if (from != "here" && from != "empty")
      return bad_request(fmt::format("{}.from is {}, but must be here or empty", here, in_quotes(from, 40)), here);
    fork.from_here = from == "here";
    ESP_TRY(const auto wait, find_boolean(op, {"wait", here}));
    fork.wait = wait.value_or(true);
    if (scope.pending.contains(fork.var))
      return misplaced(here + ".var", "is the name of a fork that has not been joined yet");
    ESP_TRY(const Json* branches, get_array(op, {"branches", here}));
    if (branches->empty()) return misplaced(here + ".branches", "is empty");
    std::set<std::string> given;
    for (std::size_t i = 0; i < branches->size(); ++i) {
      const std::string place = fmt::format("{}.branches[{}]", here, i);
      if (!(*branches)[i].is_array()) return misplaced(place, "must be a list of operations");
      Scope inner;
      inner.known = scope.known;
      fork.branches.emplace_back();
      ESP_CHECK(parse((*branches)[i], place, inner, fork.branches.back()));
      for (const auto& [name, names] : inner.pending) inner.assigned.insert(names.begin(), names.end());
      for (const std::string& name : inner.assigned) given.insert(fmt::format("{}.{}.{}", fork.var, i, name));
    }
    scope.forks.insert(fork.var);
    if (fork.wait)
      for (const std::string& name : given) scope.assign(name);
    else
      scope.pending[fork.var] = std::move(given);
    out.push_back({std::move(fork)});
    --depth_;
    return success();
  }

  static Result<> parse_join(const Json& op, const std::string& here, Scope& scope, Ops& out) {
    ESP_TRY(const Json* list, get_array(op, {"vars", here}));
    JoinOp join;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string place = fmt::format("{}.vars[{}]", here, i);
      ESP_TRY(std::string name, as_string((*list)[i], place));
      if (!scope.forks.contains(name))
        return misplaced(place, fmt::format("names {}, which is no fork before it", in_quotes(name, 60)));
      if (const auto pending = scope.pending.find(name); pending != scope.pending.end()) {
        for (const std::string& given : pending->second) scope.assign(given);
        scope.pending.erase(pending);
      }
      join.forks.push_back(std::move(name));
    }
    out.push_back({std::move(join)});
    return success();
  }

  const bool chat_;
  std::string role_;  // of the message we are in; empty = none
  std::size_t calls_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<Program> parse_program(const Json& ops, bool chat) {
  Program program;
  Parser parser(chat);
  Scope scope;
  ESP_CHECK(parser.parse(ops, "ops", scope, program.ops));
  program.calls = parser.calls();
  if (program.calls == 0) return bad_request("ops holds no gen and no select", "ops");
  return program;
}

}  // namespace espalier::bench
