#include "tensor/file/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "base/checked.h"

namespace espalier {
namespace {

std::size_t page_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t bytes_past_page(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) % page_bytes();
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  ESP_TRY(const OpenFile file, open_file(path));
  return map(file);
}

Result<MappedFile> MappedFile::open_beneath(const std::filesystem::path& folder, std::string_view name) {
  ESP_TRY(const OpenFile file, espalier::open_beneath(folder, name));
  return map(file);
}

Result<MappedFile> MappedFile::map(const OpenFile& file) {
  ESP_TRY(const FileStamp stamp, file.stamp());
  const std::uint64_t size = stamp.bytes;
  const auto bytes = checked_cast<std::size_t>(size);
  if (!bytes) return bad_file(fmt::format("{} has {} bytes, more than this machine can address", file.name(), size));
  if (*bytes == 0) return MappedFile({}, stamp);
  void* begin = ::mmap(nullptr, *bytes, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (begin == MAP_FAILED && errno == ENOMEM) {
    return Error{
        Error::Kind::out_of_memory,
        fmt::format("no room to map the {} bytes of {}; more address space (ulimit -v) would work", size, file.name()),
        "", ""};
  }
  if (begin == MAP_FAILED) {
    return bad_file(fmt::format("cannot map {}: {}", file.name(), std::generic_category().message(errno)));
  }
  MappedFile mapped({static_cast<const std::byte*>(begin), *bytes}, stamp);
  ESP_TRY(mapped.guard_, MappingGuard::watch(begin, *bytes));
  ESP_TRY(const std::uint64_t size_now, file.bytes());
  if (size_now != size) return bad_file(fmt::format("{} changed its size while it was being opened", file.name()));
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})),
      name_(std::move(other.name_)),
      stamp_(std::move(other.stamp_)),
      guard_(std::move(other.guard_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(name_, other.name_);
  std::swap(stamp_, other.stamp_);
  std::swap(guard_, other.guard_);
  return *this;
}

MappedFile::~MappedFile() {
  guard_ = MappingGuard();  // before the range can belong to somebody else
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Result<> MappedFile::intact() const {
  if (!guard_.broken()) return success();
  return bad_file(
      fmt::format("{} shrank or could not be read while it was in use; restore it and load the model again", name_));
}

void MappedFile::will_need(std::span<const std::byte> part) const {
  if (part.empty()) return;
  const std::size_t before = bytes_past_page(part.data());
  ::madvise(const_cast<std::byte*>(part.data() - before), before + part.size(), MADV_WILLNEED);
}

void MappedFile::forget(std::span<const std::byte> part) const {
  const std::size_t page = page_bytes(), skipped = (page - bytes_past_page(part.data())) % page;
  if (part.size() <= skipped) return;
  const std::size_t whole = (part.size() - skipped) / page * page;
  if (whole > 0) ::madvise(const_cast<std::byte*>(part.data() + skipped), whole, MADV_DONTNEED);
}

}  // namespace espalier
