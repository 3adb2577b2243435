// Any bytes as a file of the prefix cache: refused with a sentence, or every part of it can be read and, written
// again, gives the same bytes. Half of the inputs get a right checksum first, so that what lies behind it is reached.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/checksum.h"
#include "cache/disk/prefix_file.h"

namespace espalier {
namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

void seal(std::vector<std::byte>& header) {
  constexpr std::size_t kAt = 16;
  if (header.size() < kHeaderStart) return;
  const std::uint64_t none = 0;
  const auto before = checksum(std::span(header).first(kAt));
  const auto with = checksum(std::as_bytes(std::span(&none, 1)), before);
  const std::uint64_t sum = checksum(std::span(header).subspan(kAt + 8), with);
  std::memcpy(header.data() + kAt, &sum, sizeof sum);
}

void read(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
  auto length = header_length(bytes, file_bytes);
  auto file = parse_header(bytes, file_bytes);
  if (!file.ok()) {
    demand(file.error().kind == Error::Kind::bad_file && !file.error().message.empty());
    return;
  }
  demand(length.ok() && *length == file->header_bytes && *length <= bytes.size());
  demand(static_cast<int>(file->tokens.size()) == file->end() && file->blocks() > 0);
  demand(file->file_bytes() == file_bytes);
  PrefixFile copy = *file;
  auto again = encode_header(copy);
  demand(again.ok() && again->size() == *length);
  auto reread = parse_header({again->data(), again->size()}, file_bytes);
  demand(reread.ok() && reread->tokens == file->tokens && reread->scope == file->scope && reread->key == file->key &&
         reread->checksums == file->checksums);
}

}  // namespace
}  // namespace espalier

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  if (size < 9) return 0;
  std::uint64_t file_bytes = 0;
  std::memcpy(&file_bytes, data + 1, sizeof file_bytes);
  const auto given = std::as_bytes(std::span(data + 9, size - 9));
  std::vector<std::byte> header(given.begin(), given.end());
  if (data[0] & 2) header.resize((header.size() + kFileAlignment - 1) / kFileAlignment * kFileAlignment);
  if (data[0] & 1) seal(header);
  read(header, file_bytes);
  return 0;
}
