#include "model/cpu/load_needs.h"

#include <fmt/format.h>

#include <map>

namespace espalier {
namespace {

// Where matrices go that do not fit into memory.
struct Overflow {
  std::shared_ptr<PanelFile> file;
  bool all = false;  // not only those that are read seldom
};

Result<Overflow> place_matrices(const Program& program, const Weights& weights) {
  Overflow overflow;
  if (!weights.overflow()) return overflow;
  std::uint64_t seldom = 0, often = 0;
  for (const MatrixNeed& need : program.needs.matrices)
    (need.seldom ? seldom : often) += Linear::room_needed(need, weights);
  if (seldom + often <= weights.overflow()->memory) return overflow;
  overflow.all = often > weights.overflow()->memory;
  const std::uint64_t bytes = overflow.all ? seldom + often : seldom;
  if (bytes == 0) return overflow;
  ESP_TRY(overflow.file, PanelFile::create(weights.overflow()->folder, bytes));
  return overflow;
}

// A file's pages may go once the last matrix of a tensor is packed.
Result<> load_matrices(const Program& program, const Weights& weights, const Overflow& overflow, Loaded& loaded,
                       const LoadProgress& progress) {
  const std::vector<MatrixNeed>& needs = program.needs.matrices;
  std::map<std::string_view, int> uses;
  for (const MatrixNeed& need : needs)
    for (const MatrixPart& part : need.parts) ++uses[part.tensor];
  loaded.matrices.reserve(needs.size());
  for (const MatrixNeed& need : needs) {
    if (progress) progress(static_cast<int>(loaded.matrices.size()), static_cast<int>(needs.size()));
    PanelFile* const file = need.seldom || overflow.all ? overflow.file.get() : nullptr;
    ESP_TRY(Linear linear, Linear::load(need, weights, loaded.with.team, file));
    loaded.matrices.push_back(std::move(linear));
    for (const MatrixPart& part : need.parts)
      if (--uses[part.tensor] == 0) weights.forget(*weights.find(part.tensor));
  }
  if (progress) progress(static_cast<int>(needs.size()), static_cast<int>(needs.size()));
  return success();
}

}  // namespace

Result<std::shared_ptr<PanelFile>> load_needs(const Program& program, const Weights& weights, Loaded& loaded,
                                              const LoadProgress& progress) {
  ESP_TRY(Overflow overflow, place_matrices(program, weights));
  ESP_CHECK(load_matrices(program, weights, overflow, loaded, progress));
  for (const TableNeed& need : program.needs.tables) {
    ESP_TRY(const Tensor* table, weights.get(need.tensor, need.shape));
    if (table->maker)
      return Error{
          Error::Kind::unsupported,
          fmt::format("tensor {} is quantised, but rows are looked up in it, which is supported for plain types "
                      "and GGUF's",
                      table->name),
          table->name,
          {}};
    loaded.tables.push_back(table);
  }
  for (const RopeSpec& rope : program.ropes) loaded.ropes.emplace_back(rope);
  return std::move(overflow.file);
}

}  // namespace espalier
