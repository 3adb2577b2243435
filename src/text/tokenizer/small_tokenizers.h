// small_tokenizers.h: two tokenizers small enough to be written down, for fuzz targets: every byte has a token, a few
// merges and added tokens of each kind.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer_impl.h"
#include "text/utf8.h"

namespace espalier::testing {

// One tokenizer twice: read by our own encoder, and by the library's.
struct Pair {
  std::shared_ptr<const Tokenizer> ours, library;  // the same file by our own encoder and by the library's
};

inline Pair open_both(const Json& json) {
  const std::string text = json.dump();
  return {*Tokenizer::Impl::make(text, {}), *Tokenizer::Impl::make(text, {}, {.library_only = true})};
}

inline Json added_token(int id, const char* text, const char* flag, bool special) {
  Json token = {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", special}};
  if (*flag != '\0') token[flag] = true;
  return token;
}

// Each byte's character of GPT-2's alphabet, with the byte as its id.
inline Json byte_vocabulary() {
  Json vocab = Json::object();
  int beyond = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    std::string character;
    append_character(character, static_cast<char32_t>(printable ? byte : beyond++));
    vocab[character] = byte;
  }
  return vocab;
}

// Bytes, a cut into words and digits, added tokens with every flag.
inline Pair byte_level() {
  Json vocab = byte_vocabulary();
  int next = 256;
  Json merges = Json::array();
  for (const char* merge :
       {"t h", "Ġ th", "Ġth e", "a a", "aa aa", "Ġ Ġ", "ĠĠ ĠĠ", "i n", "Ã ©", "Ġ a", "1 2", "Ċ Ċ"}) {
    merges.push_back(merge);
    std::string joined = merge;
    joined.erase(joined.find(' '), 1);
    vocab[joined] = next++;
  }
  const Json pattern = {
      {"Regex",
       R"((?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
  return open_both(
      {{"version", "1.0"},
       {"added_tokens",
        {added_token(next, "<s>", "", true), added_token(next + 1, "<l>", "lstrip", true),
         added_token(next + 2, "<r>", "rstrip", false), added_token(next + 3, "in", "single_word", false),
         added_token(next + 4, "the in", "normalized", false)}},
       {"normalizer", {{"type", "NFC"}}},
       {"pre_tokenizer",
        {{"type", "Sequence"},
         {"pretokenizers",
          {{{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}},
           {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}}}}},
       {"post_processor", nullptr},
       {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
       {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}});
}

// Characters with word marks, bytes where a character is missing.
inline Pair character_level() {
  Json vocab = {{"<unk>", 0}, {"<s>", 1}};
  int next = 2;
  constexpr char hex[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) vocab[std::string("<0x") + hex[byte / 16] + hex[byte % 16] + ">"] = next++;
  for (const char* c : {"▁", "a", "b", "t", "h", "e", "é", "\n", "1"}) vocab[c] = next++;
  Json merges = Json::array();
  for (const char* merge : {"▁ t", "▁t h", "▁th e", "a a", "aa aa", "▁ ▁", "▁▁ ▁▁", "a b", "e ▁", "h e"}) {
    merges.push_back(merge);
    std::string joined = merge;
    joined.erase(joined.find(' '), 1);
    if (!vocab.contains(joined)) vocab[joined] = next++;
  }
  const Json mark = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const Json space = {{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  return open_both(
      {{"version", "1.0"},
       {"added_tokens",
        {added_token(0, "<unk>", "", true), added_token(1, "<s>", "", true),
         added_token(next, "<n>", "normalized", false)}},
       {"normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}, mark}}}},
       {"pre_tokenizer", nullptr},
       {"post_processor", nullptr},
       {"decoder",
        {{"type", "Sequence"},
         {"decoders",
          {space,
           {{"type", "ByteFallback"}},
           {{"type", "Fuse"}},
           {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
       {"model",
        {{"type", "BPE"},
         {"unk_token", "<unk>"},
         {"fuse_unk", true},
         {"byte_fallback", true},
         {"vocab", vocab},
         {"merges", merges}}}});
}

}  // namespace espalier::testing
