#include "kernels/matmul/matmul.h"

#include <algorithm>

namespace espalier {

MatmulKernel matmul_kernel(const CpuKernels& cpu, DType type, RowFormat format) {
  if (format == RowFormat::int8) return cpu.matmul_int8(type);
  if (format == RowFormat::int16) return cpu.matmul_int16(type);
  if (format == RowFormat::bf16) return is_float8(type) ? cpu.matmul_float8_bf16(type) : cpu.matmul_bf16_bf16;
  switch (type) {
    case DType::f32:
      return cpu.matmul_f32;
    case DType::f16:
      return cpu.matmul_f16;
    case DType::bf16:
      return cpu.matmul_bf16;
    default:
      return cpu.matmul_exact(type);
  }
}

namespace {

MatmulTask task_of(const PackedMatrix& weights, const RowBlock& x, float* out, std::int64_t out_stride) {
  MatmulTask task{};
  task.panels = weights.panel(0);
  task.panel_bytes = weights.panel_bytes();
  task.k = weights.k();
  task.outputs = weights.outputs();
  task.then_panel = -1;
  task.x = x.data;
  task.x_stride = x.stride;
  task.row_end = x.rows;
  task.out = out;
  task.out_stride = out_stride;
  return task;
}

constexpr int kMostRows = 255;  // of a task

// How a product is cut into chunks: blocks of rows, each of them in pieces of panels.
class Cut {
 public:
  Cut(const CpuKernels& cpu, const ComputeTeam& team, const PackedMatrix& weights, bool paired, RowFormat format,
      int rows, std::size_t stride)
      : rows_(rows), tile_(cpu.matmul_rows), panels_(weights.panels()) {
    // Rows in blocks whose activations stay in the second-level cache while panels pass, but not few: all weights pass
    // for each block. As many for each member, if they are enough: then it reads the rows that it wrote.
    const std::size_t bytes = format == RowFormat::bf16 ? cpu.matmul_bf16_row_bytes : cpu.matmul_row_bytes;
    const int fitting = static_cast<int>(bytes / std::max<std::size_t>(1, stride)), least = std::max(kLeastRows, tile_),
              most = std::clamp(fitting, least, kMostRows - tile_), members = team.size();
    blocks_ = up(rows, most);
    if (const int even = std::max(1, up(blocks_, members)) * members; rows / even >= least) blocks_ = even;
    // Panels in pieces small enough that members end together, large enough that claiming them costs nothing. Tiles of
    // whole numbers are two panels wide, others four; so are blocks of rows that are converted.
    unit_ = (format == RowFormat::int8 || format == RowFormat::int16) && !paired ? 2 : 4;
    pieces_ = members == 1 ? 1 : std::clamp(panels_ / unit_, 1, 8 * members);
  }
  int chunks() const { return blocks_ * pieces_; }
  int row_begin(int chunk) const { return first_row(chunk / pieces_); }
  int row_end(int chunk) const { return first_row(chunk / pieces_ + 1); }
  int panel_begin(int chunk) const { return first_panel(chunk % pieces_); }
  int panel_end(int chunk) const { return first_panel(chunk % pieces_ + 1); }

 private:
  static constexpr int kLeastRows = 96;
  static int up(int count, int each) { return (count + each - 1) / each; }
  int first_row(int block) const {  // the tile's that lies nearest
    const auto even = static_cast<int>(static_cast<std::int64_t>(rows_) * block / blocks_);
    return block == blocks_ ? rows_ : (even + tile_ / 2) / tile_ * tile_;
  }
  int first_panel(int piece) const {
    const auto even = static_cast<int>(static_cast<std::int64_t>(panels_) * piece / pieces_);
    return piece == pieces_ ? panels_ : even / unit_ * unit_;
  }

