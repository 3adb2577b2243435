#include "model/weights/panel_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/system/file_calls.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFlushEach = std::uint64_t{64} << 20;  // dirty pages cannot be dropped

Error no_file(const fs::path& folder, std::string_view reason) {
  return {Error::Kind::out_of_memory,
          fmt::format("{} cannot hold what memory cannot: {}", folder.string(), reason),
          {},
          {}};
}

std::string errno_text() {
  return std::generic_category().message(errno);
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
  if (reserve_space(made->file_.get(), bytes) != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
    return no_file(folder, fmt::format("{} MiB are needed: {}", bytes >> 20, errno_text()));
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
  if (write_at(file_.get(), matrix.memory(), kept_) != 0) return no_file(folder_, errno_text());
  const std::byte* const panels = map_ + kept_;
  kept_ += room;
  if (kept_ - flushed_ >= kFlushEach || kept_ == bytes_) ESP_CHECK(flush());
  return PackedMatrix::over(matrix.type(), matrix.outputs(), matrix.k(), panels, shared_from_this());
}

Result<> PanelFile::flush() {
  if (flush_content(file_.get()) != 0) return no_file(folder_, errno_text());
  flushed_ = kept_;
  return success();
}

}  // namespace espalier
