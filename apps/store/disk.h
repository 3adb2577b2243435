// disk.h: folders, whole files, locks and open files for the caches, with errors that say what to do.
//
// Everything that appears under its final name is complete: it is written beside it, flushed, then renamed.
// Threads: a FileLock and an OutputFile belong to one thread; other processes are kept out by the lock.
// Fails:   out_of_memory (device full), forbidden (permissions), internal (any other), cancelled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/system/unique_fd.h"
#include "espalier/error.h"

namespace espalier::store {

// An Error for errno `code` while doing `what` ("writing /x/y").
Error disk_error(int code, std::string_view what);

Result<> make_folder(const std::filesystem::path& folder);
Result<std::string> read_small_file(const std::filesystem::path& path, std::uint64_t most_bytes);
Result<> write_whole_file(const std::filesystem::path& path, std::string_view content);
Result<> move_into_place(const std::filesystem::path& from, const std::filesystem::path& to);

// Makes `link` point at `target` (relative to the link's folder); where links do not exist, copies the file.
Result<> link_or_copy(const std::filesystem::path& target, const std::filesystem::path& link);

// Refuses when the file system that holds `folder` has less than `bytes` free; `setting` names what moves the folder.
Result<> check_free_space(const std::filesystem::path& folder, std::uint64_t bytes, std::string_view setting);

// An exclusive lock held through a file that stays behind empty. The kernel drops it with the process, however that
// ends, so nothing has to be repaired by hand. `on_wait` is called once when somebody else holds it.
class FileLock {
 public:
  static Result<FileLock> acquire(const std::filesystem::path& path, std::stop_token stop,
                                  const std::function<void()>& on_wait = {});

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  UniqueFd fd_;
};

// A file being written.
// Order: open (write | restart)* finish; without finish() what was written stays for a resumption.
class OutputFile {
 public:
  static Result<OutputFile> open_at_end(const std::filesystem::path& path);  // size() bytes are there already

  std::uint64_t size() const { return size_; }
  Result<> write(std::string_view piece);
  Result<> restart();  // empties it
  Result<> finish();   // to the device

 private:
  OutputFile(int fd, std::uint64_t size, std::filesystem::path path) : fd_(fd), size_(size), path_(std::move(path)) {}
  UniqueFd fd_;
  std::uint64_t size_;
  std::filesystem::path path_;
};

}  // namespace espalier::store
