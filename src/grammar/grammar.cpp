#include "grammar/grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/incremental_free.h"
#include "base/threads/thread_time_budget.h"
#include "grammar/characters/spelling.h"
#include "grammar/closing/closing.h"
#include "grammar/closing/least_nesting.h"
#include "grammar/forced/forced_tokens.h"
#include "grammar/json_schema/schema_grammar.h"
#include "grammar/regex/regex.h"
#include "grammar/rules/rule_grammar.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::grammar {
namespace {

constexpr std::size_t kMostMasks = 4096;        // kept, of 16 KiB each for 128 k tokens
constexpr std::size_t kMostForcedBytes = 4096;  // found at once
// Of compiling, for what masks will need.
constexpr std::chrono::microseconds kForesight{5000}, kExpansion{1500};
constexpr std::chrono::milliseconds kBriefWork{10};  // what takes no longer does not count

Error too_nested(const std::string& what, std::uint32_t limit) {
  return bad_request(fmt::format("{} than the {} that may be open at once (--grammar-max-nesting); "
                                 "rules, objects and lists that open fewer inside one another would work",
                                 what, limit),
                     "", "grammar_too_complex");
}

Error invalid(std::string message) {
  return bad_request(std::move(message), "", "grammar_invalid");
}

// Of a constraint that meets a limit: what would meet none.
std::string_view simpler(Constraint::Kind kind) {
  using Kind = Constraint::Kind;
  switch (kind) {
    case Kind::regex:
      return "shorter or less nested repetitions, or fewer alternatives,";
    case Kind::choice:
      return "fewer or shorter choices";
    case Kind::ebnf:
    case Kind::lark:
      return "shorter repetitions, or fewer alternatives and rules,";
    case Kind::structural_tag:
      return "fewer tags, or simpler contents of them,";
    default:
      return "shorter repetitions, fewer alternatives, or less nesting of oneOf and not";
  }
}

// A document that takes long to free.
class Document {
 public:
  explicit Document(Json read) : kept_(std::make_shared<Kept>(std::move(read))) {}
  ~Document() { free_after_task(std::move(kept_)); }
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;
  const Json& json() const { return kept_->json; }

 private:
  struct Kept {
    explicit Kept(Json read) : json(std::move(read)) {}
    ~Kept() { forget(std::move(json)); }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    Json json;
  };
  std::shared_ptr<Kept> kept_;
};

Result<Expression> choice_of(ExpressionStore& store, const Json& list) {
  if (!list.is_array() || list.empty()) return invalid("choices must be a list of at least one string");
  std::vector<std::string_view> texts;
  for (const Json& way : list) {
    if (!way.is_string()) return invalid("choices must be strings");
    texts.push_back(way.get_ref<const std::string&>());
  }
  return store.any_of(std::move(texts));
}

}  // namespace

Grammar::Grammar(std::shared_ptr<Vocabulary> vocabulary, const GrammarLimits& limits,
                 std::shared_ptr<MemoryBudget> budget)
    : limits_(limits), vocabulary_(std::move(vocabulary)), store_(limits.nodes), memory_(std::move(budget)) {
  store_.limits().set_room([this] { return grows(); });
}

