#include "cache/remote/block_chain.h"

#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>

#include "cache/tree/token_compare.h"

namespace espalier {
namespace {

BlockName hash_of(std::span<const std::byte> bytes) {
  BlockName name;
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
           reinterpret_cast<unsigned char*>(name.data()));
  return name;
}

// 4 bytes each, the lowest first.
void put(std::uint32_t number, std::byte* to) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(number >> (8 * i));
}

BlockName next_name(const BlockName& before, std::span<const TokenId> tokens) {
  std::array<std::byte, sizeof(BlockName) + kBlockTokens * sizeof(TokenId)> bytes;
  std::ranges::copy(before, bytes.begin());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    put(static_cast<std::uint32_t>(tokens[i]), bytes.data() + sizeof(BlockName) + i * sizeof(TokenId));
  return hash_of(bytes);
}

}  // namespace

BlockNamer::BlockNamer(std::string_view model_key, std::string_view secret)
    : model_(hash_of(std::as_bytes(std::span(model_key)))), secret_(secret) {}

// The key is the secret's length, the secret and the scope: no two pairs of them give the same.
BlockName BlockNamer::root(std::string_view scope) const {
  std::string key(4, '\0');
  put(static_cast<std::uint32_t>(secret_.size()), reinterpret_cast<std::byte*>(key.data()));
  key += secret_;
  key += scope;
  BlockName name;
  unsigned size = 0;
  ::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(model_.data()),
         model_.size(), reinterpret_cast<unsigned char*>(name.data()), &size);
  return name;
}

BlockChain BlockNamer::chain(std::string_view scope, std::span<const TokenId> tokens, const BlockChain* known) const {
  BlockChain chain;
  chain.scope = scope;
  const auto blocks = tokens.size() / kBlockTokens;
  chain.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(blocks * kBlockTokens));
  std::size_t same = 0;
  if (known != nullptr && known->scope == scope) {
    const auto most = std::min(chain.tokens.size(), known->tokens.size());
    same = static_cast<std::size_t>(common_prefix(chain.tokens.data(), known->tokens.data(), static_cast<int>(most))) /
           kBlockTokens;
    chain.root = known->root;
  } else {
    chain.root = root(scope);
  }
  chain.names.reserve(blocks);
  for (std::size_t b = 0; b < blocks; ++b)
    chain.names.push_back(b < same
                              ? known->names[b]
                              : next_name(chain.before(static_cast<int>(b)), chain.tokens_of(static_cast<int>(b))));
  return chain;
}

std::string hex(const BlockName& name) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * name.size());
  for (const std::byte b : name) {
    text += kDigits[static_cast<std::size_t>(b) >> 4];
    text += kDigits[static_cast<std::size_t>(b) & 15];
  }
  return text;
}

}  // namespace espalier
