// prefix_file.h: the form of a file that holds keys and values of consecutive tokens of one sequence.
//
// Tokens are kept in blocks of 16 positions, [16 b, 16 b + 16): as the pool keeps keys in groups of 16 slots, a block
// is moved as whole groups. A file holds blocks [first_block, first_block + blocks), and names every token from the
// start of the sequence, because keys and values depend on all of them: look-ups compare token ids, never only hashes.
//
//   0   8  magic "ESPKVFIL"        24  4  bytes of the key          40  4  blocks
//   8   4  version, 1              28  4  bytes of the scope        44  4  0
//   12  4  header bytes            32  4  tokens named              48  8  bytes from one block to the next
//   16  8  checksum of the header  36  4  first block               56  8  0
//   64     key, scope, padding to 4; token ids, 4 bytes each, padding to 8; a checksum of 8 bytes for each block; 0s
//   header bytes: block 0, block 1, ...
//
// Numbers are little-endian. The header and each block take a multiple of 4096 bytes, so that files can be read and
// written past the page cache; the header's checksum is taken with that field 0; nothing follows the last block.
// Key: what must be equal for the bytes to mean anything here (weights, instruction set, KV type, ...); compared whole.
//
// Units:   bytes; tokens where it says so. Threads: pure functions.
// Fails:   bad_file naming what is wrong; every count is compared with the bytes there are before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "espalier/types.h"
#include "tensor/page_buffer.h"

namespace espalier {

inline constexpr int kBlockTokens = 16;
inline constexpr std::uint64_t kFileAlignment = 4096;

// The header of a file: whose blocks it holds, which ones, and their checksums.
struct PrefixFile {
  std::string key, scope;
  std::vector<TokenId> tokens;  // positions [0, end()), not only its own
  int first_block = 0;
  std::uint64_t block_stride = 0;        // bytes from one block to the next
  std::vector<std::uint64_t> checksums;  // of each block, with its padding
  std::uint64_t header_bytes = 0;        // set by encode() and parse()

  int blocks() const { return static_cast<int>(checksums.size()); }
  int end() const { return (first_block + blocks()) * kBlockTokens; }
  std::uint64_t offset_of(int block) const { return header_bytes + static_cast<std::uint64_t>(block) * block_stride; }
  std::uint64_t file_bytes() const { return offset_of(blocks()); }
};

// What a header may claim before parse() refuses it.
struct PrefixFileLimits {
  static constexpr std::uint32_t text = 4096;  // bytes of key, of scope
  static constexpr std::uint32_t tokens = 1 << 24;
  static constexpr std::uint32_t blocks = 1 << 16;
  static constexpr std::uint64_t stride = std::uint64_t{1} << 30;
};

std::uint64_t header_bytes_for(const PrefixFile& file);

// The header of `file` as it stands on disk; sets file.header_bytes. Requires: within the limits, token count == end().
Result<PageBuffer> encode_header(PrefixFile& file);

inline constexpr std::size_t kHeaderStart = 64;
// How long the header is, from its first kHeaderStart bytes or more; at most `file_bytes`.
Result<std::uint64_t> header_length(std::span<const std::byte> start, std::uint64_t file_bytes);
Result<PrefixFile> parse_header(std::span<const std::byte> header, std::uint64_t file_bytes);

}  // namespace espalier