Result<std::shared_ptr<Grammar>> Grammar::compile(const Constraint& constraint, std::shared_ptr<Vocabulary> vocabulary,
                                                  const GrammarLimits& limits, std::shared_ptr<MemoryBudget> budget) {
  if (constraint.text.size() > limits.text_bytes) {
    return Error{
        Error::Kind::too_large,
        fmt::format("the constraint has {} bytes; at most {} are accepted", constraint.text.size(), limits.text_bytes),
        "", "grammar_too_complex"};
  }
  const Moment begun = std::chrono::steady_clock::now(), until = begun + limits.compile_time;
  const SharedResources company{std::move(vocabulary), std::move(budget)};
  ESP_TRY(auto grammar, make(constraint, company, limits, until));
  const auto taken = std::chrono::steady_clock::now() - begun;
  grammar->store_.limits().set_allowance(ThreadTimeBudget(limits.foresight_time));
  using Kind = Constraint::Kind;
  if (!grammar->foresee(constraint.kind == Kind::json_schema || constraint.kind == Kind::json_object)) {
    const bool in_time = std::chrono::steady_clock::now() + taken < until;
    Result<> met = grammar->limit_met();
    free_after_task(std::move(grammar));
    if (!in_time && !met.ok()) return std::move(met).error();
    free_what_is_left();  // else there are two of the largest ones at once
    ESP_TRY(grammar, make(constraint, company, limits, until));
  }
  grammar->store_.limits().set_allowance(std::nullopt);
  grammar->nodes_at_start_ = grammar->store_.size();
  grammar->grows();
  return grammar;
}

Result<std::shared_ptr<Grammar>> Grammar::make(const Constraint& constraint, const SharedResources& company,
                                               const GrammarLimits& limits, Moment until) {
  std::shared_ptr<Grammar> grammar(new Grammar(company.vocabulary, limits, company.budget));
  if (Result<> begun = grammar->begin(constraint, until); !begun) {
    free_after_task(std::move(grammar));
    return begun.error();
  }
  return grammar;
}

Result<> Grammar::begin(const Constraint& constraint, Moment until) {
  kind_ = constraint.kind;
  store_.limits().set_deadline(until);
  ESP_TRY(const Expression whole, read_constraint(constraint, until));
  const bool possible = store_.possible(whole);
  ESP_CHECK(limit_met());  // else what was not looked at to the end would seem impossible
  if (!possible) return invalid("the constraint allows no text at all");
  const auto nesting = least_nesting(store_, whole);
  ESP_CHECK(limit_met());
  if (nesting && *nesting > limits_.nesting)
    return too_nested(fmt::format("every text of the constraint has {} rules open at once, more", *nesting),
                      limits_.nesting);
  start_ = automaton_->start(whole);
  may_be_empty_ = automaton_->complete(start_);
  return limit_met();
}

Result<Json> Grammar::read_json(const std::string& text, Moment until) {
  auto read = parse_json(text, schema_text_limits(until));
  if (!read.ok() && std::chrono::steady_clock::now() >= until) store_.exhaust();
  ESP_CHECK(limit_met());
  return read;
}

TagSpecials Grammar::specials_of(const Constraint& constraint) const {
  TagSpecials special;
  const Tokenizer* tokenizer = vocabulary_->tokenizer();
  if (tokenizer == nullptr) return special;
  for (const TokenId id : constraint.special) special.named.emplace_back(tokenizer->token_bytes(id), id);
  std::erase_if(special.named, [](const auto& one) { return one.first.empty(); });
  special.in_free_text = constraint.special_in_free_text;
  return special;
}

