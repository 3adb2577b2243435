#include "model/weights/panel_file.h"

#include <fmt/format.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFlushEach = std::uint64_t{64} << 20;  // dirty pages cannot be dropped

Error no_file(const fs::path& folder, std::string_view reason) {
  return {Error::Kind::out_of_memory, fmt::format("{} cannot hold what memory cannot: {}", folder.string(), reason), {}, {}};
}

std::string errno_text() {
  return std::generic_category().message(errno);
}

bool lies_in_memory([[maybe_unused]] int descriptor) {
#ifdef __linux__
  constexpr long kTmpfs = 0x01021994, kRamfs = 0x858458f6;
  struct statfs info{};
  return ::fstatfs(descriptor, &info) == 0 && (info.f_type == kTmpfs || info.f_type == kRamfs);
#else
  return false;
#endif
}

}  // namespace

std::uint64_t PanelFile::room_for(std::uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

Result<std::shared_ptr<PanelFile>> PanelFile::create(const fs::path& folder, std::uint64_t bytes) {
  std::shared_ptr<PanelFile> made(new PanelFile);
  made->folder_ = folder;
  made->bytes_ = bytes;
  std::string name = (folder / "espalier-panels-XXXXXX").string();
  made->file_.reset(::mkostemp(name.data(), O_CLOEXEC));
  if (!made->file_) return no_file(folder, errno_text());
  ::unlink(name.c_str());
  if (lies_in_memory(made->file_.get())) return no_file(folder, "it lies in memory itself");
  struct statvfs room{};
  if (::fstatvfs(made->file_.get(), &room) != 0) return no_file(folder, errno_text());
  const std::uint64_t left = static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize;
  if (left < bytes) return no_file(folder, fmt::format("it has {} MiB left, {} are needed", left >> 20, bytes >> 20));
  if (::ftruncate(made->file_.get(), static_cast<off_t>(bytes)) != 0) return no_file(folder, errno_text());
  void* const map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, made->file_.get(), 0);
  if (map == MAP_FAILED) return no_file(folder, errno_text());
  made->map_ = static_cast<std::byte*>(map);
  ESP_TRY(made->guard_, MappingGuard::watch(map, bytes));
  return made;
}

PanelFile::~PanelFile() {
  guard_ = MappingGuard();  // before the range can belong to somebody else
  if (map_ != nullptr) ::munmap(map_, bytes_);
}

Result<PackedMatrix> PanelFile::keep(const PackedMatrix& matrix) {
  const std::uint64_t room = room_for(matrix.bytes());
  if (room > bytes_ - kept_) return internal_error("a file of panels was made too short");
  ESP_CHECK(write(matrix.memory()));
  const std::byte* const panels = map_ + kept_;
  kept_ += room;
  if (kept_ - flushed_ >= kFlushEach || kept_ == bytes_) ESP_CHECK(flush());
  return PackedMatrix::over(matrix.type(), matrix.outputs(), matrix.k(), panels, shared_from_this());
}

Result<> PanelFile::write(std::span<const std::byte> bytes) {
  std::uint64_t at = kept_;
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return no_file(folder_, errno_text());
    at += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return success();
}

Result<> PanelFile::flush() {
  if (::fsync(file_.get()) != 0) return no_file(folder_, errno_text());
  flushed_ = kept_;
  return success();
}

}  // namespace espalier
