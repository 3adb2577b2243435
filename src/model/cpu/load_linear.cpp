// Packs the matrices of a linear layer as its MatrixNeed describes them.
#include <fmt/format.h>

#include "model/cpu/linear.h"
#include "tensor/decode.h"

namespace espalier {
namespace {

// One part's rows, as packing asks for them.
struct PartRows {
  std::string made_of;  // where they come from and in which order: equal names, equal rows
  DType type = DType::f32;
  std::int64_t outputs = 0;
  std::function<PackedMatrix::RowSource()> open;  // before rows are read
  PackedMatrix::RowSource row = {};
  PackedMatrix::Order order = {};
};

// Sixteen rows are looked at together (a panel's): each thread has memory for as many that are put together.
std::span<std::byte> room_for_row(std::size_t bytes) {
  thread_local std::vector<std::byte> rows[kPanelColumns];
  thread_local std::size_t next = 0;
  std::vector<std::byte>& row = rows[next++ % kPanelColumns];
  row.resize(bytes);
  return row;
}

PackedMatrix::Order order_of(const Tensor& tensor) {
  if (!tensor.maker || tensor.maker->order().empty()) return nullptr;
  const auto order = tensor.maker->order();
  return std::make_shared<const std::vector<std::int32_t>>(order.begin(), order.end());
}

bool same_order(const PackedMatrix::Order& a, const PackedMatrix::Order& b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

// The matrix of a turned part's columns, where what is stored says it exactly; else null.
std::shared_ptr<const Tensor> turned_blocks(const Tensor& tensor, const MatrixPart& part, std::int64_t inputs) {
  const bool may = part.transposed && tensor.maker && !tensor.maker->turned();
  return may ? tensor.maker->turned_part(part.first_input, inputs) : nullptr;
}

// Columns of the stored matrix become rows: whole values as they are, quantised ones decoded to f16, which rounds them by
// less than a thousandth of what they were rounded by before.
class Turned {
 public:
  Turned(const Tensor& tensor, const MatrixPart& part, std::int64_t inputs)
      : tensor_(tensor),
        part_(part),
        inputs_(inputs),
        decoded_(block_shape(tensor.dtype).elements > 1 || tensor.maker) {}
  DType type() const { return decoded_ ? DType::f16 : tensor_.dtype; }
  std::size_t value_bytes() const { return block_shape(type()).bytes; }

  std::shared_ptr<std::vector<std::byte>> make(ComputeTeam& team) const {
    const std::size_t each = value_bytes(), row_bytes = each * static_cast<std::size_t>(inputs_);
    auto out = std::make_shared<std::vector<std::byte>>(row_bytes * static_cast<std::size_t>(part_.outputs));
    constexpr std::int64_t kAtOnce = 64;
    team.run(static_cast<int>((inputs_ + kAtOnce - 1) / kAtOnce), [&](int chunk) {
      std::vector<float> floats(decoded_ ? static_cast<std::size_t>(tensor_.columns()) : 0);
      std::vector<f16> halves(floats.size());
      for (std::int64_t k = chunk * kAtOnce; k < std::min(inputs_, (chunk + 1) * kAtOnce); ++k) {
        std::span<const std::byte> stored;
        if (tensor_.maker)
          decode_made_row(tensor_, part_.first_input + k, floats);
        else if (decoded_)
          decode_row(tensor_.dtype, tensor_.row(part_.first_input + k), floats);
        else
          stored = tensor_.row(part_.first_input + k);
        if (decoded_) {
          std::ranges::transform(floats, halves.begin(), [](float value) { return to_f16(value); });
          stored = std::as_bytes(std::span(halves));
        }
        for (std::int64_t i = 0; i < part_.outputs; ++i)
          std::copy_n(stored.data() + static_cast<std::size_t>(part_.rows.stored(i)) * each, each,
                      out->data() + static_cast<std::size_t>(i) * row_bytes + static_cast<std::size_t>(k) * each);
      }
    });
    return out;
  }

 private:
  const Tensor& tensor_;
  const MatrixPart& part_;
  std::int64_t inputs_;
  bool decoded_;
};

}  // namespace

class LinearLoader {
 public:
  LinearLoader(const MatrixNeed& need, const Weights& weights, ComputeTeam& team, PanelFile* overflow)
      : need_(need), weights_(weights), team_(team), overflow_(overflow) {}

