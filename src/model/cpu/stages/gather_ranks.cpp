#include "model/cpu/stages/gather_ranks.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ranks/collective.h"

namespace espalier {
namespace {

// Of a rank's part at once: it stays in the caches between packing and unpacking.
constexpr std::size_t kMostBytes = std::size_t{4} << 20;
// Copies of fewer bytes are not worth the team's time.
constexpr std::size_t kFewBytes = std::size_t{64} << 10;

// body(row) of so many rows of so many bytes, by the team where that pays.
template <class Body>
void run_rows(ComputeTeam& team, int rows, std::size_t bytes, Body body) {
  if (bytes * static_cast<std::size_t>(rows) > kFewBytes) return team.run(rows, body);
  for (int i = 0; i < rows; ++i) body(i);
}

// A piece of each rank's rows: rows x columns.
struct Piece {
  Range rows, columns;
  std::size_t row_bytes() const { return static_cast<std::size_t>(columns.size()) * sizeof(float); }
  std::size_t bytes() const { return static_cast<std::size_t>(rows.size()) * row_bytes(); }
};

class Gathering {
 public:
  Gathering(const ComputeWith& with, Place rows, bool takes, int to)
      : group_(*with.group), team_(with.team), rows_(rows), takes_(takes), to_(to) {}

  int ranks() const { return group_.size(); }
  std::size_t most_bytes() const { return std::min(kMostBytes, group_.max_part_bytes()); }

  // pieces: of each rank.
  void exchange(const std::vector<Piece>& pieces) {
    std::vector<std::size_t> bytes;
    for (int rank = 0; rank < ranks(); ++rank)
      bytes.push_back(rank == to_ ? 0 : pieces[static_cast<std::size_t>(rank)].bytes());
    const int own = group_.rank();
    const Piece& mine = pieces[static_cast<std::size_t>(own)];
    std::byte* const out = group_.outgoing(bytes[static_cast<std::size_t>(own)]);
    if (own != to_)
      each_row(mine, [&](int row, std::size_t at) { std::memcpy(out + at, place(mine, row), mine.row_bytes()); });
    group_.exchange(bytes);
    if (!takes_ || (to_ >= 0 && to_ != own)) return;
    for (int rank = 0; rank < ranks(); ++rank) {
      const Piece& piece = pieces[static_cast<std::size_t>(rank)];
      if (rank != own)
        each_row(piece, [&, in = group_.incoming(rank)](int row, std::size_t at) {
          std::memcpy(place(piece, row), in + at, piece.row_bytes());
        });
    }
  }

 private:
  float* place(const Piece& piece, int row) const { return rows_.row(row) + piece.columns.begin; }

  template <class Body>
  void each_row(const Piece& piece, Body body) {
    if (piece.columns.empty()) return;
    const std::size_t each = piece.row_bytes();
    run_rows(team_, piece.rows.size(), each,
             [&](int i) { body(piece.rows.begin + i, static_cast<std::size_t>(i) * each); });
  }