  int rows_, tile_, panels_, unit_, blocks_, pieces_;
};

// Some columns of out, [first, first + count), of all rows of a task, `width` floats apart, to where they belong.
void put_results(const CpuKernels& cpu, const MatmulTask& all, const MatmulOptions& options, float* results,
                 std::int64_t width, std::int64_t first, std::int64_t count) {
  const std::size_t bytes = options.converted ? row_bytes(options.converted->format, all.outputs) : 0;
  for (int row = all.row_begin; row < all.row_end; ++row, results += width) {
    if (options.activation) cpu.functions.activate(*options.activation, results, results, count);
    if (options.converted)
      convert_part(cpu, options.converted->format, results, all.outputs, first, first + count,
                   options.converted->data + static_cast<std::size_t>(row) * bytes);
    else
      std::copy_n(results, count, all.out + row * all.out_stride + first);
  }
}

// A few panels at a time, whose results stay in the nearest caches until they are converted.
void compute_converted(const CpuKernels& cpu, MatmulKernel kernel, const MatmulTask& all,
                       const MatmulOptions& options) {
  constexpr int kColumns = 4 * kPanelColumns;
  const int of_columns = all.paired ? 2 : 1, step = 4 * of_columns;  // panels
  alignas(64) float memory[kMostRows * kColumns];
  MatmulTask task = all;
  task.x = static_cast<const std::byte*>(all.x) + static_cast<std::size_t>(all.row_begin) * all.x_stride;
  task.row_begin = 0;
  task.row_end = all.row_end - all.row_begin;
  task.out = memory;
  task.out_stride = kColumns;
  for (int panel = all.panel_begin; panel < all.panel_end; panel += step) {
    task.panel_begin = panel;
    task.panel_end = std::min(panel + step, all.panel_end);
    task.then_panel = task.panel_end < all.panel_end ? task.panel_end : all.then_panel;
    task.out_column = static_cast<std::int64_t>(panel) / of_columns * kPanelColumns;
    kernel(task);
    const std::int64_t end =
        std::min(all.outputs, static_cast<std::int64_t>(task.panel_end) / of_columns * kPanelColumns);
    put_results(cpu, all, options, memory, kColumns, task.out_column, end - task.out_column);
  }
}

// Gates and what they gate, panels in turns in rows of 16 * panels floats, as the kernel itself joins them: with one input,
// which is 1, sums are what the panels of a matrix hold. out: rows of 8 * panels floats. bias: [2][8 * panels], or null.
void join_panels(const CpuKernels& cpu, Finish gate, const float* sums, int rows, int panels, const float* bias,
                 float* out) {
  const float one = 1.0f;
  const int together = bias == nullptr ? rows : 1;  // rows follow one another as panels of a row do
  MatmulTask task{};
  task.panel_bytes = kPanelColumns * sizeof(float);
  task.k = 1;
  task.panel_end = together * panels;
  task.outputs = std::int64_t{task.panel_end} / 2 * kPanelColumns;
  task.then_panel = -1;
  task.x = &one;
  task.x_stride = sizeof one;
  task.row_end = 1;
  task.out_stride = task.outputs;
  task.finish = gate;
  task.paired = true;
  task.bias = bias;
  for (int row = 0; row < rows; row += together) {
    task.panels = reinterpret_cast<const std::uint8_t*>(sums + std::int64_t{row} * panels * kPanelColumns);
    task.out = out + std::int64_t{row} * task.outputs;
    cpu.matmul_f32(task);
  }
}

// Biases of some columns of pairs: [2][count], zeros behind the last ones.
const float* biases_of(const MatmulTask& all, std::int64_t first, std::int64_t count, float* out) {
  if (all.bias == nullptr) return nullptr;
  const std::int64_t there = std::min(count, all.outputs - first);
  std::fill_n(out, 2 * count, 0.0f);
  std::copy_n(all.bias + first, there, out);
  std::copy_n(all.bias + all.outputs + first, there, out + count);
  return out;
}

// Something is added to the sums of a few panels at a time, which stay in the nearest caches until all is done with them.
void compute_added(const CpuKernels& cpu, MatmulKernel kernel, const MatmulTask& all, const MatmulOptions& options) {
  constexpr int kMostFloats = kMostRows * 8 * kPanelColumns, kFewRows = 64;
  const int rows = all.row_end - all.row_begin, of_columns = all.paired ? 2 : 1,
            step = (rows <= kFewRows ? 8 : 4) * of_columns;  // panels
  thread_local std::vector<float> memory(kMostFloats), joined(kMostFloats);
  alignas(64) float biases[16 * kPanelColumns];
  MatmulTask task = all;
  task.x = static_cast<const std::byte*>(all.x) + static_cast<std::size_t>(all.row_begin) * all.x_stride;
  task.row_begin = 0;
  task.row_end = rows;
  task.out = memory.data();
  task.paired = false;
  task.finish = Finish::store;
  if (all.paired) task.bias = nullptr;
  for (int panel = all.panel_begin; panel < all.panel_end; panel += step) {
    task.panel_begin = panel;
    task.panel_end = std::min(panel + step, all.panel_end);
    task.then_panel = task.panel_end < all.panel_end ? task.panel_end : all.then_panel;
    task.out_column = std::int64_t{panel} * kPanelColumns;
    task.out_stride = std::int64_t{task.panel_end - panel} * kPanelColumns;
    if (all.paired) task.outputs = std::int64_t{task.panel_end} * kPanelColumns;
    kernel(task);
    options.added->add(all.row_begin, all.row_end, options.added_column + task.out_column,
                       std::min(task.out_stride, task.outputs - task.out_column), memory.data(), task.out_stride);
    const std::int64_t first = task.out_column / of_columns, width = task.out_stride / of_columns;
    if (all.paired)
      join_panels(cpu, all.finish, memory.data(), rows, task.panel_end - panel, biases_of(all, first, width, biases),
                  joined.data());
    put_results(cpu, all, options, (all.paired ? joined : memory).data(), width, first,
                std::min(width, all.outputs - first));
  }
}

// The same where sums stay where they are.
void compute_added_in_place(MatmulKernel kernel, const MatmulTask& task, const MatmulOptions& options) {
  kernel(task);
  const std::int64_t first = std::int64_t{task.panel_begin} * kPanelColumns,
                     end = std::min(task.outputs, std::int64_t{task.panel_end} * kPanelColumns);
  options.added->add(task.row_begin, task.row_end, options.added_column + first, end - first,
                     task.out + task.row_begin * task.out_stride + first, task.out_stride);
}

// One product and how its chunks are computed.
class CutProduct {
 public:
  CutProduct(const CpuKernels& cpu, const ComputeTeam& team, const Product& product)
      : task_(task_of(*product.weights, product.x, product.out, product.out_stride)),
        cut_(cpu, team, *product.weights, product.options.pairs > 0, product.x.format, product.x.rows,
             product.x.stride),
        kernel_(matmul_kernel(cpu, product.weights->type(), product.x.format)),
        options_(product.options) {
    if (product.options.pairs > 0) task_.outputs = product.options.pairs;
    task_.bias = product.options.bias;
    task_.finish = product.options.finish;
    task_.paired = product.options.pairs > 0;
  }
  int chunks() const { return cut_.chunks(); }
  // then: the chunk that the calling thread computes next, or -1.
  void compute(const CpuKernels& cpu, int chunk, int then) const {
    MatmulTask task = task_;
    task.panel_begin = cut_.panel_begin(chunk);
    task.panel_end = cut_.panel_end(chunk);
    task.then_panel = then >= 0 ? cut_.panel_begin(then) : -1;
    task.row_begin = cut_.row_begin(chunk);
    task.row_end = cut_.row_end(chunk);
    if (options_.added) options_.added->share();
    if (options_.added && (options_.converted || task.paired))
      compute_added(cpu, kernel_, task, options_);
    else if (options_.added)
      compute_added_in_place(kernel_, task, options_);
    else if (options_.converted)
      compute_converted(cpu, kernel_, task, options_);
    else
      kernel_(task);
  }

