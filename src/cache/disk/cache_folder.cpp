#include "cache/disk/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/system/file_calls.h"
#include "base/system/file_times.h"
#include "base/system/unique_fd.h"

namespace espalier {
namespace {

constexpr const char* kLockName = "lock";
constexpr std::string_view kUnfinished = ".tmp";

Error refused(int code, std::string_view doing, const std::string& name) {
  const auto kind = code == ENOENT  ? Error::Kind::not_found
                    : code == ELOOP ? Error::Kind::bad_file
                                    : Error::Kind::unavailable;
  return {kind, fmt::format("{} {}: {}", doing, name, std::strerror(code)), {}, {}};
}

Result<> make_private(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return refused(errno, "making", path.string());
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return refused(errno, "looking at", path.string());
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid())
    return Error{Error::Kind::unavailable, fmt::format("{} is no folder of ours", path.string()), {}, {}};
  if ((info.st_mode & 077) != 0 && ::chmod(path.c_str(), 0700) != 0) return refused(errno, "closing", path.string());
  return success();
}

// The lock's descriptor; -1 when somebody else has it.
Result<int> take_lock(int folder) {
  UniqueFd lock(::openat(folder, kLockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return refused(errno, "opening", kLockName);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return -1;
    return refused(errno, "locking", kLockName);
  }
  return lock.release();
}

std::string unfinished(const std::string& name) {
  return name + std::string(kUnfinished);
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

template <class Visit>
void for_each_file(int folder, Visit&& visit) {
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return;
  const std::unique_ptr<DIR, CloseDirectory> directory(::fdopendir(copy));
  if (!directory) {
    ::close(copy);
    return;
  }
  while (const dirent* entry = ::readdir(directory.get())) {
    struct stat info{};
    const std::string name = entry->d_name;
    if (name == kLockName || ::fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(info.st_mode)) visit(name, info);
  }
}

}  // namespace

Result<std::unique_ptr<CacheFolder>> CacheFolder::open(const std::filesystem::path& base, const std::string& name,
                                                       FileFault fault) {
  std::error_code failed;
  std::filesystem::create_directories(base, failed);
  if (failed)
    return Error{Error::Kind::unavailable, fmt::format("making {}: {}", base.string(), failed.message()), {}, {}};
  const auto path = base / name;
  ESP_CHECK(make_private(path));
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return refused(errno, "opening", path.string());
  ESP_TRY(const int lock, take_lock(folder.get()));
  if (lock < 0) return Error{Error::Kind::busy, fmt::format("another process uses {}", path.string()), {}, {}};
  std::unique_ptr<CacheFolder> opened(new CacheFolder(path, folder.release(), lock, std::move(fault)));
  for (const Entry& entry : opened->list())
    if (entry.name.ends_with(kUnfinished)) ::unlinkat(opened->folder_, entry.name.c_str(), 0);
  return opened;
}

CacheFolder::~CacheFolder() {
  ::close(folder_);
  ::close(lock_);
}

std::vector<CacheFolder::Entry> CacheFolder::list() const {
  std::vector<Entry> entries;
  for_each_file(folder_, [&](const std::string& name, const struct stat& info) {
    const timespec changed = content_changed(info);
    entries.push_back({name, static_cast<std::uint64_t>(info.st_size),
                       std::int64_t{changed.tv_sec} * 1'000'000'000 + changed.tv_nsec});
  });
  return entries;
}

CacheFolder::Unnamed::~Unnamed() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlinkat(folder_.folder_, unfinished(name_).c_str(), 0);
}

Result<> CacheFolder::fill(const Unnamed& file, std::span<const std::span<const std::byte>> parts) const {
  std::uint64_t offset = 0, total = 0;
  for (const auto part : parts) total += part.size();
  // Says early when the device is full, and keeps the file in one piece; not every file system can.
  if (reserve_space(file.file_, total) != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
    return refused(errno, "writing", file.name_);
  for (auto part : parts) {
    while (!part.empty()) {
      if (const int code = fault(FileCall::write)) return refused(code, "writing", file.name_);
      const ssize_t written = ::pwrite(file.file_, part.data(), part.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return refused(written < 0 ? errno : EIO, "writing", file.name_);
      offset += static_cast<std::uint64_t>(written);
      part = part.subspan(static_cast<std::size_t>(written));
    }
  }
  return success();
}

Result<CacheFolder::Unnamed> CacheFolder::write(const std::string& name,
                                                std::span<const std::span<const std::byte>> parts) const {
  if (const int code = fault(FileCall::open)) return refused(code, "making", name);
  UniqueFd made(
      open_past_page_cache(folder_, unfinished(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW));
  if (!made) return refused(errno, "making", name);
  Unnamed file(*this, made.release(), name);
  ESP_CHECK(fill(file, parts));
  return file;
}

Result<> CacheFolder::publish(std::vector<Unnamed> files, bool durable) const {
  for (const Unnamed& file : files) {
    if (!durable) break;
    if (const int code = fault(FileCall::sync)) return refused(code, "flushing", file.name_);
    if (flush_content(file.file_) != 0) return refused(errno, "flushing", file.name_);
  }
  for (Unnamed& file : files) {
    if (const int code = fault(FileCall::rename)) return refused(code, "naming", file.name_);
    if (::renameat(folder_, unfinished(file.name_).c_str(), folder_, file.name_.c_str()) != 0)
      return refused(errno, "naming", file.name_);
    ::close(std::exchange(file.file_, -1));
  }
  return success();
}

void CacheFolder::sync_names() const {
  if (fault(FileCall::sync) == 0) ::fsync(folder_);  // should it fail, a cache entry may be lost
}

Result<CacheFolder::Input> CacheFolder::open_file(const std::string& name) const {
  if (const int code = fault(FileCall::open)) return refused(code, "opening", name);
  UniqueFd file(open_past_page_cache(folder_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return refused(errno, "opening", name);
  return Input(*this, file.release(), name);
}

CacheFolder::Input::~Input() {
  if (file_ >= 0) ::close(file_);
}

Result<> CacheFolder::Input::read(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    if (const int code = folder_.fault(FileCall::read)) return refused(code, "reading", name_);
    const ssize_t got = ::pread(file_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refused(errno, "reading", name_);
    if (got == 0) return bad_file(fmt::format("{} is shorter than it was", name_));
    offset += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return success();
}

void CacheFolder::Input::touch() const {
  ::futimens(file_, nullptr);
}

Result<std::size_t> CacheFolder::peek(const std::string& name, std::span<std::byte> into) const {
  if (const int code = fault(FileCall::open)) return refused(code, "opening", name);
  const UniqueFd file(::openat(folder_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return refused(errno, "opening", name);
  std::size_t read = 0;
  while (read < into.size()) {
    if (const int code = fault(FileCall::read)) return refused(code, "reading", name);
    const ssize_t got = ::pread(file.get(), into.data() + read, into.size() - read, static_cast<off_t>(read));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refused(errno, "reading", name);
    if (got == 0) break;
    read += static_cast<std::size_t>(got);
  }
  return read;
}

Result<> CacheFolder::remove(const std::string& name) const {
  if (const int code = fault(FileCall::remove)) return refused(code, "removing", name);
  if (::unlinkat(folder_, name.c_str(), 0) != 0 && errno != ENOENT) return refused(errno, "removing", name);
  return success();
}

void CacheFolder::remove_all() const {
  for (const Entry& entry : list()) ::unlinkat(folder_, entry.name.c_str(), 0);
  ::unlinkat(folder_, kLockName, 0);
  ::rmdir(path_.c_str());
}

std::vector<std::string> folders_in(const std::filesystem::path& base, std::string_view prefix) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(base.c_str()));
  if (!directory) return names;
  while (const dirent* entry = ::readdir(directory.get())) {
    struct stat info{};
    const std::string name = entry->d_name;
    if (!name.starts_with(prefix) || ::fstatat(::dirfd(directory.get()), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (S_ISDIR(info.st_mode) && info.st_uid == ::geteuid()) names.push_back(name);
  }
  return names;
}

void remove_abandoned(const std::filesystem::path& base, std::string_view prefix) {
  for (const std::string& name : folders_in(base, prefix))
    if (auto folder = CacheFolder::open(base, name); folder.ok()) (*folder)->remove_all();
}

}  // namespace espalier
