#include "engine/load/file_start.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/system/file_times.h"
#include "tensor/file/open_file.h"

namespace espalier {

void add_start(Fingerprint& print, const std::filesystem::path& path, KeyReach reach) {
  constexpr std::uint64_t kMost = 16 << 20;
  auto file = open_file(path);
  struct stat info{};
  if (!file.ok() || ::fstat(file->descriptor(), &info) != 0) return print.add("absent");
  print.add_number(static_cast<std::uint64_t>(info.st_size));
  if (reach == KeyReach::machine) {
    print.add_number(static_cast<std::uint64_t>(content_changed(info).tv_sec));
    print.add_number(static_cast<std::uint64_t>(content_changed(info).tv_nsec));
  }
  std::vector<std::byte> bytes(std::min<std::uint64_t>(kMost, static_cast<std::uint64_t>(info.st_size)));
  std::size_t read = 0;
  while (read < bytes.size()) {
    const ssize_t got = ::pread(file->descriptor(), bytes.data() + read, bytes.size() - read, static_cast<off_t>(read));
    if (got <= 0) break;
    read += static_cast<std::size_t>(got);
  }
  print.add(std::span(bytes).first(read));
}

}  // namespace espalier
