#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "base/system/file_calls.h"
#include "base/system/unique_fd.h"
#include "base/threads/compute_team.h"
#include "model/weights/packed_form.h"
#include "model/weights/packed_weights.h"
#include "tensor/file/gguf_writer.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
namespace pf = packed_form;

Error refusal(std::string_view doing, const fs::path& path) {
  return {Error::Kind::unavailable,
          fmt::format("{} {}: {}", doing, path.string(), std::generic_category().message(errno)),
          {},
          {}};
}

// The checksums of all pieces, as two halves each: GGUF's arrays that the writer knows are of 32 bits.
std::vector<std::int32_t> sums_of(std::span<const NamedMatrix> matrices, ComputeTeam& team) {
  std::vector<std::span<const std::byte>> pieces;
  for (const NamedMatrix& named : matrices) {
    const auto all = named.matrix->memory();
    for (std::size_t at = 0; at < all.size(); at += pf::kPiece)
      pieces.push_back(all.subspan(at, std::min(pf::kPiece, all.size() - at)));
  }
  std::vector<std::int32_t> sums(2 * pieces.size());
  team.run(static_cast<int>(pieces.size()), [&](int piece) {
    const auto i = static_cast<std::size_t>(piece);
    const std::uint64_t sum = checksum(pieces[i]);
    sums[2 * i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum));
    sums[2 * i + 1] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum >> 32));
  });
  return sums;
}

std::string head_of(std::string_view key, std::span<const NamedMatrix> matrices, ComputeTeam& team) {
  GgufWriter writer(pf::kAlignment);
  pf::HeadPrint print(key);
  for (const auto& [made_of, matrix] : matrices) {
    const std::string name = pf::full_name(made_of, matrix->type(), matrix->outputs(), matrix->k());
    writer.declare(name, DType::i8, {static_cast<std::int64_t>(matrix->bytes())});
    print.tensor(name, matrix->bytes());
  }
  const std::vector<std::int32_t> sums = sums_of(matrices, team);
  for (const std::int32_t half : sums) print.sum(half);
  writer.put("general.architecture", pf::kArchitecture);
  writer.put(pf::kKeyName, key);
  writer.put(pf::kSumsName, std::span(sums));
  writer.put(pf::kHeadName, print.text());
  return writer.head();
}

// Drafts of processes that died while writing. What is written to is younger.
void remove_abandoned_drafts(const fs::path& target) {
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  const std::string prefix = target.filename().string() + ".";
  std::error_code failed;
  for (fs::directory_iterator entry(target.parent_path(), failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code ignored;
    if (entry->path().filename().string().starts_with(prefix) && entry->is_regular_file(ignored) &&
        entry->last_write_time(ignored) < long_ago)
      fs::remove(entry->path(), ignored);
  }
}

// A file that is written beside its place; without publish() it is removed again.
class Draft {
 public:
  explicit Draft(const fs::path& target) : target_(target), path_(target.string() + ".XXXXXX") {}
  ~Draft() {
    if (file_) ::unlink(path_.c_str());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  Result<> create() {
    file_.reset(::mkostemp(path_.data(), O_CLOEXEC));  // a name that nobody has, 0600
    if (!file_) return refusal("making", path_);
    return success();
  }
  Result<> append(std::span<const std::byte> bytes) {
    if (write_at(file_.get(), bytes, bytes_) != 0) return refusal("writing", path_);
    bytes_ += bytes.size();
    return success();
  }
  // Its bytes are on the device before its name is there: after a loss of power there is no name over holes.
  Result<> publish() {
    if (::fsync(file_.get()) != 0) return refusal("flushing", path_);
    if (::rename(path_.c_str(), target_.c_str()) != 0) return refusal("naming", target_);
    file_.reset();
    const UniqueFd folder(::open(target_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder) ::fsync(folder.get());  // should it fail, the name may be lost
    return success();
  }

 private:
  fs::path target_;
  std::string path_;
  UniqueFd file_;
  std::uint64_t bytes_ = 0;  // appended
};

Result<> append_panels(Draft& draft, std::span<const NamedMatrix> matrices, const PackedWeights::Progress& progress) {
  constexpr std::size_t kStep = 16 * pf::kPiece;
  const std::vector<std::byte> zeros(pf::kAlignment);
  const GgufWriter layout(pf::kAlignment);
  std::uint64_t total = 0, done = 0;
  for (const NamedMatrix& named : matrices) total += named.matrix->bytes();
  for (const NamedMatrix& named : matrices) {
    const auto all = named.matrix->memory();
    for (std::size_t at = 0; at < all.size(); at += kStep) {
      if (progress) progress(done, total);
      const auto part = all.subspan(at, std::min(kStep, all.size() - at));
      ESP_CHECK(draft.append(part));
      done += part.size();
    }
    ESP_CHECK(draft.append(std::span(zeros).first(layout.padding(all.size()))));
  }
  if (progress) progress(total, total);
  return success();
}

}  // namespace

Result<> PackedWeights::write(const fs::path& path, std::string_view key, std::span<const NamedMatrix> matrices,
                              ComputeTeam& team, const Progress& progress) {
  ESP_CHECK(pf::check_folder(path.parent_path()));
  const std::string head = head_of(key, matrices, team);
  remove_abandoned_drafts(path);
  Draft draft(path);
  ESP_CHECK(draft.create());
  ESP_CHECK(draft.append(std::as_bytes(std::span(head))));
  ESP_CHECK(append_panels(draft, matrices, progress));
  return draft.publish();
}

}  // namespace espalier
