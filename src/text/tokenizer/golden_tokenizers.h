// golden_tokenizers.h: the golden tokenizers as tests read them. Only tests include this.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "testing/data.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::testing {

// In the repository lie the three small ones; the others only beside the checkout.
inline const std::vector<std::string> kGoldenTokenizers = {"bytelevel-split", "sp-bpe-llama2-like", "unigram-t5-like",
                                                           "qwen3", "deepseek_v3"};

inline std::filesystem::path golden_tokenizer(const std::string& name) {
  return golden("tokenizers/" + name);
}

// Opened once for all tests; null when it is not there or cannot be opened.
inline std::shared_ptr<const Tokenizer> open_golden(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const Tokenizer>> opened;
  if (const auto known = opened.find(name); known != opened.end()) return known->second;
  const auto folder = golden_tokenizer(name);
  if (folder.empty()) return nullptr;
  auto tokenizer = Tokenizer::open_hf(folder);
  return opened[name] = tokenizer.ok() ? *tokenizer : nullptr;
}

inline std::vector<Json> json_lines(const std::filesystem::path& path) {
  std::vector<Json> all;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) all.push_back(Json::parse(line));
  return all;
}

}  // namespace espalier::testing