Result<Expression> Grammar::read_constraint(const Constraint& constraint, Moment until) {
  using Kind = Constraint::Kind;
  Expression whole = ExpressionStore::nothing;
  const SchemaOptions options{constraint.flexible_whitespace, constraint.closed};
  switch (constraint.kind) {
    case Kind::regex: {
      ESP_TRY(const Regex regex, parse_regex(constraint.text));
      ESP_TRY(whole, Spelling(store_, Spelling::Kind::plain).whole(regex));
      break;
    }
    case Kind::choice: {
      ESP_TRY(Json list, read_json(constraint.text, until));
      const Document document(std::move(list));
      ESP_TRY(whole, choice_of(store_, document.json()));
      break;
    }
    case Kind::json_object:
    case Kind::json_schema: {
      Json read = Json::object({{"type", "object"}});
      if (constraint.kind == Kind::json_schema) {
        ESP_TRY(read, read_json(constraint.text, until));
      }
      const Document document(std::move(read));
      ESP_TRY(auto schema, SchemaGrammar::make(store_, document.json(), options));
      whole = schema->root();
      sources_.sources.push_back(std::move(schema));
      break;
    }
    case Kind::ebnf:
    case Kind::lark: {
      ESP_TRY(RuleText text, constraint.kind == Kind::ebnf ? parse_ebnf(constraint.text) : parse_lark(constraint.text));
      sources_.rules = std::make_unique<RuleText>(std::move(text));
      ESP_TRY(auto rules, RuleGrammar::make(store_, *sources_.rules));
      whole = rules->root();
      sources_.sources.push_back(std::move(rules));
      break;
    }
    case Kind::structural_tag: {
      ESP_TRY(Json read, read_json(constraint.text, until));
      const Document document(std::move(read));
      ESP_TRY(whole, read_structural_tag(store_, document.json(), options, specials_of(constraint), sources_));
      break;
    }
    case Kind::none:
      whole = store_.anything();
      break;
  }
  automaton_.emplace(store_, AutomatonLimits{limits_.states, 4096, limits_.nesting});
  recorded_.emplace(*automaton_, limits_.states);
  masks_.emplace(*automaton_, vocabulary_);
  return whole;
}

// Compiling holds nobody up, masks do. So the first masks are worked out here, then the tokens of words that will be
// met, as far as a short time goes; what is left is found when a text gets there.
bool Grammar::foresee(bool json) {
  return first_masks(json).ok() && limit_met().ok();
}

Result<> Grammar::first_masks(bool json) {
  ThreadTimeBudget foresight(kForesight);
  if (!store_.sources().records()) ESP_CHECK(plain_mask(start_));  // else it is also the text's
  if (json) {
    const State name = automaton_->next(automaton_->next(start_, '{'), '"');
    if (!store_.sources().records() && name != Automaton::dead) ESP_CHECK(plain_mask(name));
    if (store_.sources().records()) known_masks_.clear();  // it began only now: some tokens depend on the text
    expand_values();
  }
  masks_->find_lexemes(foresight);
  return success();
}

// Of the objects and arrays inside others, the outer ones first: what they begin with, then what follows that.
void Grammar::expand_values() {
  ThreadTimeBudget allowance(kExpansion);
  const auto expand = [&](Expression way) {
    if (store_.op(way) == Op::concat && store_.op(store_.rest(way)) == Op::later) store_.expanded(store_.rest(way));
  };
  const auto stops = [&] { return store_.exhausted() || allowance.used_up(); };
  for (Expression e = 0; e < store_.size() && !stops(); ++e) {
    if (store_.op(e) == Op::later && !store_.awaits(e)) store_.expanded(e);
    if (store_.op(e) != Op::call) continue;
    const Expression value = store_.sources().rule_body(store_.operand(e));
    if (store_.op(value) == Op::either)
      for (const Expression way : store_.parts(value)) expand(way);
    else
      expand(value);
  }
}

Grammar::Work::Work(Grammar& grammar) : grammar_(grammar), begun_(std::chrono::steady_clock::now()) {
  grammar.store_.limits().set_deadline(begun_ + kBriefWork + grammar.limits_.step_time - grammar.laboured_);
}

Grammar::Work::~Work() {
  const auto taken = std::chrono::steady_clock::now() - begun_;
  if (taken > kBriefWork) grammar_.laboured_ += taken - kBriefWork;
  grammar_.grows();
}

bool Grammar::grows() {
  memory_.take(bytes());
  const bool small_enough = memory_.taken() <= limits_.memory;
  if (small_enough && !memory_.may_grow()) crowded_ = true;
  return small_enough && memory_.may_grow();
}

std::size_t Grammar::bytes() const {
  std::size_t all = store_.memory() + known_masks_.size() * vocabulary_->words() * sizeof(MaskWords::value_type);
  if (automaton_) all += automaton_->memory();
  if (recorded_) all += recorded_->memory();
  if (masks_) all += masks_->memory();
  for (const auto& source : sources_.sources) all += source->memory();
  return all;
}

