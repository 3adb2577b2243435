// token_trie.h: the texts of many tokens as one tree, laid out so that reading it is a scan.
//
// Nodes stand in depth-first order; a node's subtree is [node, end), and its tokens are a run of ids() too. For every
// subtree the trie knows which classes of bytes occur in it, so that a walker can pass over what cannot matter.
//
// Two parts: tokens that are whole characters, and the rest (pieces of characters, bytes that are no UTF-8), where
// classes mean nothing.
// What a walk asks of a node lies side by side, and what tells whether to visit it beside its siblings: of the cost of
// a walk most is waiting for memory.
// Units:   lengths in bytes; about 48 bytes a node. Threads: immutable after make().
// Fails:   never. Texts longer than 65,535 bytes are left out.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/types.h"

namespace espalier::grammar {

__extension__ using Classes = unsigned __int128;  // a set of classes of bytes

// A class for every ASCII byte that is no control character, and for some of these; classes of the first bytes of
// longer characters, by what grammars tell apart; all other bytes share one.
inline constexpr Classes kContinuation = Classes{1} << 127;
constexpr std::array<Classes, 256> make_classes() {
  std::array<Classes, 256> table{};
  for (auto& one : table) one = kContinuation;
  int next = 0;
  const auto take = [&](unsigned low, unsigned high) {
    for (unsigned byte = low; byte <= high; ++byte) table[byte] = Classes{1} << next;
    ++next;
  };
  take(0x00, 0x08), take('\t', '\t'), take('\n', '\n'), take(0x0b, 0x0c), take('\r', '\r'), take(0x0e, 0x1f);
  for (unsigned byte = ' '; byte <= 0x7f; ++byte) take(byte, byte);
  // Few scripts have blanks, line ends or anything else that patterns set apart: C2, E1, E2, E3 and EF.
  take(0xc2, 0xc2), take(0xc3, 0xc3), take(0xc4, 0xcd), take(0xce, 0xcf), take(0xd0, 0xd3), take(0xd4, 0xd7);
  take(0xd8, 0xdb), take(0xdc, 0xdf), take(0xe0, 0xe0), take(0xe1, 0xe1), take(0xe2, 0xe2), take(0xe3, 0xe3);
  take(0xe4, 0xe9), take(0xea, 0xec), take(0xed, 0xed), take(0xee, 0xef), take(0xf0, 0xf4);
  return table;
}
inline constexpr std::array<Classes, 256> kClasses = make_classes();
constexpr Classes class_of(unsigned char byte) {
  return kClasses[byte];
}

// What may stand between words: blanks, as they are or as an escape, and the first bytes of those that are not ASCII.
constexpr Classes make_word_ends() {
  Classes all = class_of('\\');
  for (unsigned char byte = 0; byte <= ' '; ++byte) all |= class_of(byte);
  for (const unsigned char lead : {0xc2, 0xe1, 0xe2, 0xe3, 0xef}) all |= class_of(lead);
  return all;
}
inline constexpr Classes kWordEnds = make_word_ends();

// A read-only trie over the texts of tokens.
class TokenTrie {
 public:
  using Node = std::uint32_t;
  // Nodes that share a parent, in the order of their bytes: next to one another, so that looking at all of them is
  // quick.
  struct Children {
    std::span<const unsigned char> bytes;
    const Node* nodes = nullptr;
    const Classes* below = nullptr;  // of the bytes behind each one's

    // The place of the child with this byte; bytes.size() = none.
    std::size_t find(unsigned char byte) const {
      if (bytes.empty()) return 0;
      const void* found = std::memchr(bytes.data(), byte, bytes.size());
      if (found == nullptr) return bytes.size();
      return static_cast<std::size_t>(static_cast<const unsigned char*>(found) - bytes.data());
    }
  };
  struct Part {
    Node begin = 0, end = 0;  // its nodes; the root itself is no node
    std::uint32_t first_token = 0, last_token = 0;
    std::uint32_t first_child = 0, child_count = 0;
  };

  // Texts need not differ; empty ones are left out.
  static TokenTrie make(std::vector<std::pair<std::string_view, TokenId>> texts);

  const Part& whole() const { return whole_; }
  const Part& pieces() const { return pieces_; }
  std::uint32_t depth_limit() const { return depth_limit_; }  // of a node, at most; the children of a root have depth 1
  Node size() const { return static_cast<Node>(bytes_.size()); }

  Children children(Node node) const { return children_from(links_[node].first_child, links_[node + 1].first_child); }
  Children children(const Part& root) const {
    return children_from(root.first_child, root.first_child + root.child_count);
  }
  bool has_children(Node node) const { return links_[node].end > node + 1; }
  unsigned char byte(Node node) const { return bytes_[node]; }
  Node end(Node node) const { return links_[node].end; }
  std::uint32_t depth(Node node) const { return depths_[node]; }
  std::uint32_t height(Node node) const { return heights_[node]; }       // of the longest text behind it
  std::uint32_t word_ends(Node node) const { return word_ends_[node]; }  // bytes of kWordEnds in one text behind it
  bool between_characters(Node node) const { return boundary_[node]; }   // only of whole()
  // Tokens that end here stand first among those of the subtree.
  std::span<const TokenId> tokens_at(Node node) const { return tokens_between(node, node + 1); }
  std::span<const TokenId> tokens_in(Node node) const { return tokens_between(node, end(node)); }
  // Of whole(), in the order of ids(): classes and characters of each token.
  std::span<const TokenId> ids() const { return ids_; }
  Classes classes(std::uint32_t place) const { return classes_[place]; }
  Classes classes_after_first(std::uint32_t place) const { return after_first_[place]; }  // byte
  std::uint16_t characters(std::uint32_t place) const { return characters_[place]; }
  std::size_t memory() const;  // bytes

 private:
  using Text = std::pair<std::string_view, TokenId>;
  struct Links {  // of a node
    Node end = 0;
    std::uint32_t first_token = 0, first_child = 0;
  };
  Children children_from(std::uint32_t first, std::uint32_t last) const {
    return {std::span(child_bytes_).subspan(first, last - first), child_nodes_.data() + first,
            child_below_.data() + first};
  }
  std::span<const TokenId> tokens_between(Node node, Node last) const {
    const std::uint32_t first = links_[node].first_token;
    return {ids_.data() + first, links_[last].first_token - first};
  }
  void list_child(Node child);
  void list_children();
  void list_children_of(Part& root);
  Part add_part(std::vector<Text>& texts, bool whole);
  void close(std::vector<Node>& open, std::size_t depth);

  Part whole_, pieces_;
  std::uint32_t depth_limit_ = 0;
  std::vector<unsigned char> bytes_;
  std::vector<Links> links_;  // one more than nodes
  std::vector<std::uint16_t> depths_, heights_;
  std::vector<std::uint8_t> word_ends_;  // 255: that many or more
  std::vector<Classes> below_;           // by node, until children are listed
  std::vector<bool> boundary_;
  std::vector<Node> child_nodes_;
  std::vector<unsigned char> child_bytes_;
  std::vector<Classes> child_below_;
  std::vector<TokenId> ids_;
  std::vector<Classes> classes_, after_first_;
  std::vector<std::uint16_t> characters_;
};

}  // namespace espalier::grammar
