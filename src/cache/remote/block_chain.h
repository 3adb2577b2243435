// block_chain.h: names for the blocks of a sequence that every process gives alike, and nobody else can guess.
//
// A block's name is a hash of the name before it and of its own 16 tokens; before the first stands the name of the name
// space: a hash, keyed with the scope (tenant's salt, adapter) and a secret of the fleet, of what makes bytes valid (model
// key). So one name stands for all tokens up to there, replicas that cut prefixes differently share their blocks, and
// whoever knows the tokens but not the salt cannot find them.
//
// Units:   blocks of kBlockTokens tokens. Threads: pure functions and values. Fails: never.
// Source:  SHA-256 and HMAC (FIPS 180-4, 198-1), from OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/disk/prefix_file.h"
#include "espalier/types.h"

namespace espalier {

using BlockName = std::array<std::byte, 32>;

// A sequence's whole blocks from its start, and their names.
struct BlockChain {
  std::string scope;
  std::vector<TokenId> tokens;  // blocks() x kBlockTokens
  BlockName root = {};          // the name before the first block
  std::vector<BlockName> names;

  int blocks() const { return static_cast<int>(names.size()); }
  const BlockName& before(int block) const { return block == 0 ? root : names[static_cast<std::size_t>(block) - 1]; }
  std::span<const TokenId> tokens_of(int block) const {
    return std::span(tokens).subspan(static_cast<std::size_t>(block) * kBlockTokens, kBlockTokens);
  }
};

// Names blocks for one model and one fleet.
class BlockNamer {
 public:
  // model_key: what must be equal for bytes to mean anything here; secret: of all who share, may be empty.
  BlockNamer(std::string_view model_key, std::string_view secret);

  // The names of all whole blocks of `tokens`. Names of blocks that `known` begins with are taken from there.
  BlockChain chain(std::string_view scope, std::span<const TokenId> tokens, const BlockChain* known = nullptr) const;
  const BlockName& model() const { return model_; }  // a hash of the model key
  const std::string& secret() const { return secret_; }

 private:
  BlockName root(std::string_view scope) const;
  BlockName model_;
  std::string secret_;
};

std::string hex(const BlockName& name);

}  // namespace espalier
