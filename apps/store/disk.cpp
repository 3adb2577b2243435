#include "store/disk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

namespace espalier::store {
namespace fs = std::filesystem;

Error disk_error(int code, std::string_view what) {
  const std::string reason = std::generic_category().message(code);
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return {Error::Kind::out_of_memory,
              fmt::format("no space left while {}: free some, or move the cache", what),
              {},
              {}};
    case EACCES:
    case EPERM:
    case EROFS:
      return {Error::Kind::forbidden,
              fmt::format("not allowed: {} ({}); choose a cache you may write to", what, reason),
              {},
              {}};
    default:
      return internal_error(fmt::format("{} failed: {}", what, reason));
  }
}

namespace {

// A name beside `path` that no other thread or process uses.
fs::path beside_of(const fs::path& path) {
  static std::atomic<unsigned> count{0};
  fs::path beside = path;
  beside += fmt::format(".{}.{}.tmp", ::getpid(), count++);
  return beside;
}

}  // namespace

Result<> make_folder(const fs::path& folder) {
  if (folder.empty() || !folder.is_absolute())
    return Error{Error::Kind::bad_request,
                 "no folder for the cache is known: set ESPALIER_CACHE, or HOME",
                 "ESPALIER_CACHE",
                 {}};
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return disk_error(code.value(), fmt::format("making the folder {}", folder.string()));
  return success();
}

Result<std::string> read_small_file(const fs::path& path, std::uint64_t most_bytes) {
  std::error_code code;
  const auto bytes = fs::file_size(path, code);
  if (code) return Error{Error::Kind::not_found, fmt::format("cannot read {}", path.string()), {}, {}};
  if (bytes > most_bytes)
    return bad_file(fmt::format("{} is {} bytes long; at most {} make sense", path.string(), bytes, most_bytes));
  std::ifstream in(path, std::ios::binary);
  std::string text(bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

Result<> write_whole_file(const fs::path& path, std::string_view content) {
  ESP_CHECK(make_folder(path.parent_path()));
  const fs::path beside = beside_of(path);
  {
    ESP_TRY(OutputFile file, OutputFile::open_at_end(beside));
    ESP_CHECK(file.restart());
    ESP_CHECK(file.write(content));
    ESP_CHECK(file.finish());
  }
  return move_into_place(beside, path);
}

Result<> move_into_place(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return disk_error(errno, fmt::format("renaming to {}", to.string()));
  return success();
}

Result<> link_or_copy(const fs::path& target, const fs::path& link) {
  ESP_CHECK(make_folder(link.parent_path()));
  const fs::path beside = beside_of(link);
  std::error_code code;
  fs::create_symlink(target, beside, code);
  if (code) {
    code.clear();
    fs::copy_file(link.parent_path() / target, beside, code);
    if (code) return disk_error(code.value(), fmt::format("copying to {}", link.string()));
  }
  return move_into_place(beside, link);
}

Result<> check_free_space(const fs::path& folder, std::uint64_t bytes, std::string_view setting) {
  std::error_code code;
  const auto space = fs::space(folder, code);
  if (code || space.available >= bytes) return success();
  return Error{
      Error::Kind::out_of_memory,
      fmt::format("{:.1f} GB are still to be fetched, and {} has {:.1f} GB free: free some, or set {} to another place",
                  static_cast<double>(bytes) / 1e9, folder.string(), static_cast<double>(space.available) / 1e9,
                  setting),
      {},
      {}};
}

namespace {

// Whether the open lock file is still the one under that name; another program may tidy lock files away.
bool still_named(int fd, const fs::path& path) {
  struct stat mine{}, named{};
  return ::fstat(fd, &mine) == 0 && ::stat(path.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
         mine.st_dev == named.st_dev;
}

}  // namespace

Result<FileLock> FileLock::acquire(const fs::path& path, std::stop_token stop, const std::function<void()>& on_wait) {
  ESP_CHECK(make_folder(path.parent_path()));
  for (bool told = false;;) {
    FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!lock.fd_) return disk_error(errno, fmt::format("opening the lock {}", path.string()));
    if (::flock(lock.fd_.get(), LOCK_EX | LOCK_NB) == 0) {
      if (still_named(lock.fd_.get(), path)) return lock;
    } else if (errno != EWOULDBLOCK && errno != EINTR) {
      return disk_error(errno, fmt::format("locking {} (the file system must support locks)", path.string()));
    }
    if (!told && on_wait) on_wait();
    told = true;
    if (stop.stop_requested()) return Error{Error::Kind::cancelled, "cancelled", {}, {}};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Result<OutputFile> OutputFile::open_at_end(const fs::path& path) {
  OutputFile file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666), 0, path);
  if (!file.fd_) return disk_error(errno, fmt::format("opening {}", path.string()));
  const off_t end = ::lseek(file.fd_.get(), 0, SEEK_END);
  if (end < 0) return disk_error(errno, fmt::format("reading {}", path.string()));
  file.size_ = static_cast<std::uint64_t>(end);
  return file;
}

Result<> OutputFile::write(std::string_view piece) {
  while (!piece.empty()) {
    const ssize_t n = ::write(fd_.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return disk_error(errno, fmt::format("writing {}", path_.string()));
    piece.remove_prefix(static_cast<std::size_t>(n));
    size_ += static_cast<std::uint64_t>(n);
  }
  return success();
}

Result<> OutputFile::restart() {
  if (::ftruncate(fd_.get(), 0) != 0 || ::lseek(fd_.get(), 0, SEEK_SET) != 0)
    return disk_error(errno, fmt::format("emptying {}", path_.string()));
  size_ = 0;
  return success();
}

Result<> OutputFile::finish() {
  if (::fsync(fd_.get()) != 0 && errno != EINVAL) return disk_error(errno, fmt::format("writing {}", path_.string()));
  return success();
}

}  // namespace espalier::store
