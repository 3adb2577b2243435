#include "grammar/masks/token_trie.h"

#include <algorithm>
#include <string>

#include "base/json/json_text.h"

namespace espalier::grammar {
namespace {

// The number of characters; -1 when the text is not made of whole ones.
int count_characters(std::string_view text) {
  int count = 0;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at < end; ++count) {
    const int size = static_cast<unsigned char>(*at) < 0x80 ? 1 : utf8_sequence(at, end);
    if (size == 0) return -1;
    at += size;
  }
  return count;
}

bool continues(unsigned char byte) {
  return (byte & 0xc0) == 0x80;
}

}  // namespace

std::size_t TokenTrie::memory() const {
  return bytes_.size() * (1 + 4 + 4 + 2 + 2 + 1 + sizeof(Classes) + 4 + 4 + 1) + bytes_.size() / 8 +
         ids_.size() * (4 + 2 * sizeof(Classes) + 2);
}

TokenTrie TokenTrie::make(std::vector<Text> texts) {
  std::erase_if(texts, [](const Text& text) { return text.first.empty() || text.first.size() > 0xffff; });
  const auto middle =
      std::partition(texts.begin(), texts.end(), [](const Text& text) { return count_characters(text.first) >= 0; });
  std::vector<Text> whole(texts.begin(), middle), pieces(middle, texts.end());
  TokenTrie trie;
  trie.whole_ = trie.add_part(whole, true);
  trie.pieces_ = trie.add_part(pieces, false);
  trie.links_.push_back({.first_token = static_cast<std::uint32_t>(trie.ids_.size())});
  trie.list_children();
  return trie;
}

// Nodes deeper than `depth` have no more descendants.
void TokenTrie::close(std::vector<Node>& open, std::size_t depth) {
  while (open.size() > depth) {
    const Node node = open.back();
    open.pop_back();
    links_[node].end = static_cast<Node>(bytes_.size());
    if (open.empty()) continue;
    below_[open.back()] |= below_[node] | class_of(bytes_[node]);
    const bool is_end = (class_of(bytes_[node]) & kWordEnds) != 0;
    const auto ends = static_cast<std::uint8_t>(std::min(word_ends_[node] + is_end, 255));
    word_ends_[open.back()] = std::max(word_ends_[open.back()], ends);
    heights_[open.back()] = std::max(heights_[open.back()], static_cast<std::uint16_t>(heights_[node] + 1));
  }
}

TokenTrie::Part TokenTrie::add_part(std::vector<Text>& texts, bool whole) {
  std::ranges::sort(texts);
  Part part{static_cast<Node>(bytes_.size()), 0, static_cast<std::uint32_t>(ids_.size()), 0};
  std::vector<Node> open;  // the nodes of the last text
  std::string_view last;
  for (const auto& [text, id] : texts) {
    const auto shared = static_cast<std::size_t>(std::ranges::mismatch(text, last).in1 - text.begin());
    close(open, shared);
    for (std::size_t i = shared; i < text.size(); ++i) {
      open.push_back(static_cast<Node>(bytes_.size()));
      bytes_.push_back(static_cast<unsigned char>(text[i]));
      links_.push_back({.first_token = static_cast<std::uint32_t>(ids_.size())});
      depths_.push_back(static_cast<std::uint16_t>(i + 1));
      heights_.push_back(0);
      word_ends_.push_back(0);
      below_.push_back(0);
      boundary_.push_back(false);
      if (whole && i > 0 && !continues(static_cast<unsigned char>(text[i]))) boundary_[open[i - 1]] = true;
    }
    if (whole) boundary_[open.back()] = true;
    Classes after_first = 0;
    for (const char byte : text.substr(1)) after_first |= class_of(static_cast<unsigned char>(byte));
    ids_.push_back(id);
    after_first_.push_back(after_first);
    classes_.push_back(after_first | class_of(static_cast<unsigned char>(text[0])));
    characters_.push_back(static_cast<std::uint16_t>(whole ? count_characters(text) : 0));
    depth_limit_ = std::max(depth_limit_, static_cast<std::uint32_t>(text.size()));
    last = text;
  }
  close(open, 0);
  part.end = static_cast<Node>(bytes_.size());
  part.last_token = static_cast<std::uint32_t>(ids_.size());
  return part;
}

void TokenTrie::list_children() {
  for (Node node = 0; node < bytes_.size(); ++node) {
    links_[node].first_child = static_cast<std::uint32_t>(child_nodes_.size());
    for (Node child = node + 1; child < end(node); child = end(child)) list_child(child);
  }
  links_.back().first_child = static_cast<std::uint32_t>(child_nodes_.size());
  list_children_of(whole_);
  list_children_of(pieces_);
  below_ = {};
}

void TokenTrie::list_children_of(Part& root) {
  root.first_child = static_cast<std::uint32_t>(child_nodes_.size());
  for (Node child = root.begin; child < root.end; child = end(child)) list_child(child);
  root.child_count = static_cast<std::uint32_t>(child_nodes_.size()) - root.first_child;
}

void TokenTrie::list_child(Node child) {
  child_nodes_.push_back(child);
  child_bytes_.push_back(bytes_[child]);
  child_below_.push_back(below_[child]);
}

}  // namespace espalier::grammar