 private:
  MatmulTask task_;
  Cut cut_;
  MatmulKernel kernel_;
  MatmulOptions options_;
};

}  // namespace

RowFormat row_format(const CpuKernels& cpu, DType weights, Activations mode, bool wide) {
  if (mode == Activations::f32) return RowFormat::f32;
  if (has_float_codes(weights))
    return is_float8(weights) && cpu.matmul_float8_bf16 != nullptr ? RowFormat::bf16 : RowFormat::f32;
  if (is_quantised(weights)) return wide ? RowFormat::int16 : RowFormat::int8;
  return weights == DType::bf16 && cpu.matmul_bf16_bf16 ? RowFormat::bf16 : RowFormat::f32;
}

std::size_t row_bytes(RowFormat format, std::int64_t k) {
  const auto n = static_cast<std::size_t>(k);
  switch (format) {
    case RowFormat::f32:
      return n * sizeof(float);
    case RowFormat::bf16:
      return (((n + 31) / 32) | 1) * 32 * sizeof(bf16);  // an odd number of cache lines, as in activations.h
    case RowFormat::int8:
      return ActivationLayout::of(k).bytes;
    case RowFormat::int16:
      return WideLayout::of(k).bytes;
  }
  return 0;
}

void convert_part(const CpuKernels& cpu, RowFormat format, const float* x, std::int64_t k, std::int64_t begin,
                  std::int64_t end, std::byte* row) {
  if (format == RowFormat::int8) cpu.quantise(x, reinterpret_cast<std::uint8_t*>(row), k, begin, end);
  if (format == RowFormat::bf16) cpu.to_bf16(x, reinterpret_cast<std::uint16_t*>(row) + begin, end - begin);
}

void convert_rows(const CpuKernels& cpu, RowFormat format, const float* x, std::int64_t x_stride, std::int64_t k,
                  int begin, int end, std::byte* out) {
  const std::size_t stride = row_bytes(format, k);
  for (int row = begin; row < end; ++row) {
    std::byte* to = out + static_cast<std::size_t>(row) * stride;
    const float* from = x + row * x_stride;
    if (format == RowFormat::int16) cpu.quantise_wide(from, reinterpret_cast<std::uint8_t*>(to), k);
    convert_part(cpu, format, from, k, 0, k, to);
  }
}

namespace {

// Rows in the order of a matrix's inputs, in the form that its kernel reads. Memory: the calling thread's, until it asks
// again.
class OrderedRows {
 public:
  // Rows [0, rows) of `x`, floats; begin(), then put() of each row, from any thread.
  OrderedRows(const CpuKernels& cpu, const PackedMatrix& weights, const RowBlock& x, RowFormat format,
              std::vector<std::byte>& memory)
      : cpu_(cpu), order_(*weights.order()), x_(x), format_(format), bytes_(row_bytes(format, weights.k())) {
    memory.resize(bytes_ * static_cast<std::size_t>(x.rows) + 64);
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    to_ = memory.data() + (64 - at % 64) % 64;
  }
  void put(int row) const {
    const auto* from = reinterpret_cast<const float*>(static_cast<const std::byte*>(x_.data) +
                                                      static_cast<std::size_t>(row) * x_.stride);
    thread_local std::vector<float> floats;
    float* ordered = reinterpret_cast<float*>(to_ + static_cast<std::size_t>(row) * bytes_);
    if (format_ != RowFormat::f32) {
      floats.resize(order_.size());
      ordered = floats.data();
    }
    for (std::size_t k = 0; k < order_.size(); ++k) ordered[k] = from[order_[k]];
    if (format_ != RowFormat::f32)
      convert_rows(cpu_, format_, ordered, 0, static_cast<std::int64_t>(order_.size()), 0, 1,
                   to_ + static_cast<std::size_t>(row) * bytes_);
  }
  int count() const { return x_.rows; }
  RowBlock block() const { return {format_, to_, bytes_, x_.rows}; }

