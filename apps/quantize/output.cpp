#include "quantize/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/checksum.h"
#include "base/system/file_calls.h"

namespace espalier::quantizer {
namespace {

namespace fs = std::filesystem;

Error cannot(std::string_view what, const fs::path& path, int number) {
  std::string hint;
  if (number == ENOSPC || number == EDQUOT) hint = "; --dry-run tells how much room it takes";
  return bad_file(
      fmt::format("{} cannot be {}: {}{}", path.string(), what, std::generic_category().message(number), hint), "dst");
}

// Room for all of it before any work is done, where the file system can promise it.
Result<> reserve(int file, std::uint64_t bytes, const fs::path& path) {
  // NOLINTNEXTLINE(misc-redundant-expression): two of them are one number on Linux, not elsewhere
  if (bytes > 0 && reserve_space(file, bytes) != 0 && errno != EOPNOTSUPP && errno != ENOTSUP && errno != EINVAL &&
      errno != ENOSYS)
    return cannot("given its room", path, errno);
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) return cannot("given its length", path, errno);
  return success();
}

std::string line_of(std::string_view a, std::string_view b) {
  return fmt::format("{} {}\n", a, b);
}

}  // namespace

Result<> check_target(const fs::path& path, bool overwrite) {
  std::error_code failed;
  if (!overwrite && fs::exists(fs::symlink_status(path, failed)))
    return bad_request(fmt::format("{} is there already; another name, or --overwrite, would work", path.string()),
                       "dst");
  const fs::path parent = path.parent_path();
  if (!parent.empty() && !fs::is_directory(parent, failed))
    return Error{Error::Kind::not_found,
                 fmt::format("there is no folder {} to write {} into", parent.string(), path.filename().string()),
                 "dst",
                 {}};
  return success();
}

fs::path Output::path_of(int file) const {
  return plan_.folder ? working_ / plan_.files[static_cast<std::size_t>(file)].name : working_;
}

Result<Output> Output::open(OutputPlan plan) {
  Output out;
  out.plan_ = std::move(plan);
  out.done_.assign(out.plan_.pieces.size(), false);
  ESP_CHECK(check_target(out.plan_.path, out.plan_.overwrite));
  out.working_ = out.plan_.path;
  out.working_ += ".partial";
  out.journal_path_ = out.plan_.folder ? out.working_ / ".journal" : fs::path(out.working_.string() + ".journal");
  std::error_code failed;
  out.drop_other_kind();
  if (out.plan_.folder && !fs::create_directories(out.working_, failed) && failed)
    return cannot("made", out.working_, failed.value());
  out.journal_.reset(::open(out.journal_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!out.journal_) return cannot("opened", out.journal_path_, errno);
  if (::flock(out.journal_.get(), LOCK_EX | LOCK_NB) != 0)
    return bad_request(fmt::format("another process is writing {}", out.plan_.path.string()), "dst");
  ESP_CHECK(out.open_files());
  ESP_CHECK(out.read_journal());
  return out;
}

// What an earlier run of another kind of type left under the same name.
void Output::drop_other_kind() const {
  std::error_code failed;
  const fs::path journal = working_.string() + ".journal";
  if (plan_.folder && fs::is_regular_file(working_, failed) && fs::is_regular_file(journal, failed)) {
    fs::remove(working_, failed);
    fs::remove(journal, failed);
  } else if (!plan_.folder && fs::is_regular_file(working_ / ".journal", failed)) {
    fs::remove_all(working_, failed);
  }
}

Result<> Output::open_files() {
  for (std::size_t i = 0; i < plan_.files.size(); ++i) {
    const fs::path path = path_of(static_cast<int>(i));
    UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!file) return cannot("opened", path, errno);
    files_.push_back(std::move(file));
  }
  return success();
}

