// module_index.h: where a model's modules, as its checkpoint names them, lie among a program's matrices and tables.
// Threads: values. Fails: never.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/program/program.h"
#include "model/spec.h"

namespace espalier {

// One part of a matrix that is made of a module.
struct ModulePlace {
  MatrixId matrix = -1;
  std::size_t part = 0;
  bool alone = false;  // the module is just this part's rows, in their order, of a stored matrix that has more
};

// The modules of one program.
class ModuleIndex {
 public:
  ModuleIndex() = default;
  ModuleIndex(const Program& program, const ModelSpec& spec, Naming naming);

  std::vector<ModulePlace> find(std::string_view module) const;  // empty: no matrix is made of it
  std::optional<TableId> table(std::string_view module) const;
  // Why a matrix takes no factors ("one of the experts"), or may not be replaced; null: it does, it may.
  const char* takes_no_factors(MatrixId id) const;
  const char* stays(MatrixId id) const;
  std::string examples() const;  // names of some modules, for messages

 private:
  void look_at(const std::vector<Op>& ops);
  void add(MatrixId id, const MatrixNeed& need, const std::string& head_name);
  void add_fused(MatrixId id, const MatrixNeed& need, const std::string& stem);

  std::map<std::string, std::vector<ModulePlace>, std::less<>> modules_;
  std::map<std::string, TableId, std::less<>> tables_;
  std::map<MatrixId, const char*> refused_, staying_;
  std::vector<MatrixId> heads_;
};

}  // namespace espalier
