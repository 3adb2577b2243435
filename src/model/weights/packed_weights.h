// packed_weights.h: a file of packed matrices, so that a model's next start need not pack them again.
//
// The file is a GGUF container, so that one careful reader checks its counts, names, lengths and offsets: the panels of
// each matrix are a tensor of bytes, at a multiple of 4,096, whose name says of which tensors, type and shape it was
// made. Beside them stand a key, which tells for which checkpoint the file is good, a checksum of all of this, and one
// of every MiB of panels. docs/decisions/packed-weights.md tells why, and what is checked when.
//
// A file is written under a name of its own, flushed, and renamed: whoever opens it sees all of it, and two who write
// at once do not disturb each other. Nobody writes to it afterwards.
//
// Threads: open() and write() on one; find() on one at a time, its work is split over a team.
// Fails:   open(): not_found (no file), unsupported (a whole file with another key), bad_file (cut, damaged, or
//          others may write to it). write(): unavailable (the device or file system refuses: errno's sentence); nothing
//          stays.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "kernels/matmul/packed_matrix.h"
#include "tensor/file/gguf.h"

namespace espalier {

// Raise it when other tensors than before are packed side by side, or their rows in another order, and with the form of
// the file. (Layouts of panels are recognised by themselves: panels_print().)
inline constexpr int kPackedWeightsVersion = 2;

// A matrix and the name that it has in the file.
struct NamedMatrix {
  std::string name;
  const PackedMatrix* matrix;
};

// The packed matrices of one file.
class PackedWeights {
 public:
  // map: panels stay in the file's pages, which processes share and the kernel may drop; their checksums are not looked
  // at. read: panels are copied to memory of their own (2 MiB pages where they are granted), and checked.
  enum class Access { map, read };

  static Result<PackedWeights> open(const std::filesystem::path& path, std::string_view key);

  std::uint64_t bytes() const { return bytes_; }  // of all panels
  void choose(Access access) { access_ = access; }
  Access access() const { return access_; }

  // Nothing when the file has no such matrix, or its panels are damaged (which damaged() tells from then on) or cannot
  // be read: then it has to be packed.
  std::optional<PackedMatrix> find(std::string_view name, DType type, std::int64_t outputs, std::int64_t k,
                                   ComputeTeam& team) const;
  bool damaged() const { return damaged_; }
  bool complete() const { return !damaged_ && missed_ == 0; }  // every find() so far gave something
  Result<> intact() const { return file_->intact(); }

  using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;  // bytes; on the calling thread
  static Result<> write(const std::filesystem::path& path, std::string_view key, std::span<const NamedMatrix> matrices,
                        ComputeTeam& team, const Progress& progress = {});

 private:
  PackedWeights() = default;
  Result<> check_head(std::string_view key);
  bool read(const Tensor& tensor, std::byte* into, ComputeTeam& team) const;

  std::shared_ptr<const GgufFile> file_;
  std::shared_ptr<const OpenFile> opened_;  // the same, for reading
  std::vector<std::int64_t> sums_;          // 32 bits each, two a piece; the pieces of all tensors in file order
  std::vector<std::size_t> first_sum_;      // of each tensor
  std::uint64_t bytes_ = 0;
  Access access_ = Access::read;
  mutable bool damaged_ = false;
  mutable int missed_ = 0;
};

}  // namespace espalier
