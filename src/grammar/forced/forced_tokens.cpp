#include "grammar/forced/forced_tokens.h"

#include <algorithm>
#include <optional>
#include <string>

#include "grammar/masks/special_code.h"
#include "text/tokenizer/tokenizer.h"
#include "text/utf8.h"

namespace espalier::grammar {
namespace {

constexpr std::size_t kMostTried = 24;  // ways to go on that are cut into tokens one by one

// `bytes` without a character that is not whole yet at its end.
std::string_view whole_characters(std::string_view bytes) {
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const auto rest = bytes.substr(bytes.size() - back);
    if ((static_cast<unsigned char>(rest[0]) & 0xc0) == 0x80) continue;
    return utf8_step(rest).incomplete ? bytes.substr(0, bytes.size() - back) : bytes;
  }
  return bytes;
}

bool is_space(char32_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

// Bytes of the white character at the end, or 0.
std::size_t last_space(std::string_view text) {
  for (std::size_t size = 1; size <= 3 && size <= text.size(); ++size) {
    const Utf8Step step = utf8_step(text.substr(text.size() - size));
    if (step.valid && step.length == size) return is_space(step.character) ? size : 0;
  }
  return 0;
}

// Tokens that begin inside a text and reach over its end.
class Straddling {
 public:
  Straddling(const Vocabulary& vocabulary, Automaton& automaton, std::string_view text, State end)
      : vocabulary_(vocabulary),
        trie_(vocabulary.trie()),
        automaton_(automaton),
        text_(text),
        states_(trie_.depth_limit() + 1, end) {}

  // Adds what those that begin at `start` have behind the end. False when not all could be added: there are too many,
  // or one ends inside a character, where the tokenizer cannot be asked.
  bool add(std::size_t start, std::vector<std::string_view>& behind) {
    const std::string_view rest = text_.substr(start);
    for (const TokenTrie::Part* part : {&trie_.whole(), &trie_.pieces()}) {
      const auto node = place_of(rest, trie_.children(*part));
      if (node && !add_below(*node, behind)) return false;
    }
    return true;
  }

 private:
  std::optional<TokenTrie::Node> place_of(std::string_view bytes, TokenTrie::Children children) const {
    TokenTrie::Node node = 0;
    for (const char byte : bytes) {
      const std::size_t found = children.find(static_cast<unsigned char>(byte));
      if (found == children.bytes.size()) return std::nullopt;
      node = children.nodes[found];
      children = trie_.children(node);
    }
    return node;
  }

  bool add_below(TokenTrie::Node top, std::vector<std::string_view>& behind) {
    const std::uint32_t base = trie_.depth(top);
    for (TokenTrie::Node node = top + 1; node < trie_.end(top);) {
      const std::uint32_t depth = trie_.depth(node) - base;
      states_[depth] = automaton_.next(states_[depth - 1], trie_.byte(node));
      if (states_[depth] == Automaton::dead) {
        node = trie_.end(node);
        continue;
      }
      if (const auto tokens = trie_.tokens_at(node); !tokens.empty()) {
        const std::string_view more = vocabulary_.text(tokens.front()).substr(base);
        if (behind.size() == kMostTried || whole_characters(more).size() < more.size()) return false;
        if (std::ranges::find(behind, more) == behind.end()) behind.push_back(more);
      }
      ++node;
    }
    return true;
  }

  const Vocabulary& vocabulary_;
  const TokenTrie& trie_;
  Automaton& automaton_;
  const std::string_view text_;
  std::vector<State> states_;  // behind the text's end, by depth
};

// Texts with which `text` has those tokens in common that are certain.
std::vector<std::string> rivals(const Vocabulary& vocabulary, Automaton& automaton, std::string_view text, State end) {
  std::vector<std::string> found;
  std::vector<std::string_view> behind;
  Straddling straddling(vocabulary, automaton, text, end);
  const std::size_t reach = std::min<std::size_t>(text.size(), vocabulary.trie().depth_limit());
  for (std::size_t start = text.size() - reach; start < text.size(); ++start) {
    const std::size_t known = behind.size();
    if (straddling.add(start, behind)) continue;
    behind.resize(known);
    found.emplace_back(text.substr(0, start));
  }
  for (const std::string_view more : behind) found.push_back(std::string(text).append(more));
  // The last of several white characters is cut off by what follows, where no token holds both.
  const std::size_t last = last_space(text);
  const bool several = last > 0 && last_space(text.substr(0, text.size() - last)) > 0;
  if (several && !automaton.branches(end).empty()) found.emplace_back(text.substr(0, text.size() - last));
  return found;
}

}  // namespace

std::vector<TokenId> tokens_after(const Vocabulary& vocabulary, std::span<const TokenId> before,
                                  std::string_view text) {
  const auto from = [&](const std::vector<TokenId>& tokens, std::size_t first) -> std::vector<TokenId> {
    std::string written;
    for (std::size_t i = first; i < tokens.size(); ++i) written += vocabulary.text(tokens[i]);
    if (written != text) return {};
    return {tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end()};
  };
  const auto encoded = [&](std::string_view whole) {
    auto tokens = vocabulary.tokenizer()->encode(whole, {false, false});
    return tokens.ok() ? std::move(tokens).value() : std::vector<TokenId>();
  };
  std::string whole;
  for (const TokenId token : before) whole += vocabulary.text(token);
  const auto all = encoded(whole.append(text));
  const bool continues = all.size() >= before.size() && std::ranges::equal(before, std::span(all).first(before.size()));
  if (continues) {
    if (auto tokens = from(all, before.size()); !tokens.empty()) return tokens;
  }
  if (auto tokens = from(encoded(text), 0); !tokens.empty() || text.empty()) return tokens;
  // A tokenizer that puts a space before every text: behind a line's end there is none.
  const auto marked = encoded(std::string("\n").append(text));
  for (std::size_t first = 1; first <= marked.size() && first <= 3; ++first) {
    if (auto tokens = from(marked, first); !tokens.empty()) return tokens;
  }
  return {};
}

namespace {

// Those of a text without special tokens that are certain whatever follows it.
std::vector<TokenId> certain_tokens(const Vocabulary& vocabulary, Automaton& automaton, State end,
                                    std::string_view text, std::span<const TokenId> before) {
  std::vector<TokenId> certain = tokens_after(vocabulary, before, text);
  for (const std::string& rival : rivals(vocabulary, automaton, text, end)) {
    if (certain.empty()) break;
    const auto its = tokens_after(vocabulary, before, rival);
    certain.erase(std::ranges::mismatch(certain, its).in1, certain.end());
  }
  return certain;
}

// How the tokenizer cuts a text is not changed by what stands before a special token.
std::span<const TokenId> behind_special(const Vocabulary& vocabulary, std::span<const TokenId> before) {
  for (std::size_t i = before.size(); i-- > 0;)
    if (read_special_code(vocabulary.text(before[i]))) return before.subspan(i + 1);
  return before;
}

}  // namespace

std::vector<TokenId> forced_tokens(const Vocabulary& vocabulary, Automaton& automaton, State from,
                                   std::string_view bytes, std::span<const TokenId> before) {
  before = behind_special(vocabulary, before.last(std::min(before.size(), kContextTokens)));
  std::string_view text = whole_characters(bytes);
  State end = from;
  for (const char byte : text) end = automaton.next(end, static_cast<unsigned char>(byte));
  std::vector<TokenId> all;
  std::size_t special = 0;
  for (; (special = text.find(kSpecialByte)) != text.npos; before = {}) {
    const auto id = read_special_code(text.substr(special));
    const std::string_view plain = text.substr(0, special);
    const auto tokens = tokens_after(vocabulary, before, plain);
    if (tokens.empty() && !plain.empty()) return all;
    all.insert(all.end(), tokens.begin(), tokens.end());
    if (!id) return all;  // which one is not certain
    all.push_back(*id);
    text.remove_prefix(special + kSpecialCodeBytes);
  }
  const auto rest = certain_tokens(vocabulary, automaton, end, text, before);
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

}  // namespace espalier::grammar