 private:
  const CpuKernels& cpu_;
  const std::vector<std::int32_t>& order_;
  RowBlock x_;
  RowFormat format_;
  std::size_t bytes_;
  std::byte* to_ = nullptr;
};

}  // namespace

void matmul(const CpuKernels& cpu, ComputeTeam& team, const PackedMatrix& weights, const RowBlock& x, float* out,
            std::int64_t out_stride, MatmulOptions options) {
  if (weights.order()) {
    const Product one{&weights, x, out, out_stride, options};
    return matmul_all(cpu, team, {&one, 1});
  }
  const CutProduct product(cpu, team, {&weights, x, out, out_stride, options});
  team.run(product.chunks(), [&](int chunk) { product.compute(cpu, chunk, team.behind(chunk, product.chunks())); });
}

namespace {

// Those whose weights have an order of inputs, with rows in it; the others as they are. `memory` holds the rows.
std::vector<Product> with_ordered_rows(const CpuKernels& cpu, ComputeTeam& team, std::span<const Product> products,
                                       std::vector<std::vector<std::byte>>& memory) {
  std::vector<Product> out(products.begin(), products.end());
  std::vector<OrderedRows> ordered;
  memory.resize(products.size());
  std::vector<int> begin = {0};  // the first row of each
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!out[i].weights->order()) continue;
    const OrderedRows& rows =
        ordered.emplace_back(cpu, *out[i].weights, out[i].x, out[i].options.ordered_as, memory[i]);
    begin.push_back(begin.back() + rows.count());
    out[i].x = rows.block();
  }
  team.run(begin.back(), [&](int row) {
    const auto of = static_cast<std::size_t>(std::upper_bound(begin.begin(), begin.end(), row) - begin.begin()) - 1;
    ordered[of].put(row - begin[of]);
  });
  return out;
}

}  // namespace

