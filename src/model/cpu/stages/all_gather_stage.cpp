#include "model/cpu/stages/all_gather_stage.h"

#include <algorithm>
#include <cstring>

#include "ranks/collective.h"

namespace espalier {
namespace {

// Of a rank's part at once: it stays in the caches between packing and unpacking.
constexpr std::size_t kMostBytes = std::size_t{4} << 20;
// Copies of fewer bytes are not worth the team's time.
constexpr std::size_t kFewBytes = std::size_t{64} << 10;

// Each rank's columns of all rows. to: who gets them, or -1: all.
class Gathering {
 public:
  Gathering(const ComputeWith& with, const Cut& cut, Place buffer, int to)
      : group_(*with.group), team_(with.team), cut_(cut), buffer_(buffer), to_(to) {
    for (int rank = 0; rank < group_.size(); ++rank) widest_ = std::max(widest_, row_bytes(rank));
  }

  void run(int rows) {
    if (widest_ == 0) return;
    const std::size_t most = std::min(kMostBytes, group_.max_part_bytes());
    const auto at_once = static_cast<int>(std::clamp<std::size_t>(most / widest_, 1, static_cast<std::size_t>(rows)));
    for (int begin = 0; begin < rows; begin += at_once) exchange(begin, std::min(rows, begin + at_once));
  }

 private:
  std::size_t row_bytes(int rank) const {
    if (rank == to_) return 0;
    return static_cast<std::size_t>(cut_[static_cast<std::size_t>(rank)].size()) * sizeof(float);
  }
  float* at(int rank, int row) const { return buffer_.row(row) + cut_[static_cast<std::size_t>(rank)].begin; }

  void exchange(int begin, int end) {
    const auto rows = static_cast<std::size_t>(end - begin);
    std::vector<std::size_t> bytes;
    for (int rank = 0; rank < group_.size(); ++rank) bytes.push_back(rows * row_bytes(rank));
    const int own = group_.rank();
    const std::size_t mine = row_bytes(own);
    std::byte* const out = group_.outgoing(bytes[static_cast<std::size_t>(own)]);
    each_row(begin, end, mine,
             [&](int row) { std::memcpy(out + static_cast<std::size_t>(row - begin) * mine, at(own, row), mine); });
    group_.exchange(bytes);
    if (to_ >= 0 && to_ != own) return;
    each_row(begin, end, widest_, [&](int row) {
      for (int rank = 0; rank < group_.size(); ++rank)
        if (const std::size_t each = row_bytes(rank); rank != own && each > 0)
          std::memcpy(at(rank, row), group_.incoming(rank) + static_cast<std::size_t>(row - begin) * each, each);
    });
  }

  template <class Body>
  void each_row(int begin, int end, std::size_t bytes, Body body) {
    const int rows = end - begin;
    if (bytes * static_cast<std::size_t>(rows) <= kFewBytes) {
      for (int row = begin; row < end; ++row) body(row);
      return;
    }
    team_.run(rows, [&](int row) { body(begin + row); });
  }

  ranks::Collective& group_;
  ComputeTeam& team_;
  const Cut& cut_;
  Place buffer_;
  int to_;
  std::size_t widest_ = 0;
};

}  // namespace

void AllGatherStage::run(Pass& pass) {
  Gathering(pass.with(), cut_, buffer_, -1).run(pass.rows());
}

void GatherLogitsStage::run(Pass& pass) {
  Gathering(pass.with(), cut_, logits_, 0).run(pass.rows());
  if (LogitReader* reader = pass.batch().reader; reader != nullptr && pass.with().group->rank() == 0)
    show(pass, *reader);
}

void GatherLogitsStage::show(const Pass& pass, LogitReader& reader) const {
  const auto vocabulary = static_cast<int>(logits_.stride);
  const int tiles = (vocabulary + kLogitTile - 1) / kLogitTile;
  pass.with().team.run(tiles, [&](int tile) {
    const int first = tile * kLogitTile, columns = std::min(kLogitTile, vocabulary - first);
    for (int row = 0; row < pass.rows(); ++row)
      if (reader.takes(row)) reader.read(row, first, {logits_.row(row) + first, static_cast<std::size_t>(columns)});
  });
}

}  // namespace espalier
