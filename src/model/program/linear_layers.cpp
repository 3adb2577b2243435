#include "model/program/linear_layers.h"

namespace espalier {

LinearLayers linear_layers(const Program& program, const ModelSpec& spec) {
  std::set<std::string> left_out;
  for (const TableNeed& table : program.needs.tables) left_out.insert(table.tensor);
  for (const char* head : {"output", "cls.output"}) left_out.insert(spec.names.of(Naming::hf, head, -1) + ".weight");
  for (int layer = 0; layer < program.layers; ++layer)
    left_out.insert(spec.names.of(Naming::hf, "ffn_gate_inp", layer) + ".weight");
  LinearLayers found;
  for (const MatrixNeed& need : program.needs.matrices)
    for (const MatrixPart& part : need.parts) {
      if (left_out.contains(part.tensor)) continue;
      const bool linear =
          part.shape.size() == 2 && !part.transposed && part.joined_rows == 1 && part.tensor.ends_with(".weight");
      (linear ? found.linear : found.others).insert(part.tensor);
    }
  for (const std::string& name : found.linear) found.others.erase(name);
  return found;
}

}  // namespace espalier