// Each line but the first: a piece and the checksum of its bytes. What comes behind a line that is cut off, or has other
// bytes, is not there.
Result<> Output::read_journal() {
  std::ifstream in(journal_path_, std::ios::binary);
  std::string first, line;
  std::vector<std::pair<int, std::string>> lines;
  if (!std::getline(in, first) || in.eof() || first != plan_.fingerprint) return start_journal();
  while (std::getline(in, line) && !in.eof()) {
    int piece = -1;
    const auto [end, wrong] = std::from_chars(line.data(), line.data() + line.size(), piece);
    if (wrong != std::errc() || *end != ' ' || piece < 0 || static_cast<std::size_t>(piece) >= done_.size()) break;
    lines.emplace_back(piece, line.substr(static_cast<std::size_t>(end + 1 - line.data())));
  }
  for (std::size_t i = 0; i < files_.size(); ++i) {
    struct stat info{};
    if (::fstat(files_[i].get(), &info) != 0 || static_cast<std::uint64_t>(info.st_size) != plan_.files[i].bytes)
      return start_journal();
  }
  for (const auto& [piece, sum] : lines) {
    ESP_TRY(const std::uint64_t found, checksum_of(piece));
    if (fmt::format("{:016x}", found) != sum) continue;
    found_ += done_[static_cast<std::size_t>(piece)] ? 0 : 1;
    done_[static_cast<std::size_t>(piece)] = true;
  }
  if (::lseek(journal_.get(), 0, SEEK_END) < 0) return cannot("read", journal_path_, errno);
  return success();
}

Result<> Output::start_journal() {
  done_.assign(done_.size(), false);
  found_ = 0;
  if (::ftruncate(journal_.get(), 0) != 0) return cannot("emptied", journal_path_, errno);
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const fs::path path = path_of(static_cast<int>(i));
    if (::ftruncate(files_[i].get(), 0) != 0) return cannot("emptied", path, errno);
    ESP_CHECK(reserve(files_[i].get(), plan_.files[i].bytes, path));
    if (write_at(files_[i].get(), std::as_bytes(std::span(plan_.files[i].head)), 0) != 0)
      return cannot("written", path, errno);
  }
  const std::string line = plan_.fingerprint + "\n";
  if (write_at(journal_.get(), std::as_bytes(std::span(line)), 0) != 0) return cannot("written", journal_path_, errno);
  if (::lseek(journal_.get(), 0, SEEK_END) < 0) return cannot("read", journal_path_, errno);
  return success();
}

Result<> Output::write(const Slot& slot, std::uint64_t at, std::span<const std::byte> bytes) const {
  if (at + bytes.size() > slot.bytes) return internal_error("a piece is longer than its slot");
  if (write_at(files_[static_cast<std::size_t>(slot.file)].get(), bytes, slot.offset + at) != 0)
    return cannot("written", path_of(slot.file), errno);
  return success();
}

Result<std::uint64_t> Output::checksum_of(int piece) const {
  std::uint64_t sum = static_cast<std::uint64_t>(piece);
  std::vector<std::byte> buffer(1 << 20);
  for (const Slot& slot : plan_.pieces[static_cast<std::size_t>(piece)])
    for (std::uint64_t at = 0; at < slot.bytes;) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), slot.bytes - at));
      const ssize_t got = ::pread(files_[static_cast<std::size_t>(slot.file)].get(), buffer.data(), count,
                                  static_cast<off_t>(slot.offset + at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return cannot("read", path_of(slot.file), got < 0 ? errno : EIO);
      sum = checksum(std::span<const std::byte>(buffer).first(static_cast<std::size_t>(got)), sum);
      at += static_cast<std::uint64_t>(got);
    }
  return sum;
}

Result<> Output::finish_piece(int piece) {
  ESP_TRY(const std::uint64_t sum, checksum_of(piece));
  const std::string line = line_of(std::to_string(piece), fmt::format("{:016x}", sum));
  if (::write(journal_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return cannot("written", journal_path_, errno);
  done_[static_cast<std::size_t>(piece)] = true;
  return success();
}

Result<> Output::put_file(const std::string& name, std::string_view content) const {
  const fs::path path = working_ / name;
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file || write_at(file.get(), std::as_bytes(std::span(content)), 0) != 0 || flush_content(file.get()) != 0)
    return cannot("written", path, errno);
  return success();
}

Result<> Output::publish() {
  for (std::size_t i = 0; i < files_.size(); ++i)
    if (flush_content(files_[i].get()) != 0) return cannot("written", path_of(static_cast<int>(i)), errno);
  std::error_code failed;
  if (plan_.folder) {
    fs::remove(journal_path_, failed);
    if (plan_.overwrite) fs::remove_all(plan_.path, failed);
  }
  fs::rename(working_, plan_.path, failed);
  if (failed) return cannot("renamed", working_, failed.value());
  if (!plan_.folder) fs::remove(journal_path_, failed);
  return success();
}

}  // namespace espalier::quantizer
