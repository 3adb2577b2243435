#include "cache/remote/block_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checksum.h"

namespace espalier {
namespace {

constexpr std::string_view kMagic = "ESPKVBLK";
constexpr std::uint32_t kVersion = 1;

struct Fixed {
  char magic[8];
  std::uint32_t version, header_bytes;
  std::uint64_t header_checksum, data_checksum, data_bytes;
  std::uint32_t block, zero;
  BlockName model, before, name;
  TokenId tokens[kBlockTokens];
};
static_assert(sizeof(Fixed) == kBlockHeader && offsetof(Fixed, tokens) == 144);

Fixed fixed_of(const BlockName& model, const BlockChain& chain, int block, std::size_t data_bytes) {
  Fixed fixed{};
  kMagic.copy(fixed.magic, sizeof fixed.magic);
  fixed.version = kVersion;
  fixed.header_bytes = kBlockHeader;
  fixed.data_bytes = data_bytes;
  fixed.block = static_cast<std::uint32_t>(block);
  fixed.model = model;
  fixed.before = chain.before(block);
  fixed.name = chain.names[static_cast<std::size_t>(block)];
  std::ranges::copy(chain.tokens_of(block), fixed.tokens);
  return fixed;
}

std::uint64_t sum_of(Fixed fixed) {
  fixed.header_checksum = 0;
  return checksum(std::as_bytes(std::span(&fixed, 1)));
}

}  // namespace

BlockHeader block_header(const BlockName& model, const BlockChain& chain, int block, std::span<const std::byte> data) {
  Fixed fixed = fixed_of(model, chain, block, data.size());
  fixed.data_checksum = checksum(data);
  fixed.header_checksum = sum_of(fixed);
  BlockHeader header;
  std::memcpy(header.data(), &fixed, sizeof fixed);
  return header;
}

Result<> check_block(const BlockName& model, const BlockChain& chain, int block, const BlockHeader& header,
                     std::span<const std::byte> data) {
  Fixed fixed{};
  std::memcpy(&fixed, header.data(), sizeof fixed);
  if (std::string_view(fixed.magic, sizeof fixed.magic) != kMagic) return bad_file("a value is no block of ours");
  if (fixed.version != kVersion)
    return bad_file(fmt::format("a block has version {}, this program reads {}", fixed.version, kVersion));
  if (sum_of(fixed) != fixed.header_checksum) return bad_file("a block's header does not match its checksum");
  Fixed wanted = fixed_of(model, chain, block, data.size());
  wanted.header_checksum = fixed.header_checksum;
  wanted.data_checksum = fixed.data_checksum;
  if (std::memcmp(&wanted, &fixed, sizeof fixed) != 0)
    return bad_file("a block is of another model, another place or other tokens");
  if (checksum(data) != fixed.data_checksum) return bad_file("a block does not match its checksum");
  return success();
}

Result<std::span<const std::byte>> block_data(const BlockName& model, const BlockChain& chain, int block,
                                              std::span<const std::byte> value, std::size_t data_bytes) {
  if (value.size() != kBlockHeader + data_bytes)
    return bad_file(fmt::format("a block has {} bytes instead of {}", value.size(), kBlockHeader + data_bytes));
  BlockHeader header;
  std::ranges::copy(value.first(kBlockHeader), header.begin());
  ESP_CHECK(check_block(model, chain, block, header, value.subspan(kBlockHeader)));
  return value.subspan(kBlockHeader);
}

}  // namespace espalier