void matmul_all(const CpuKernels& cpu, ComputeTeam& team, std::span<const Product> products) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<Product> with_order;
  if (std::ranges::any_of(products, [](const Product& p) { return p.weights->order() != nullptr; })) {
    with_order = with_ordered_rows(cpu, team, products, memory);
    products = with_order;
  }
  std::vector<CutProduct> cut;
  std::vector<int> begin = {0};  // the first chunk of each
  for (const Product& product : products) {
    cut.emplace_back(cpu, team, product);
    begin.push_back(begin.back() + cut.back().chunks());
  }
  team.run(begin.back(), [&](int chunk) {
    const auto of = static_cast<std::size_t>(std::upper_bound(begin.begin(), begin.end(), chunk) - begin.begin()) - 1;
    const int then = team.behind(chunk, begin.back());
    cut[of].compute(cpu, chunk - begin[of], then >= begin[of] && then < begin[of + 1] ? then - begin[of] : -1);
  });
}

void expect(const CpuKernels& cpu, ComputeTeam& team, const PackedMatrix& weights, bool paired, RowFormat format,
            int rows) {
  const Cut cut(cpu, team, weights, paired, format, rows, row_bytes(format, weights.k()));
  const auto second = static_cast<std::size_t>(cut.panel_begin(team.share_begin(1, cut.chunks())));
  team.expect({reinterpret_cast<const std::byte*>(weights.panel(0)), second * weights.panel_bytes(), weights.bytes()});
}

void matmul_columns(const CpuKernels& cpu, const PackedMatrix& weights, const RowBlock& x, ColumnRange columns,
                    const float* bias, float* out, std::int64_t out_stride) {
  const auto panel = static_cast<int>(columns.first / kPanelColumns);
  RowBlock rows = x;
  if (weights.order()) {
    thread_local std::vector<std::byte> memory;
    const OrderedRows ordered(cpu, weights, x, RowFormat::f32, memory);
    for (int row = 0; row < ordered.count(); ++row) ordered.put(row);
    rows = ordered.block();
  }
  MatmulTask task = task_of(weights, rows, out, out_stride);
  task.panels = weights.panel(panel);
  task.outputs = columns.count;
  task.bias = bias;
  task.panel_end = static_cast<int>((columns.count + kPanelColumns - 1) / kPanelColumns);
  if (columns.next >= 0) task.then_panel = static_cast<int>(columns.next / kPanelColumns) - panel;
  matmul_kernel(cpu, weights.type(), rows.format)(task);
}

}  // namespace espalier