  ranks::Collective& group_;
  ComputeTeam& team_;
  Place rows_;
  bool takes_;
  int to_;
};

}  // namespace

void gather_columns(const ComputeWith& with, const Cut& cut, Place rows_of, int rows, bool takes, int to) {
  Gathering gathering(with, rows_of, takes, to);
  std::size_t widest = 0;
  for (const Range& columns : cut) widest = std::max(widest, Piece{{0, 1}, columns}.bytes());
  if (rows == 0 || widest == 0) return;
  const auto at_once =
      static_cast<int>(std::clamp<std::size_t>(gathering.most_bytes() / widest, 1, static_cast<std::size_t>(rows)));
  for (int begin = 0; begin < rows; begin += at_once) {
    std::vector<Piece> pieces;
    for (const Range& columns : cut) pieces.push_back({{begin, std::min(rows, begin + at_once)}, columns});
    gathering.exchange(pieces);
  }
}

FormPieces::FormPieces(RowFormat format, int width, Range columns) {
  const auto begin = static_cast<std::size_t>(columns.begin), values = static_cast<std::size_t>(columns.size());
  if (format == RowFormat::bf16) {
    first[0] = begin * sizeof(bf16);
    count[0] = values * sizeof(bf16);
    return;
  }
  constexpr std::size_t scale = sizeof(ActivationScale);
  first[0] = begin;
  count[0] = values;
  first[1] = ActivationLayout::of(width).scales + begin / kActivationBlock * scale;
  count[1] = values / kActivationBlock * scale;
}

void FormPieces::take(const std::byte* row, std::byte* to) const {
  std::memcpy(to, row + first[0], count[0]);
  std::memcpy(to + count[0], row + first[1], count[1]);
}

void FormPieces::put(const std::byte* from, std::byte* row) const {
  std::memcpy(row + first[0], from, count[0]);
  std::memcpy(row + first[1], from + count[0], count[1]);
}

ConvertedGather::ConvertedGather(const Cut& cut, Place rows_of, const ConvertedRows& to)
    : cut_(cut), rows_of_(rows_of), to_(to), first_(cut.front().begin), width_(cut.back().end - first_) {
  for (const Range& columns : cut) {
    pieces_.emplace_back(to.format, width_, Range{columns.begin - first_, columns.end - first_});
    most_ = std::max(most_, pieces_.back().bytes());
  }
}

void ConvertedGather::run(const ComputeWith& with, int rows) const {
  if (rows == 0) return;
  const std::size_t limit = std::min(kMostBytes, with.group->max_part_bytes());
  const auto at_once = static_cast<int>(std::clamp<std::size_t>(limit / most_, 1, static_cast<std::size_t>(rows)));
  for (int begin = 0; begin < rows; begin += at_once) exchange(with, begin, std::min(rows, begin + at_once));
}

void ConvertedGather::exchange(const ComputeWith& with, int begin, int end) const {
  ranks::Collective& group = *with.group;
  const int count = end - begin;
  std::vector<std::size_t> bytes;
  for (const FormPieces& pieces : pieces_) bytes.push_back(pieces.bytes() * static_cast<std::size_t>(count));
  const auto own = static_cast<std::size_t>(group.rank());
  std::byte* const out = group.outgoing(bytes[own]);
  run_rows(with.team, count, most_,
           [&](int i) { convert(with, begin + i, out + static_cast<std::size_t>(i) * pieces_[own].bytes()); });
  group.exchange(bytes);
  if (to_.data == nullptr) return;
  const std::size_t row_bytes = espalier::row_bytes(to_.format, width_);
  run_rows(with.team, count, most_, [&](int i) {
    std::byte* const row = to_.data + static_cast<std::size_t>(begin + i) * row_bytes;
    for (int rank = 0; rank < group.size(); ++rank) {
      const FormPieces& theirs = pieces_[static_cast<std::size_t>(rank)];
      theirs.put(group.incoming(rank) + static_cast<std::size_t>(i) * theirs.bytes(), row);
    }
  });
}

void ConvertedGather::convert(const ComputeWith& with, int row, std::byte* out) const {
  const auto rank = static_cast<std::size_t>(with.group->rank());
  const Range own = cut_[rank];
  thread_local std::vector<std::byte> aside;
  aside.resize(row_bytes(to_.format, width_));
  convert_part(with.cpu, to_.format, rows_of_.row(row) + own.begin, width_, own.begin - first_, own.end - first_,
               aside.data());
  pieces_[rank].take(aside.data(), out);
}

void gather_rows(const ComputeWith& with, const Cut& cut, Place rows_of, int width) {
  Gathering gathering(with, rows_of, true, -1);
  const std::size_t each = static_cast<std::size_t>(width) * sizeof(float);
  const auto at_once = static_cast<int>(std::max<std::size_t>(1, gathering.most_bytes() / each));
  int most = 0;
  for (const Range& rows : cut) most = std::max(most, rows.size());
  for (int done = 0; done < most; done += at_once) {
    std::vector<Piece> pieces;
    for (const Range& rows : cut)
      pieces.push_back(
          {{std::min(rows.end, rows.begin + done), std::min(rows.end, rows.begin + done + at_once)}, {0, width}});
    gathering.exchange(pieces);
  }
}

}  // namespace espalier
