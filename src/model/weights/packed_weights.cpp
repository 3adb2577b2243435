#include "model/weights/packed_weights.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/threads/compute_team.h"
#include "model/weights/packed_form.h"
#include "tensor/file/open_file.h"

namespace espalier {

namespace packed_form {
namespace {

Result<> check_owner(const struct stat& info, const std::string& name) {
  if ((info.st_uid == ::geteuid() || info.st_uid == 0) && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0) return success();
  return bad_file(fmt::format("others than this user may write to {}; chmod go-w, or a folder of one's own", name));
}

}  // namespace

Result<> check_folder(const std::filesystem::path& folder) {
  struct stat info{};
  if (::stat(folder.c_str(), &info) != 0) {
    Error error = bad_file(fmt::format("{}: {}", folder.string(), std::generic_category().message(errno)));
    if (errno == ENOENT) error.kind = Error::Kind::not_found;
    return error;
  }
  if (!S_ISDIR(info.st_mode)) return bad_file(fmt::format("{} is no folder", folder.string()));
  return check_owner(info, folder.string());
}

Result<> check_file(int descriptor, const std::string& name) {
  struct stat info{};
  if (::fstat(descriptor, &info) != 0)
    return bad_file(fmt::format("{}: {}", name, std::generic_category().message(errno)));
  return check_owner(info, name);
}

}  // namespace packed_form

namespace pf = packed_form;

Result<PackedWeights> PackedWeights::open(const std::filesystem::path& path, std::string_view key) {
  ESP_CHECK(pf::check_folder(path.parent_path()));
  PackedWeights made;
  ESP_TRY(OpenFile opened, open_file(path));
  ESP_CHECK(pf::check_file(opened.descriptor(), opened.name()));
  ESP_TRY(GgufFile file, GgufFile::open(path));
  ESP_TRY(const FileStamp now, opened.stamp());
  const auto stamps = file.stamps();
  if (stamps.size() != 1 || stamps[0].inode != now.inode || stamps[0].bytes != now.bytes)
    return bad_file(fmt::format("{} was replaced while it was being opened", opened.name()));
  made.opened_ = std::make_shared<const OpenFile>(std::move(opened));
  made.file_ = std::make_shared<const GgufFile>(std::move(file));
  ESP_CHECK(made.check_head(key));
  return made;
}

Result<> PackedWeights::check_head(std::string_view key) {
  const GgufMetadata& head = file_->metadata();
  ESP_TRY(const std::string_view own_key, head.get_string(pf::kKeyName));
  ESP_TRY(sums_, head.get_integers(pf::kSumsName));
  ESP_TRY(const std::string_view told, head.get_string(pf::kHeadName));
  pf::HeadPrint print(own_key);
  std::size_t pieces = 0;
  for (const Tensor& tensor : file_->tensors()) {
    if (tensor.dtype != DType::i8 || file_->offset(tensor) % pf::kAlignment != 0)
      return bad_file(fmt::format("{}: tensor {} is none of panels", file_->name(), tensor.name), tensor.name);
    print.tensor(tensor.name, tensor.data.size());
    first_sum_.push_back(2 * pieces);
    pieces += pf::pieces_of(tensor.data.size());
    bytes_ += tensor.data.size();
  }
  for (const std::int64_t half : sums_) print.sum(half);
  if (sums_.size() != 2 * pieces || print.text() != told)
    return bad_file(fmt::format("{} is damaged: its head is not what was written", file_->name()));
  if (own_key == key) return success();
  return Error{Error::Kind::unsupported,
               fmt::format("{} was made of another state of the model's files, or by another version", file_->name()),
               {},
               {}};
}

std::optional<PackedMatrix> PackedWeights::find(std::string_view name, DType type, std::int64_t outputs, std::int64_t k,
                                                ComputeTeam& team) const {
  const Tensor* tensor = file_->find(pf::full_name(name, type, outputs, k));
  const auto bytes = PackedMatrix::bytes_of(type, outputs, k);
  ++missed_;  // until it turns out otherwise
  if (tensor == nullptr || !bytes.ok() || tensor->data.size() != *bytes) return std::nullopt;
  const std::byte* panels = tensor->data.data();
  std::shared_ptr<const void> owner = file_;
  if (access_ == Access::map) {
    file_->will_need(*tensor);
  } else if (auto memory = PageBuffer::allocate(tensor->data.size()); memory.ok()) {
    if (!read(*tensor, memory->data(), team)) {
      damaged_ = true;
      return std::nullopt;
    }
    panels = memory->data();
    owner = std::make_shared<PageBuffer>(std::move(memory).value());
  }  // no room for a copy: the map will do
  auto matrix = PackedMatrix::over(type, outputs, k, panels, std::move(owner));
  if (!matrix.ok()) return std::nullopt;
  --missed_;
  return std::move(matrix).value();
}

bool PackedWeights::read(const Tensor& tensor, std::byte* into, ComputeTeam& team) const {
  const std::uint64_t offset = file_->offset(tensor);
  const std::int64_t* sums = sums_.data() + first_sum_[static_cast<std::size_t>(&tensor - file_->tensors().data())];
  std::atomic<bool> whole{true};
  team.run(static_cast<int>(pf::pieces_of(tensor.data.size())), [&](int piece) {
    const std::size_t begin = static_cast<std::size_t>(piece) * pf::kPiece;
    const std::size_t bytes = std::min(pf::kPiece, tensor.data.size() - begin);
    for (std::size_t have = 0; have < bytes;) {
      const ssize_t got =
          ::pread(opened_->descriptor(), into + begin + have, bytes - have, static_cast<off_t>(offset + begin + have));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        whole = false;
        return;
      }
      have += static_cast<std::size_t>(got);
    }
    const std::uint64_t sum = checksum({into + begin, bytes});
    if (static_cast<std::uint32_t>(sums[2 * piece]) != static_cast<std::uint32_t>(sum) ||
        static_cast<std::uint32_t>(sums[2 * piece + 1]) != static_cast<std::uint32_t>(sum >> 32))
      whole = false;
  });
  return whole;
}

}  // namespace espalier
