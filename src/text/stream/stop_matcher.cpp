#include "text/stream/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace espalier {
namespace {

// Where the part of a text begins that a pattern's match may still claim: a character begins there.
std::size_t first_held(std::string_view text) {
  std::size_t at = text.size() - std::min(text.size(), Stops::kMostHeld);
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

}  // namespace

Result<std::shared_ptr<const StopStrings>> StopStrings::make(std::vector<std::string> strings) {
  if (strings.size() > kMostStrings)
    return bad_request(
        "stop may have at most " + std::to_string(kMostStrings) + " strings, not " + std::to_string(strings.size()),
        "stop");
  std::size_t bytes = 0;
  for (const std::string& s : strings) {
    if (s.empty()) return bad_request("a stop string must not be empty", "stop");
    bytes += s.size();
  }
  if (bytes > kMostBytes) return bad_request("the stop strings together must be at most 1 MiB", "stop");
  auto all = std::make_shared<StopStrings>();
  all->strings_ = std::move(strings);
  for (std::size_t i = 0; i < all->strings_.size(); ++i) all->insert(i);
  all->link();
  return std::shared_ptr<const StopStrings>(std::move(all));
}

std::optional<std::uint32_t> StopStrings::child(std::uint32_t node, unsigned char byte) const {
  for (const auto& [edge, to] : nodes_[node].children)
    if (edge == byte) return to;
  return std::nullopt;
}

void StopStrings::insert(std::size_t index) {
  std::uint32_t at = 0;
  for (const char c : strings_[index]) {
    const auto byte = static_cast<unsigned char>(c);
    if (const auto next = child(at, byte)) {
      at = *next;
      continue;
    }
    const auto created = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back({.children = {}, .fail = 0, .depth = nodes_[at].depth + 1, .match = -1});
    nodes_[at].children.emplace_back(byte, created);
    at = created;
  }
  if (nodes_[at].match < 0) nodes_[at].match = static_cast<int>(index);
}

// Breadth first, so that the shorter state a node falls back to is finished before it.
void StopStrings::link() {
  std::vector<std::uint32_t> queue;
  for (const auto& [byte, to] : nodes_[0].children) {
    from_start_[byte] = to;
    queue.push_back(to);
  }
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const std::uint32_t node = queue[i];
    // The node's own string is longer than any that ends in its fallback.
    if (nodes_[node].match < 0) nodes_[node].match = nodes_[nodes_[node].fail].match;
    for (const auto& [byte, to] : nodes_[node].children) {
      nodes_[to].fail = next(nodes_[node].fail, byte);
      queue.push_back(to);
    }
  }
}

std::uint32_t StopStrings::next(std::uint32_t state, unsigned char byte) const {
  while (state != 0) {
    if (const auto to = child(state, byte)) return *to;
    state = nodes_[state].fail;
  }
  return from_start_[byte];
}

const std::string& Stops::at(int index) const {
  const auto i = static_cast<std::size_t>(index), count = strings ? strings->strings().size() : 0;
  return i < count ? strings->strings()[i] : patterns->patterns[i - count];
}

StopMatcher::StopMatcher(Stops stops, bool keep_match, bool at_start)
    : stops_(std::move(stops)), keep_match_(keep_match) {
  if (stops_.patterns) search_.emplace(stops_.patterns, at_start);
}

std::string StopMatcher::feed(std::string_view piece) {
  if (matched_) return {};
  std::string text = std::exchange(held_, {});
  const std::size_t before = text.size();
  text.append(piece);
  for (std::size_t i = before; i < text.size(); ++i) {
    const auto found = read(text, i);
    if (!found) continue;
    matched_ = found->index;
    text.resize(keep_match_ ? i + 1 : found->begin);
    return text;
  }
  const std::size_t ready = safe(text);
  held_ = text.substr(ready);
  text.resize(ready);
  out_ += ready;
  unread_ -= search_ ? ready : 0;
  return text;
}

// The match that ends with this byte; all before were read.
std::optional<StopMatcher::Found> StopMatcher::read(std::string_view text, std::size_t byte) {
  std::optional<Found> found;
  if (stops_.strings) {
    state_ = stops_.strings->next(state_, static_cast<unsigned char>(text[byte]));
    if (const int index = stops_.strings->match(state_); index >= 0)
      found = {byte + 1 - stops_.strings->strings()[static_cast<std::size_t>(index)].size(), index};
  }
  if (!search_) return found;
  const auto matched = read_characters(text.substr(0, byte + 1));
  return found && (!matched || found->begin <= matched->begin) ? found : matched;
}

// Whole characters only; what is broken is read as the character that stands for it.
std::optional<StopMatcher::Found> StopMatcher::read_characters(std::string_view text) {
  while (unread_ < text.size()) {
    const Utf8Step step = utf8_step(text.substr(unread_));
    if (step.incomplete) break;
    const auto found = search_->read(step.valid ? step.character : U'\uFFFD', out_ + unread_);
    unread_ += step.length;
    if (!found) continue;
    const int strings = stops_.strings ? static_cast<int>(stops_.strings->strings().size()) : 0;
    const std::size_t begin = std::max(found->begin, out_) - out_;
    return Found{std::max(begin, first_held(text)), strings + found->pattern};
  }
  return std::nullopt;
}

// How much of the text no stop can begin in any more.
std::size_t StopMatcher::safe(std::string_view text) const {
  std::size_t safe = text.size();
  if (stops_.strings) safe -= stops_.strings->depth(state_);
  if (!search_) return safe;
  safe = std::min(safe, unread_);
  const auto earliest = search_->earliest();
  if (!earliest) return safe;
  return std::min(safe, std::max(std::max(*earliest, out_) - out_, first_held(text)));
}

std::string StopMatcher::finish() {
  return matched_ ? std::string() : std::exchange(held_, {});
}

std::optional<FoundStop> first_stop(std::string_view text, std::span<const std::string> strings) {
  std::optional<FoundStop> first;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::size_t begin = strings[i].empty() ? text.npos : text.find(strings[i]);
    if (begin == text.npos) continue;
    const std::size_t end = begin + strings[i].size();
    if (first && end == text.size() && begin >= first->begin) continue;
    first = {begin, i};
    text = text.substr(0, end);  // what ends behind it is not first
  }
  return first;
}

}  // namespace espalier