  Result<Linear> load() {
    for (const MatrixPart& part : need_.parts) {
      ESP_TRY(PartRows rows, rows_of(part));
      parts_.push_back(std::move(rows));
    }
    ESP_CHECK(load_biases());
    linear_.gated_ = need_.gated;
    linear_.outputs_ = need_.outputs();
    if (need_.gated && parts_[0].type == parts_[1].type && same_order(parts_[0].order, parts_[1].order))
      ESP_CHECK(add_in_turns());
    else
      ESP_CHECK(add_side_by_side());
    return std::move(linear_);
  }

 private:
  Result<PartRows> rows_of(const MatrixPart& part) const {
    ESP_TRY(const Tensor* tensor, weights_.get(part.tensor, part.shape));
    const std::int64_t last = part.outputs > 0 ? part.rows.stored(part.outputs - 1) : 0,
                       most = part.transposed ? tensor->columns() : tensor->rows() / part.joined_rows;
    if (last >= most || (part.transposed && part.first_input + need_.inputs > tensor->rows()))
      return internal_error(fmt::format("a matrix is to have more rows than {} has", part.tensor));
    if (auto layout = panel_layout(tensor->dtype); !layout.ok())
      return Error{Error::Kind::unsupported,
                   fmt::format("tensor {}: {}", tensor->name, layout.error().message),
                   tensor->name,
                   {}};
    PartRows rows{tensor->name + part.rows.text(), tensor->dtype, part.outputs, {}, {}, {}};
    if (const auto turned = turned_blocks(*tensor, part, need_.inputs)) {
      rows.made_of += fmt::format("/turned{}", part.first_input);
      rows.type = turned->dtype;
      rows.open = [turned, &part] {
        return [turned, &part](std::int64_t i) {
          const std::span<std::byte> room = room_for_row(turned->row_bytes());
          turned->maker->make(part.rows.stored(i), room);
          return std::span<const std::byte>(room);
        };
      };
      return rows;
    }
    if (tensor->maker && (!part.transposed || tensor->maker->turned())) {
      if (part.joined_rows > 1)
        return Error{Error::Kind::unsupported,
                     fmt::format("tensor {} is quantised, which is not supported for convolutions", tensor->name),
                     tensor->name,
                     {}};
      take_made_rows(*tensor, part, rows);
      return rows;
    }
    if (!part.transposed) {
      if (part.joined_rows > 1) rows.made_of += fmt::format("/joined{}", part.joined_rows);
      const std::size_t bytes = tensor->row_bytes() * static_cast<std::size_t>(part.joined_rows);
      rows.open = [tensor, &part, bytes] {
        return [tensor, &part, bytes](std::int64_t i) {
          return tensor->data.subspan(static_cast<std::size_t>(part.rows.stored(i)) * bytes, bytes);
        };
      };
      return rows;
    }
    const Turned turned(*tensor, part, need_.inputs);
    rows.made_of += fmt::format("/turned{}", part.first_input);
    rows.type = turned.type();
    rows.open = [turned, this] {
      const std::size_t bytes = turned.value_bytes() * static_cast<std::size_t>(need_.inputs);
      return [values = turned.make(team_), bytes](std::int64_t i) {
        return std::span<const std::byte>(*values).subspan(static_cast<std::size_t>(i) * bytes, bytes);
      };
    };
    return rows;
  }

  // Rows that are put together as they are packed. Of a turned tensor, each matrix's begin at its outputs.
  void take_made_rows(const Tensor& tensor, const MatrixPart& part, PartRows& rows) const {
    const std::int64_t first = part.transposed ? part.first_input / need_.inputs * tensor.columns() : 0;
    const BlockShape block = block_shape(tensor.dtype);
    const auto bytes = static_cast<std::size_t>(need_.inputs / block.elements * block.bytes);
    rows.order = order_of(tensor);
    rows.open = [&tensor, &part, first, bytes] {
      return [&tensor, &part, first, bytes](std::int64_t i) {
        const std::span<std::byte> room = room_for_row(bytes);
        tensor.maker->make(first + part.rows.stored(i), room);
        return std::span<const std::byte>(room);
      };
    };
  }

