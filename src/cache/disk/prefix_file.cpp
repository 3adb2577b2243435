#include "cache/disk/prefix_file.h"

#include <fmt/format.h>

#include <cstring>

#include "base/checked.h"
#include "base/checksum.h"
#include "tensor/file/byte_cursor.h"

namespace espalier {
namespace {

constexpr std::string_view kMagic = "ESPKVFIL";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kChecksumAt = 16;

struct Fixed {  // the first 64 bytes
  char magic[8];
  std::uint32_t version, header_bytes;
  std::uint64_t checksum;
  std::uint32_t key_bytes, scope_bytes, tokens, first_block, blocks, zero;
  std::uint64_t stride, also_zero;
};
static_assert(sizeof(Fixed) == kHeaderStart && offsetof(Fixed, checksum) == kChecksumAt);

constexpr std::uint64_t padded(std::uint64_t bytes, std::uint64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

struct Layout {  // where the variable parts begin
  std::uint64_t tokens, checksums, header_bytes;
};
// Within the limits of PrefixFileLimits nothing here can overflow.
Layout layout(std::uint64_t text_bytes, std::uint64_t tokens, std::uint64_t blocks) {
  Layout at{};
  at.tokens = padded(kHeaderStart + text_bytes, sizeof(TokenId));
  at.checksums = padded(at.tokens + tokens * sizeof(TokenId), sizeof(std::uint64_t));
  at.header_bytes = padded(at.checksums + blocks * sizeof(std::uint64_t), kFileAlignment);
  return at;
}

std::uint64_t header_checksum(std::span<const std::byte> header) {
  constexpr std::uint64_t kNone = 0;
  const auto before = checksum(header.first(kChecksumAt));
  const auto with = checksum(std::as_bytes(std::span(&kNone, 1)), before);
  return checksum(header.subspan(kChecksumAt + sizeof kNone), with);
}

Result<Fixed> read_fixed(std::span<const std::byte> start) {
  if (start.size() < sizeof(Fixed)) return bad_file("it is shorter than a header");
  Fixed fixed{};
  std::memcpy(&fixed, start.data(), sizeof fixed);
  if (std::string_view(fixed.magic, sizeof fixed.magic) != kMagic) return bad_file("it is no file of the prefix cache");
  if (fixed.version != kVersion)
    return bad_file(fmt::format("its version is {}, this program reads {}", fixed.version, kVersion));
  return fixed;
}

Result<> check_fixed(const Fixed& f, std::uint64_t file_bytes) {
  using Limits = PrefixFileLimits;
  if (f.key_bytes > Limits::text || f.scope_bytes > Limits::text || f.tokens > Limits::tokens)
    return bad_file("its key, scope or tokens are longer than allowed");
  if (f.blocks == 0 || f.blocks > Limits::blocks || f.first_block > Limits::tokens / kBlockTokens)
    return bad_file(fmt::format("its blocks {} and {} are out of range", f.first_block, f.blocks));
  if (f.tokens != (f.first_block + f.blocks) * kBlockTokens)
    return bad_file(
        fmt::format("it names {} tokens for blocks {} to {}", f.tokens, f.first_block, f.first_block + f.blocks));
  if (f.stride == 0 || f.stride % kFileAlignment != 0 || f.stride > Limits::stride)
    return bad_file(fmt::format("its block size {} is out of range", f.stride));
  if (f.zero != 0 || f.also_zero != 0) return bad_file("a reserved field is not 0");
  const Layout at = layout(std::uint64_t{f.key_bytes} + f.scope_bytes, f.tokens, f.blocks);
  if (f.header_bytes != at.header_bytes)
    return bad_file(fmt::format("its header has {} bytes instead of {}", f.header_bytes, at.header_bytes));
  const std::uint64_t expected = at.header_bytes + f.blocks * f.stride;
  if (file_bytes != expected) return bad_file(fmt::format("it has {} bytes instead of {}", file_bytes, expected));
  return success();
}

}  // namespace

std::uint64_t header_bytes_for(const PrefixFile& file) {
  return layout(file.key.size() + file.scope.size(), file.tokens.size(), file.checksums.size()).header_bytes;
}

Result<PageBuffer> encode_header(PrefixFile& file) {
  const Layout at = layout(file.key.size() + file.scope.size(), file.tokens.size(), file.checksums.size());
  file.header_bytes = at.header_bytes;
  Fixed fixed{};
  kMagic.copy(fixed.magic, sizeof fixed.magic);
  fixed.version = kVersion;
  fixed.header_bytes = static_cast<std::uint32_t>(at.header_bytes);
  fixed.key_bytes = static_cast<std::uint32_t>(file.key.size());
  fixed.scope_bytes = static_cast<std::uint32_t>(file.scope.size());
  fixed.tokens = static_cast<std::uint32_t>(file.tokens.size());
  fixed.first_block = static_cast<std::uint32_t>(file.first_block);
  fixed.blocks = static_cast<std::uint32_t>(file.blocks());
  fixed.stride = file.block_stride;
  ESP_CHECK(check_fixed(fixed, file.file_bytes()));

  ESP_TRY(PageBuffer bytes, PageBuffer::allocate(at.header_bytes, PageBuffer::Pages::small));
  std::byte* out = bytes.data();  // zero so far
  std::memcpy(out, &fixed, sizeof fixed);
  std::memcpy(out + kHeaderStart, file.key.data(), file.key.size());
  std::memcpy(out + kHeaderStart + file.key.size(), file.scope.data(), file.scope.size());
  std::memcpy(out + at.tokens, file.tokens.data(), file.tokens.size() * sizeof(TokenId));
  std::memcpy(out + at.checksums, file.checksums.data(), file.checksums.size() * sizeof(std::uint64_t));
  const std::uint64_t sum = header_checksum({out, at.header_bytes});
  std::memcpy(out + kChecksumAt, &sum, sizeof sum);
  return bytes;
}

Result<std::uint64_t> header_length(std::span<const std::byte> start, std::uint64_t file_bytes) {
  ESP_TRY(const Fixed fixed, read_fixed(start));
  ESP_CHECK(check_fixed(fixed, file_bytes));
  return std::uint64_t{fixed.header_bytes};
}

Result<PrefixFile> parse_header(std::span<const std::byte> header, std::uint64_t file_bytes) {
  ESP_TRY(const Fixed fixed, read_fixed(header));
  ESP_CHECK(check_fixed(fixed, file_bytes));
  if (header.size() < fixed.header_bytes) return bad_file("it ends within its header");
  header = header.first(fixed.header_bytes);
  if (header_checksum(header) != fixed.checksum) return bad_file("its header does not match its checksum");

  const Layout at = layout(std::uint64_t{fixed.key_bytes} + fixed.scope_bytes, fixed.tokens, fixed.blocks);
  PrefixFile file;
  file.key = as_text(header.subspan(kHeaderStart, fixed.key_bytes));
  file.scope = as_text(header.subspan(kHeaderStart + fixed.key_bytes, fixed.scope_bytes));
  file.first_block = static_cast<int>(fixed.first_block);
  file.block_stride = fixed.stride;
  file.header_bytes = fixed.header_bytes;
  file.tokens.resize(fixed.tokens);
  std::memcpy(file.tokens.data(), header.data() + at.tokens, file.tokens.size() * sizeof(TokenId));
  file.checksums.resize(fixed.blocks);
  std::memcpy(file.checksums.data(), header.data() + at.checksums, file.checksums.size() * sizeof(std::uint64_t));
  return file;
}

}  // namespace espalier
