#include "grammar/masks/class_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "testing/data.h"

namespace espalier::grammar {
namespace {

std::size_t characters_in(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

bool has_only(const std::string& text, Classes classes) {
  return std::ranges::all_of(text, [&](char c) { return (class_of(static_cast<unsigned char>(c)) & classes) != 0; });
}

// Letters that many tokens have and letters that few have: both ways of keeping a class.
std::vector<std::string> some_texts(std::mt19937& random) {
  const std::vector<std::string> often{"a", "b", "c", " ", "é", "日"}, seldom{"x", "1", "\n", "😀", "\xe6"};
  std::set<std::string> texts;
  while (texts.size() < 3000) {
    std::string text;
    for (std::size_t i = 1 + random() % 9; i > 0; --i)
      text += random() % 40 == 0 ? seldom[random() % seldom.size()] : often[random() % often.size()];
    texts.insert(text);
  }
  return {texts.begin(), texts.end()};
}

TEST(ClassTokens, TokensMadeOfClassesAreThoseWhoseBytesAllAre) {
  const auto seed = static_cast<unsigned>(testing::seed());
  std::mt19937 random(seed);
  const std::vector<std::string> texts = some_texts(random);
  std::vector<std::pair<std::string_view, TokenId>> numbered;
  for (const std::string& text : texts) numbered.emplace_back(text, static_cast<TokenId>(numbered.size()));
  const ClassTokens tokens(TokenTrie::make(numbered), (texts.size() + 31) / 32);
  for (int round = 0; round < 200; ++round) {
    Classes classes = random() % 4 == 0 ? Classes{0} : kContinuation;
    for (const unsigned byte :
         {'a' + 0u, 'b' + 0u, 'c' + 0u, ' ' + 0u, 'x' + 0u, '1' + 0u, '\n' + 0u, 0xc3u, 0xe6u, 0xf0u})
      if (random() % 4 != 0) classes |= class_of(static_cast<unsigned char>(byte));
    const auto most = static_cast<std::uint32_t>(random() % 12);
    const MaskWords found = tokens.made_of(classes, most);
    for (std::size_t id = 0; id < texts.size(); ++id) {
      const std::string& text = texts[id];
      // The one broken character is no whole one; the whole ones of its class are of three bytes.
      bool whole = true;
      for (std::size_t at = text.find('\xe6'); at != std::string::npos; at = text.find('\xe6', at + 1))
        whole &= text.compare(at, 3, "日") == 0;
      const bool wanted = whole && has_only(text, classes) && characters_in(text) <= most;
      ASSERT_EQ(has_bit(found, static_cast<TokenId>(id)), wanted) << text << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace espalier::grammar