  // One value for every output of all parts, zeros for parts that have none.
  Result<> load_biases() {
    if (std::ranges::all_of(need_.parts, [](const MatrixPart& p) { return p.bias.empty(); })) return success();
    for (const MatrixPart& part : need_.parts) {
      std::vector<float>& to = linear_.bias_;
      if (part.bias.empty()) {
        to.insert(to.end(), static_cast<std::size_t>(part.outputs), 0.0f);
        continue;
      }
      ESP_TRY(const std::vector<float> values, weights_.floats(part.bias, part.bias_shape));
      for (std::int64_t i = 0; i < part.outputs; ++i)
        to.push_back(values.at(static_cast<std::size_t>(part.bias_of(i))));
    }
    return success();
  }

  // Of parts [begin, end).
  Result<> add(const std::string& made_of, std::int64_t outputs, std::size_t begin, std::size_t end,
               const PackedMatrix::RowSource& row) {
    const DType type = parts_[begin].type;
    const PackedWeights* packed = weights_.packed();
    auto found = packed != nullptr ? packed->find(made_of, type, outputs, need_.inputs, team_) : std::nullopt;
    if (!found) {
      for (std::size_t i = begin; i < end; ++i) parts_[i].row = parts_[i].open();
      ESP_TRY(found, PackedMatrix::pack(type, outputs, need_.inputs, row, &team_));
      if (overflow_ != nullptr) {
        ESP_TRY(found, overflow_->keep(*found));
      }
      for (std::size_t i = begin; i < end; ++i) parts_[i].row = {};
    }
    found->set_order(parts_[begin].order);
    linear_.parts_.push_back(std::move(*found));
    linear_.made_of_.push_back(made_of);
    return success();
  }

  // Neighbours of one type together; a gate and what it gates apart.
  Result<> add_side_by_side() {
    for (std::size_t begin = 0, end = 0; begin < parts_.size(); begin = end) {
      std::string made_of;
      std::int64_t outputs = 0;
      while (end < parts_.size() && parts_[end].type == parts_[begin].type &&
             same_order(parts_[end].order, parts_[begin].order) && (!need_.gated || end == begin)) {
        made_of += (end == begin ? "" : "+") + parts_[end].made_of;
        outputs += parts_[end++].outputs;
      }
      ESP_CHECK(add(made_of, outputs, begin, end, [this, begin](std::int64_t column) {
        std::size_t part = begin;
        while (column >= parts_[part].outputs) column -= parts_[part++].outputs;
        return parts_[part].row(column);
      }));
    }
    return success();
  }

  // A panel of the first, a panel of the second, and so on; columns that a last panel lacks are zeros.
  Result<> add_in_turns() {
    constexpr std::int64_t kPanel = kPanelColumns;
    const PartRows &first = parts_[0], &second = parts_[1];
    const std::int64_t outputs = 2 * ((first.outputs + kPanel - 1) / kPanel * kPanel);
    return add(first.made_of + "|" + second.made_of, outputs, 0, 2,
               [&first, &second](std::int64_t column) -> std::span<const std::byte> {
                 const std::int64_t panel = column / kPanel, row = panel / 2 * kPanel + column % kPanel;
                 if (row >= first.outputs) return {};
                 return (panel % 2 == 0 ? first : second).row(row);
               });
  }

  const MatrixNeed& need_;
  const Weights& weights_;
  ComputeTeam& team_;
  PanelFile* overflow_;
  std::vector<PartRows> parts_;
  Linear linear_;
};

Result<Linear> Linear::load(const MatrixNeed& need, const Weights& weights, ComputeTeam& team, PanelFile* overflow) {
  return LinearLoader(need, weights, team, overflow).load();
}

std::uint64_t Linear::room_needed(const MatrixNeed& need, const Weights& weights) {
  std::uint64_t sum = 0;
  for (const MatrixPart& part : need.parts) {
    const Tensor* tensor = weights.find(part.tensor);
    if (tensor == nullptr) return 0;
    const bool turns = part.transposed && !(tensor->maker && tensor->maker->turned());
    const auto blocks = turned_blocks(*tensor, part, need.inputs);
    const DType type = blocks ? blocks->dtype : turns ? Turned(*tensor, part, need.inputs).type() : tensor->dtype;
    const std::int64_t outputs = (part.outputs + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
    const auto bytes = PackedMatrix::bytes_of(type, outputs, need.inputs);
    if (bytes.ok()) sum += PanelFile::room_for(*bytes);
  }
  return sum;
}

}  // namespace espalier