Result<> Grammar::limit_met() const {
  const bool met = automaton_ ? automaton_->exhausted() || recorded_->exhausted() : store_.exhausted();
  if (!met) return success();
  if (crowded_) {
    return Error{Error::Kind::unavailable,
                 "the constraints in use leave no memory for this one to grow; try again when less is generated, or "
                 "start with a larger --grammar-cache",
                 "", "grammar_too_complex"};
  }
  return bad_request(
      fmt::format("the constraint takes more states or time than its limits allow; {} would work", simpler(kind_)), "",
      "grammar_too_complex");
}

Result<State> Grammar::read(State from, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  constexpr std::size_t kPiece = 64;
  for (; !bytes.empty() && from != Automaton::dead; bytes.remove_prefix(std::min(kPiece, bytes.size()))) {
    const Work work(*this);
    for (const char byte : bytes.substr(0, kPiece)) from = recorded_->read(from, static_cast<unsigned char>(byte));
  }
  ESP_CHECK(limit_met());
  return from;
}

Result<std::shared_ptr<const MaskWords>> Grammar::mask(State state) {
  const std::lock_guard lock(mutex_);
  return mask_locked(state);
}

Result<Allowed> Grammar::allowed(State state) {
  const std::lock_guard lock(mutex_);
  ESP_TRY(auto words, mask_locked(state));
  if (stuck_.contains(recorded_->plain(state)))
    return too_nested("the text cannot go on or end here: what must come opens more rules, objects or lists",
                      limits_.nesting);
  return Allowed{std::move(words), automaton_->complete(recorded_->plain(state))};
}

std::optional<Allowed> Grammar::known(State state) {
  const Hold hold = try_hold();
  if (!hold) return std::nullopt;
  const auto words = known_masks_.find(state);
  if (words == known_masks_.end() || stuck_.contains(recorded_->plain(state))) return std::nullopt;
  return Allowed{words->second, automaton_->complete(recorded_->plain(state))};
}

// What the automaton allows, less what the text so far rules out.
Result<std::shared_ptr<const MaskWords>> Grammar::mask_locked(State state) {
  if (const auto known = known_masks_.find(state); known != known_masks_.end()) return known->second;
  const Work work(*this);
  const State plain = recorded_->plain(state);
  ESP_TRY(auto words, plain_mask(plain));
  const std::vector<TokenId> refused = recorded_->refused(state, *vocabulary_, *words);
  ESP_CHECK(limit_met());
  if (!refused.empty()) {
    auto fewer = std::make_shared<MaskWords>(*words);
    clear_bits(*fewer, refused);
    words = std::move(fewer);
  }
  if (state != plain || !refused.empty()) known_masks_[state] = words;
  return words;
}

Result<std::shared_ptr<const MaskWords>> Grammar::plain_mask(State state) {
  if (const auto known = known_masks_.find(state); known != known_masks_.end()) return known->second;
  auto words = std::make_shared<MaskWords>();
  masks_->fill(state, *words);
  ESP_CHECK(limit_met());
  const bool none = std::ranges::all_of(*words, [](auto word) { return word == 0; });
  if (none && !automaton_->complete(state) && automaton_->meets_depth(state)) stuck_.insert(state);
  if (known_masks_.size() >= kMostMasks) known_masks_.clear();
  known_masks_[state] = words;
  return std::shared_ptr<const MaskWords>(std::move(words));
}

bool Grammar::usable() {
  const Hold hold = try_hold();
  if (!hold) return true;
  const bool roomy = store_.size() < (limits_.nodes + nodes_at_start_) / 2 && automaton_->size() < limits_.states / 2 &&
                     recorded_->size() < limits_.states / 2 && laboured_ < limits_.step_time / 2;
  return roomy && limit_met().ok();
}

