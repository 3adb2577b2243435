// mark_finder.h: finding marks in a text that comes byte by byte.
//
// Nothing is kept but what may be part of a mark. No mark lies inside another one of the same set, so the first that is
// complete is the one that begins first.
// Units:   bytes. Threads: one at a time. Fails: never.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

// A few marks; their texts live as long as whoever looks for them.
using Marks = std::vector<std::string_view>;

// Looks for any of some marks anywhere in a text.
class MarkFinder {
 public:
  // What a byte made certain: how many of the held bytes, from the first, are text; and which mark ended.
  struct Found {
    std::size_t text = 0;
    int mark = -1;
  };

  MarkFinder() = default;
  explicit MarkFinder(Marks marks);

  // Takes a byte. The caller reads `text` bytes of held() and calls drop(), which forgets them, and the mark if one
  // was found.
  Found push(char c);
  const std::string& held() const { return held_; }
  void drop(const Found& found);
  std::string take();  // what is held, which is text now

  bool may_begin(char c) const { return begins_[static_cast<unsigned char>(c)]; }
  const Marks& marks() const { return marks_; }

 private:
  Marks marks_;
  std::array<bool, 256> begins_{};
  std::string held_;
};

// Expects one of a few texts, blanks before it aside. None of them begins with another.
class OneOf {
 public:
  static constexpr int more = -1, none = -2;

  void expect(Marks texts);
  int step(char c);  // the number of the text that is complete, more, or none
  bool begun() const { return !held_.empty(); }
  const std::string& held() const { return held_; }  // what came, the last byte included, blanks before it left out

 private:
  Marks texts_;
  std::string held_;
};

inline bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// Letters that names of tools and parameters are made of, wherever no mark bounds them.
inline bool is_name_letter(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return letter || static_cast<unsigned char>(c) >= 0x80 || c == '_' || c == '-' || c == '.' || c == ':' || c == '/';
}

inline constexpr std::size_t kNameMost = 256;  // bytes of a name

}  // namespace espalier
