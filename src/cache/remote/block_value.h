// block_value.h: the form of a block that lies with others: a header that says whose it is, and its bytes.
//
//   0   8  magic "ESPKVBLK"            24  8  checksum of the data        48  32  hash of the model key
//   8   4  version, 1                  32  8  bytes of the data           80  32  name of the block before
//   12  4  bytes of the header         40  4  number of the block         112 32  its own name
//   16  8  checksum of the header      44  4  0                           144 64  its 16 tokens
//   208    the data: keys and values as the pool's copier lays them out, with its padding
//
// Numbers are little-endian; the header's checksum is taken with that field 0. A value is used only if all of it is what was
// asked for: other tokens under the same name, another model's, cut or changed bytes are told apart and are a miss.
// The checksums find damage, not forgery: whoever can write to the store can write well-formed nonsense.
//
// Units: bytes, tokens. Threads: pure functions. Fails: bad_file, naming what is wrong.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "cache/remote/block_chain.h"
#include "espalier/error.h"

namespace espalier {

inline constexpr std::size_t kBlockHeader = 208;
using BlockHeader = std::array<std::byte, kBlockHeader>;

BlockHeader block_header(const BlockName& model, const BlockChain& chain, int block, std::span<const std::byte> data);

// Whether a header and the data that came behind it are this block's.
Result<> check_block(const BlockName& model, const BlockChain& chain, int block, const BlockHeader& header,
                     std::span<const std::byte> data);

// The data of a value that was kept under the name of this block, `data_bytes` of it.
Result<std::span<const std::byte>> block_data(const BlockName& model, const BlockChain& chain, int block,
                                              std::span<const std::byte> value, std::size_t data_bytes);

}  // namespace espalier
