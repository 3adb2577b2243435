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
    const auto one = [&](int i) { body(piece.rows.begin + i, static_cast<std::size_t>(i) * each); };
    if (piece.bytes() > kFewBytes) return team_.run(piece.rows.size(), one);
    for (int i = 0; i < piece.rows.size(); ++i) one(i);
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

namespace {

// A rank's columns of a row in another form: one or two pieces of its bytes.
class FormPieces {
 public:
  FormPieces(RowFormat format, int width, Range columns) {
    const auto begin = static_cast<std::size_t>(columns.begin), end = static_cast<std::size_t>(columns.end);
    if (format == RowFormat::bf16) {
      add(2 * begin, 2 * end);
      return;
    }
    constexpr std::size_t scale = sizeof(ActivationScale);
    const std::size_t scales = ActivationLayout::of(width).scales;
    add(begin, end);
    add(scales + begin / kActivationBlock * scale, scales + end / kActivationBlock * scale);
  }
  std::size_t bytes() const { return bytes_; }
  void take(const std::byte* row, std::byte* to) const {
    for (const auto& [first, count] : pieces_) to = std::copy_n(row + first, count, to);
  }
  void put(const std::byte* from, std::byte* row) const {
    for (const auto& [first, count] : pieces_) {
      std::copy_n(from, count, row + first);
      from += count;
    }
  }

 private:
  void add(std::size_t begin, std::size_t end) {
    pieces_.emplace_back(begin, end - begin);
    bytes_ += end - begin;
  }
  std::vector<std::pair<std::size_t, std::size_t>> pieces_;
  std::size_t bytes_ = 0;
};

class ConvertedGathering {
 public:
  ConvertedGathering(const ComputeWith& with, const Cut& cut, Place rows_of, const ConvertedRows& to)
      : with_(with),
        group_(*with.group),
        cut_(cut),
        rows_of_(rows_of),
        to_(to),
        first_(cut.front().begin),
        width_(cut.back().end - first_),
        row_bytes_(espalier::row_bytes(to.format, width_)) {
    for (const Range& columns : cut) {
      pieces_.emplace_back(to.format, width_, Range{columns.begin - first_, columns.end - first_});
      most_ = std::max(most_, pieces_.back().bytes());
    }
  }
  void run(int rows) {
    const std::size_t limit = std::min(kMostBytes, group_.max_part_bytes());
    const auto at_once = static_cast<int>(std::clamp<std::size_t>(limit / most_, 1, static_cast<std::size_t>(rows)));
    for (int begin = 0; begin < rows; begin += at_once) exchange(begin, std::min(rows, begin + at_once));
  }

 private:
  void exchange(int begin, int end) {
    const int count = end - begin, own = group_.rank();
    std::vector<std::size_t> bytes;
    for (const FormPieces& pieces : pieces_) bytes.push_back(pieces.bytes() * static_cast<std::size_t>(count));
    const FormPieces& mine = pieces_[static_cast<std::size_t>(own)];
    std::byte* const out = group_.outgoing(bytes[static_cast<std::size_t>(own)]);
    each(count, [&](int i) { convert(begin + i, out + static_cast<std::size_t>(i) * mine.bytes()); });
    group_.exchange(bytes);
    if (to_.data == nullptr) return;
    each(count, [&](int i) {
      for (int rank = 0; rank < group_.size(); ++rank) {
        const FormPieces& theirs = pieces_[static_cast<std::size_t>(rank)];
        theirs.put(group_.incoming(rank) + static_cast<std::size_t>(i) * theirs.bytes(), row(begin + i));
      }
    });
  }
  std::byte* row(int index) const { return to_.data + static_cast<std::size_t>(index) * row_bytes_; }
  void convert(int index, std::byte* out) const {
    const Range own = cut_[static_cast<std::size_t>(group_.rank())];
    thread_local std::vector<std::byte> aside;
    aside.resize(row_bytes_);
    convert_part(with_.cpu, to_.format, rows_of_.row(index) + own.begin, width_, own.begin - first_, own.end - first_,
                 aside.data());
    pieces_[static_cast<std::size_t>(group_.rank())].take(aside.data(), out);
  }
  template <class Body>
  void each(int rows, Body body) {
    if (most_ * static_cast<std::size_t>(rows) > kFewBytes) return with_.team.run(rows, body);
    for (int i = 0; i < rows; ++i) body(i);
  }

  const ComputeWith& with_;
  ranks::Collective& group_;
  const Cut& cut_;
  Place rows_of_;
  ConvertedRows to_;
  int first_, width_;
  std::size_t row_bytes_, most_ = 0;
  std::vector<FormPieces> pieces_;
};

}  // namespace

void gather_converted(const ComputeWith& with, const Cut& cut, Place rows_of, const ConvertedRows& to, int rows) {
  if (rows > 0) ConvertedGathering(with, cut, rows_of, to).run(rows);
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
