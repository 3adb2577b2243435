#include "tensor/file/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/json/json.h"  // in_quotes
#include "base/system/file_times.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

Error cannot_open(const std::string& shown, int error) {
  const auto reason = std::generic_category().message(error);
  Error made = bad_file(fmt::format("cannot open {}: {}", shown, reason));
  if (error == ENOENT || error == ENOTDIR) made.kind = Error::Kind::not_found;
  return made;
}

// O_NONBLOCK: opening a named pipe must not wait for a writer; regular files do not care.
Result<OpenFile> open_regular(const fs::path& path, std::string name, const std::string& shown, int flags) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
  if (descriptor < 0) return cannot_open(shown, errno);
  OpenFile file(descriptor, std::move(name));
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) return cannot_open(shown, errno);
  if (!S_ISREG(status.st_mode)) {
    return bad_file(
        fmt::format("{} is {}, not a regular file", shown, S_ISDIR(status.st_mode) ? "a folder" : "a device"));
  }
  return file;
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  const auto [rest, end] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return rest == folder.end() && end != path.end();
}

// The folder may be one inside a snapshot, as sentence-transformers' modules are.
bool lies_in_hub_blobs(const fs::path& path, const fs::path& folder) {
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path()) {
    if (at.parent_path().filename() != "snapshots") continue;
    std::error_code error;
    const auto blobs = fs::canonical(at.parent_path().parent_path() / "blobs", error);
    return !error && lies_in(path, blobs);
  }
  return false;
}

}  // namespace

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(name_, other.name_);
  return *this;
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<FileStamp> OpenFile::stamp() const {
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) {
    return bad_file(fmt::format("{}: {}", name_, std::generic_category().message(errno)));
  }
  const auto nanoseconds = [](const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return FileStamp{name_, static_cast<std::uint64_t>(status.st_size), static_cast<std::uint64_t>(status.st_ino),
                   nanoseconds(content_changed(status)), nanoseconds(status_changed(status))};
}

Result<std::uint64_t> OpenFile::bytes() const {
  ESP_TRY(const FileStamp now, stamp());
  return now.bytes;
}

Result<OpenFile> open_file(const fs::path& path) {
  return open_regular(path, path.filename().string(), path.string(), 0);
}

bool is_plain_file_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
  return std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == '/' || c == '\\'; });
}

Result<OpenFile> open_beneath(const fs::path& folder, std::string_view name) {
  const std::string shown = in_quotes(name);
  if (!is_plain_file_name(name)) {
    return bad_file(fmt::format("{} is no plain file name: files of a model lie directly in its folder", shown));
  }
  std::error_code error;
  const auto root = fs::canonical(folder, error);
  if (error) return cannot_open(folder.string(), error.value());
  const auto path = fs::canonical(root / name, error);
  if (error) return cannot_open(shown, error.value());
  if (!lies_in(path, root) && !lies_in_hub_blobs(path, root)) {
    return bad_file(fmt::format("{} is a link that leaves the model's folder", shown));
  }
  return open_regular(path, std::string(name), shown, O_NOFOLLOW);  // resolved: a link now would be a new one
}

Result<std::string> read_text(const OpenFile& file, std::uint64_t limit) {
  ESP_TRY(const std::uint64_t size, file.bytes());
  const auto too_long = [&] { return bad_file(fmt::format("{} has more than {} bytes", file.name(), limit)); };
  if (size > limit) return too_long();
  std::string text(static_cast<std::size_t>(size) + 1, '\0');  // one more, to notice that it has grown
  std::size_t have = 0;
  while (true) {
    const ssize_t got = ::pread(file.descriptor(), text.data() + have, text.size() - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return bad_file(fmt::format("{}: {}", file.name(), std::generic_category().message(errno)));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
    if (have > limit) return too_long();
    if (have == text.size()) text.resize(std::min<std::uint64_t>(limit + 1, text.size() + 65536));
  }
  text.resize(have);
  return text;
}

}  // namespace espalier
