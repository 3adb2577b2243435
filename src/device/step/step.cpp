#include "device/step/step.h"

#include <algorithm>

#include "device/step/attended_tiles.h"

namespace espalier::device {

Step::Step(const Device& device, Loaded& loaded, const ProgramMemory& of_program, StepMemory& memory,
           const Batch& batch, const KvView& kv)
    : device_(device),
      loaded_(loaded),
      of_program_(of_program),
      memory_(memory),
      batch_(batch),
      pass_(batch, kv, loaded.with) {
  memory_.begin();
  for (RopeTables& rope : loaded_.ropes) rope.reserve(pass_.positions(), pass_.rope_lengths());
  phase_.buffers = of_program.buffers;
  phase_.vectors = of_program.vectors;
  phase_.fields = of_program.fields;
  phase_.angle_counts = of_program.angle_counts;
  phase_.scratch = of_program.scratch;
  phase_.scratch_stride = of_program.scratch_stride;
  phase_.layers = memory_.put(kv.layers);
  std::vector<unsigned char> in_windows(kv.in_window_slots.begin(), kv.in_window_slots.end());
  in_windows.resize(kv.layers.size());
  phase_.in_window_slots = memory_.put(in_windows);
  phase_.slots = memory_.put(batch.slots);
  phase_.window_slots = memory_.put(batch.window_slots);
  host_rows_ = memory_.room<HostRows>(static_cast<std::size_t>(of_program.host_rows));
  marks_ = memory_.room<const unsigned char*>(static_cast<std::size_t>(of_program.marks));
  phase_.host_rows = host_rows_.device;
  phase_.marks = marks_.device;
  begin_phase();
}

void Step::begin_phase() {
  const auto rows = static_cast<std::size_t>(pass_.rows());
  const auto positions = memory_.room<std::int64_t>(rows);
  for (std::size_t row = 0; row < rows; ++row) positions.host[row] = pass_.position(static_cast<int>(row));
  phase_.positions = positions.device;
  tiles_.clear();
  attended_.clear();
  parts_ = {};
  adapted_ = {};
  put_angles();
}

void Step::put_angles() {
  const auto rows = static_cast<std::size_t>(pass_.rows());
  const auto angles = memory_.room<RowAngles>(rows * of_program_.angles.size());
  phase_.angles = angles.device;
  phase_.angle_stride = pass_.rows();
  RowAngles* to = angles.host;
  for (const AngleUse& use : of_program_.angles) {
    const RopeTables& tables = loaded_.ropes[static_cast<std::size_t>(use.rope)];
    const auto half = static_cast<std::size_t>(tables.of(0).half());
    const bool by_axes = tables.has_axes() && pass_.has_axes(), apart = by_axes && tables.halves_differ();
    const std::size_t each = (apart ? 4 : 2) * half;
    const auto values = memory_.room<float>(rows * each);
    for (std::size_t i = 0; i < rows; ++i, ++to) {
      const auto row = static_cast<int>(i);
      const std::int64_t position = std::max<std::int64_t>(0, pass_.position(row) + use.shift);
      float* const host = values.host + i * each;
      const float* const device = values.device + i * each;
      const auto put = [&](std::pair<const float*, const float*> from, std::size_t at) {
        std::copy_n(from.first, half, host + at);
        std::copy_n(from.second, half, host + at + half);
      };
      const RopeTable& table = tables.of(pass_.rope_length(row));
      put(by_axes ? tables.by_axes(pass_.axes(row), position)
                  : std::pair(table.cosines(position), table.sines(position)),
          0);
      *to = {device, device + half, nullptr, nullptr};
      if (!apart) continue;
      put(tables.by_axes(pass_.axes(row), position, true), 2 * half);
      to->second_cosines = device + 2 * half;
      to->second_sines = device + 3 * half;
    }
  }
}

float* Step::host_rows(int number, int width) {
  const auto rows = memory_.room<float>(static_cast<std::size_t>(pass_.rows()) * static_cast<std::size_t>(width));
  host_rows_.host[number] = {rows.device, width};
  return rows.host;
}

unsigned char* Step::marks(int number) {
  const auto room = memory_.room<unsigned char>(static_cast<std::size_t>(pass_.rows()));
  marks_.host[number] = room.device;
  return room.host;
}

void Step::keep_rows() {
  pass_.keep_wanted_rows();
  begin_phase();
}

const Step::Attended& Step::attended(FieldId field, AttendOp::Around around, const Visibility& visible) {
  const auto key = std::tuple(pass_.in_window_slots(field), around, visible);
  const auto found = attended_.find(key);
  if (found != attended_.end()) return found->second;
  return attended_.emplace(key, make_attended(field, around, visible)).first->second;
}

Step::Attended Step::make_attended(FieldId field, AttendOp::Around around, const Visibility& visible) {
  std::vector<cuda::AttendedRow> rows;
  std::vector<cuda::PlacedRun> runs;
  Attended out{};
  for (const AttentionSequence& sequence : pass_.attended(field, around, visible)) {
    const auto begin = static_cast<std::int32_t>(runs.size());
    std::int32_t position = 0;
    for (const KvRun& run : sequence.runs) {
      runs.push_back({position, run.start});
      position += run.length;
    }
    const auto end = static_cast<std::int32_t>(runs.size());
    out.rows_of.push_back(sequence.rows);
    for (int row = 0; row < sequence.rows; ++row) {
      rows.push_back({query_row(sequence, row, visible), begin, end});
      out.positions = std::max(out.positions, std::int64_t{rows.back().query.last} + 1);
    }
  }
  out.rows = memory_.put(rows);
  runs.resize((runs.size() + 63) / 64 * 64);  // a run more or less moves nothing that follows
  out.runs = memory_.put(runs);
  out.count = static_cast<int>(rows.size());
  return out;
}

const Step::Tiles& Step::tiles(const Attended& attended, const cuda::TensorCut& cut) {
  const std::tuple key(&attended, cut.heads, cut.rows);
  const auto found = tiles_.find(key);
  if (found != tiles_.end()) return found->second;
  const AttendedTiles of = tiles_of(attended.rows_of, cut);
  return tiles_
      .emplace(key, Tiles{memory_.put(of.few), memory_.put(of.many), static_cast<int>(of.few.size()),
                          static_cast<int>(of.many.size()), of.few_queries, of.many_queries})
      .first->second;
}

const cuda::AdaptedBatch& Step::adapted() {
  if (adapted_.rows != nullptr) return adapted_;
  std::vector<int> rows;
  std::vector<cuda::AdapterTile> tiles;
  for (int group = 0; const AdaptedRows& own : pass_.adapted()) {
    const auto first = static_cast<int>(rows.size()), count = static_cast<int>(own.rows.size());
    for (int at = 0; at < count; at += cuda::kAdapterRows)
      tiles.push_back({group, first + at, std::min(cuda::kAdapterRows, count - at)});
    rows.insert(rows.end(), own.rows.begin(), own.rows.end());
    ++group;
  }
  adapted_ = {memory_.put(rows), memory_.put(tiles), static_cast<int>(tiles.size()), static_cast<int>(rows.size())};
  return adapted_;
}

cuda::SequenceParts Step::sequence_parts() {
  if (parts_.begin != nullptr) return parts_;
  std::vector<cuda::SequencePart> parts;
  std::vector<int> begin = {0};
  for (const BatchSequence& s : pass_.sequences()) {
    cuda::SequencePart part{s.row_begin, s.rows, s.first_position, s.state_in, s.state_out};
    for (const StateMark& mark : s.state_marks) {
      const int rows = s.row_begin + mark.rows - part.row_begin;
      parts.push_back({part.row_begin, rows, part.first_position, part.state_in, mark.out});
      part = {part.row_begin + rows, part.rows - rows, part.first_position + rows, mark.out, s.state_out};
    }
    parts.push_back(part);
    begin.push_back(static_cast<int>(parts.size()));
  }
  parts_ = {memory_.put(parts), memory_.put(begin), static_cast<int>(begin.size()) - 1};
  return parts_;
}

}  // namespace espalier::device