bool Grammar::busy() {
  return !try_hold();
}

Result<> Grammar::find_start(std::chrono::milliseconds time) {
  const auto step_time = std::exchange(limits_.step_time, std::min(limits_.step_time, time));
  auto found = forced(start_, {});
  limits_.step_time = step_time;
  ESP_TRY(forced_at_start_, std::move(found));
  return success();
}

bool Grammar::complete(State state) {
  const std::lock_guard lock(mutex_);
  return automaton_->complete(recorded_->plain(state));
}

// ---- text that must come

std::string Grammar::forced_bytes(State state, State& end) {
  std::string bytes;
  end = state;
  while (bytes.size() < kMostForcedBytes && !automaton_->complete(end)) {
    const auto branches = automaton_->branches(end);
    if (branches.size() != 1 || branches[0].on.size() != 1) break;
    bytes.push_back(static_cast<char>(branches[0].on.first()));
    end = branches[0].to;
  }
  return bytes;
}

Result<Forced> Grammar::forced(State state, std::span<const TokenId> before) {
  const std::lock_guard lock(mutex_);
  const Work work(*this);
  Forced forced;
  State end = Automaton::dead;
  state = recorded_->plain(state);
  forced.bytes = forced_bytes(state, end);
  if (!forced.bytes.empty() && vocabulary_->tokenizer() != nullptr) {
    forced.tokens = forced_tokens(*vocabulary_, *automaton_, state, forced.bytes, before);
  }
  std::size_t written = 0;
  for (const TokenId token : forced.tokens) written += vocabulary_->text(token).size();
  forced.ends = written == forced.bytes.size() && automaton_->complete(end) && automaton_->branches(end).empty();
  ESP_CHECK(limit_met());
  looked_after_.insert(state);
  return forced;
}

bool Grammar::knows_after(State state, bool closing) {
  const Hold hold = try_hold();
  return hold && looked_after_.contains(recorded_->plain(state)) && (!closing || closings_.contains(state));
}

Result<std::string> Grammar::closing(State state) {
  const std::lock_guard lock(mutex_);
  if (const auto known = closings_.find(state); known != closings_.end()) return known->second;
  auto found = find_closing(state);
  closings_.emplace(state, found);
  return found;
}

// However many searches give up, together they take a share of what is left only.
Result<std::string> Grammar::find_closing(State state) {
  constexpr std::size_t kShare = 16;
  const auto share = [](std::size_t most, std::size_t used) { return (most - std::min(most, used)) / kShare; };
  SearchLimits limits;
  limits.nodes = std::min(limits.nodes, share(limits_.nodes, store_.size()));
  limits.states = std::min(limits.states, share(limits_.states, automaton_->size() + recorded_->size()));
  const Work work(*this);
  auto found = shortest_closing(*automaton_, *recorded_, state, limits);
  ESP_CHECK(limit_met());
  if (found) return *std::move(found);
  return bad_request("no short text completes what was begun", "", "grammar_too_complex");
}

std::vector<TokenId> Grammar::tokens_of(std::string_view text, std::span<const TokenId> before) const {
  if (vocabulary_->tokenizer() == nullptr) return {};
  // The rest of a character that was begun is no text by itself: byte by byte.
  std::vector<TokenId> tokens;
  for (; !text.empty() && (static_cast<unsigned char>(text[0]) & 0xc0) == 0x80; text.remove_prefix(1)) {
    const auto byte = vocabulary_->find_text(text.substr(0, 1));
    if (!byte) return {};
    tokens.push_back(*byte);
  }
  if (!tokens.empty()) before = tokens;
  const auto others = tokens_after(*vocabulary_, before.last(std::min(before.size(), kContextTokens)), text);
  if (others.empty() && !text.empty()) return {};
  tokens.insert(tokens.end(), others.begin(), others.end());
  return tokens;
}

}  // namespace espalier::grammar
