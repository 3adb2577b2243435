#include "model/adapters/module_index.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/adapters/adapter_names.h"

namespace espalier {
namespace {

constexpr std::string_view kWeight = ".weight";

std::string stem_of(const std::string& tensor) {
  return tensor.ends_with(kWeight) ? tensor.substr(0, tensor.size() - kWeight.size()) : tensor;
}

}  // namespace

ModuleIndex::ModuleIndex(const Program& program, const ModelSpec& spec, Naming naming) {
  for (const auto* ops : {&program.ops, &program.pooled_ops, &program.draft_ops}) look_at(*ops);
  const std::string head = spec.names.of(naming, "output", -1);
  const auto& matrices = program.needs.matrices;
  for (std::size_t i = 0; i < matrices.size(); ++i) add(static_cast<MatrixId>(i), matrices[i], head);
  for (std::size_t i = 0; i < program.needs.tables.size(); ++i)
    tables_.emplace(bare_module(stem_of(program.needs.tables[i].tensor)), static_cast<TableId>(i));
}

void ModuleIndex::look_at(const std::vector<Op>& ops) {
  const auto refuse = [&](MatrixId first, int count, const char* why) {
    for (MatrixId id = first; id < first + count; ++id) refused_[id] = staying_[id] = why;
  };
  for (const Op& op : ops) {
    if (const auto* o = std::get_if<ExpertsOp>(&op)) {
      refuse(o->gate_up, o->count, "one of the experts");
      refuse(o->down, o->count, "one of the experts");
    }
    if (const auto* o = std::get_if<GroupedMatmulOp>(&op))
      refuse(o->first, o->groups, "multiplied in groups of columns");
    if (const auto* o = std::get_if<GatedMatmulOp>(&op)) staying_[o->matrix] = "a gate";
    if (const auto* o = std::get_if<MatmulOp>(&op); o != nullptr && o->add) staying_[o->matrix] = "added to other rows";
    if (const auto* o = std::get_if<HeadOp>(&op)) heads_.push_back(o->matrix);
  }
}

void ModuleIndex::add(MatrixId id, const MatrixNeed& need, const std::string& head_name) {
  if (need.parts.size() > 1 && !staying_.contains(id)) staying_[id] = "one of several matrices side by side";
  // The head has its own name, whether or not the file keeps it with the embedding.
  if (std::ranges::find(heads_, id) != heads_.end()) {
    modules_[std::string(bare_module(head_name))].push_back({id, 0});
    return;
  }
  for (std::size_t p = 0; p < need.parts.size(); ++p)
    modules_[std::string(bare_module(stem_of(need.parts[p].tensor)))].push_back({id, p});
  add_fused(id, need, std::string(bare_module(stem_of(need.parts.front().tensor))));
}

// A stored matrix whose parts other checkpoints of the architecture keep apart.
void ModuleIndex::add_fused(MatrixId id, const MatrixNeed& need, const std::string& stem) {
  const bool one =
      std::ranges::all_of(need.parts, [&](const MatrixPart& part) { return part.tensor == need.parts.front().tensor; });
  constexpr std::pair<std::string_view, std::vector<std::string_view> (*)()> kFused[] = {
      {"qkv_proj", [] { return std::vector<std::string_view>{"q_proj", "k_proj", "v_proj"}; }},
      {"gate_up_proj", [] { return std::vector<std::string_view>{"gate_proj", "up_proj"}; }}};
  for (const auto& [fused, names] : kFused) {
    const auto parts = names();
    if (!one || !stem.ends_with(fused) || need.parts.size() != parts.size()) continue;
    const std::string before = stem.substr(0, stem.size() - fused.size());
    for (std::size_t p = 0; p < parts.size(); ++p) modules_[before + std::string(parts[p])].push_back({id, p, true});
  }
}

std::vector<ModulePlace> ModuleIndex::find(std::string_view module) const {
  const auto found = modules_.find(bare_module(module));
  return found == modules_.end() ? std::vector<ModulePlace>() : found->second;
}

std::optional<TableId> ModuleIndex::table(std::string_view module) const {
  const auto found = tables_.find(bare_module(module));
  return found == tables_.end() ? std::nullopt : std::optional(found->second);
}

const char* ModuleIndex::takes_no_factors(MatrixId id) const {
  const auto found = refused_.find(id);
  return found == refused_.end() ? nullptr : found->second;
}

const char* ModuleIndex::stays(MatrixId id) const {
  const auto found = staying_.find(id);
  return found == staying_.end() ? nullptr : found->second;
}

std::string ModuleIndex::examples() const {
  constexpr std::size_t kMost = 8;
  std::vector<std::string_view> names;
  for (const auto& [name, places] : modules_)
    if (names.size() < kMost &&
        (name.starts_with("layers.0.") || name.starts_with("blk.0.") || name.find(".0.") != name.npos))
      names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace espalier
