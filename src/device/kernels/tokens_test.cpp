// What is kept of tokens moves between a device's pool and blocks of bytes element by element as the layouts say
// (kernels/attention/kv_layout.h, engine/memory/kv_copy.h), and latent rows are read as the CPU reads them.
#include "device/kernels/attended_problem.h"
#include "kernels/cuda/token_task.h"
#include "kernels/matmul/stored_row.h"
#include "testing/data.h"

namespace espalier {
namespace {

using testing::Emulated;

constexpr int kSlots = 4 * kSegmentSlots;

// A field of a pool of random bytes.
struct Field {
  KvType type;
  KvForm form;
  int heads;
  HeadDims dims;
  std::size_t block_at = 0;  // of its part of a block
  std::vector<std::byte> keys = {}, values = {};
  std::vector<float> key_scales = {}, value_scales = {};

  std::size_t unit() const { return static_cast<std::size_t>(element_bytes(type)); }
  std::size_t key_row() const { return static_cast<std::size_t>(padded_head(dims.key)) * unit(); }
  std::size_t value_row() const {
    return has_values() ? static_cast<std::size_t>(padded_head(dims.value)) * unit() : 0;
  }
  bool has_values() const { return form == KvForm::keys_and_values && dims.value > 0; }
  std::size_t segment() const {
    return static_cast<std::size_t>(heads * kSegmentSlots) * std::max(key_row(), value_row());
  }
  std::size_t scale_rows() const {
    return !has_scales(type) ? 0 : static_cast<std::size_t>(heads) * (has_values() ? 2 : 1);
  }
  std::size_t block_bytes() const {
    return kSlotGroup * (static_cast<std::size_t>(heads) * (key_row() + value_row()) + scale_rows() * sizeof(float));
  }

  void fill(std::mt19937_64& rng) {
    const auto bytes = [&](std::vector<std::byte>& to, std::size_t count) {
      to.resize(count);
      for (std::byte& b : to) b = static_cast<std::byte>(rng());
    };
    bytes(keys, segment() * (kSlots / kSegmentSlots));
    bytes(values, has_values() ? keys.size() : 0);
    if (has_scales(type)) key_scales = random_floats(rng, static_cast<std::size_t>(heads) * kSlots);
    if (has_scales(type) && has_values()) value_scales = random_floats(rng, static_cast<std::size_t>(heads) * kSlots);
  }
  KvLayer layer(Emulated& emulated) const {
    return {.type = type,
            .keys = emulated.put(keys),
            .values = has_values() ? emulated.put(values) : nullptr,
            .key_scales = key_scales.empty() ? nullptr : emulated.put(key_scales),
            .value_scales = value_scales.empty() ? nullptr : emulated.put(value_scales),
            .key_head_bytes = kSegmentSlots * key_row(),
            .value_head_bytes = kSegmentSlots * value_row(),
            .segment_bytes = segment(),
            .head_scales = kSlots,
            .form = form};
  }
};

// Tokens that follow each other, in one block and in one group of the pool.
std::vector<cuda::MovedPiece> random_pieces(std::mt19937_64& rng, int first_token, int tokens, std::size_t stride) {
  std::vector<cuda::MovedPiece> pieces;
  Slot slot = 5;
  int left_of_extent = 0;
  for (int token = first_token; token < first_token + tokens;) {
    if (left_of_extent == 0) {
      left_of_extent = 1 + static_cast<int>(rng() % 70);
      slot += static_cast<Slot>(rng() % 20);
      if (rng() % 2 == 0) slot = (slot + kSlotGroup - 1) / kSlotGroup * kSlotGroup + token % kSlotGroup;
    }
    const int lane = token % kSlotGroup;
    const int count =
        std::min({left_of_extent, kSlotGroup - lane, kSlotGroup - slot % kSlotGroup, first_token + tokens - token});
    pieces.push_back({static_cast<std::size_t>(token / kSlotGroup) * stride, lane, slot, count});
    slot += count;
    token += count;
    left_of_extent -= count;
  }
  EXPECT_LT(slot, kSlots);
  return pieces;
}

// Calls move(byte in the block, bytes in the pool's part, byte there, how many) for all that is kept of a token.
template <class Move>
void each_part(Field& field, int lane_in_block, Slot slot, Move move) {
  const auto lane = static_cast<std::size_t>(lane_in_block), at = static_cast<std::size_t>(slot);
  const std::size_t segment = at / kSegmentSlots * field.segment(), in_segment = at % kSegmentSlots, u = field.unit(),
                    heads = static_cast<std::size_t>(field.heads);
  const auto element = [&](std::size_t row, std::size_t i, std::size_t of_lane) {  // in a group of keys
    if (field.form == KvForm::latent) return of_lane * row + i * u;
    if (field.type == KvType::bf16) return i / 2 * 64 + of_lane * 4 + i % 2 * 2;
    return (i * kSlotGroup + of_lane) * u;
  };
  for (std::size_t h = 0; h < heads; ++h) {
    const std::size_t k = field.key_row(), v = field.value_row(), block = field.block_at;
    for (std::size_t i = 0; i < k / u; ++i)
      move(block + h * kSlotGroup * k + element(k, i, lane), std::as_writable_bytes(std::span(field.keys)),
           segment + h * kSegmentSlots * k + in_segment / kSlotGroup * kSlotGroup * k +
               element(k, i, in_segment % kSlotGroup),
           u);
    if (v > 0)
      move(block + heads * kSlotGroup * k + (h * kSlotGroup + lane) * v,
           std::as_writable_bytes(std::span(field.values)), segment + (h * kSegmentSlots + in_segment) * v, v);
    const std::size_t scales = block + heads * kSlotGroup * (k + v) + (h * kSlotGroup + lane) * sizeof(float);
    const std::size_t scale = (h * kSlots + at) * sizeof(float);
    if (!field.key_scales.empty())
      move(scales, std::as_writable_bytes(std::span(field.key_scales)), scale, sizeof(float));
    if (!field.value_scales.empty())
      move(scales + heads * kSlotGroup * sizeof(float), std::as_writable_bytes(std::span(field.value_scales)), scale,
           sizeof(float));
  }
}
void plainly_move(std::vector<Field>& fields, const std::vector<cuda::MovedPiece>& pieces,
                  std::vector<std::byte>& blocks, bool out) {
  for (const cuda::MovedPiece& piece : pieces)
    for (Field& field : fields)
      for (int i = 0; i < piece.count; ++i)
        each_part(field, piece.lane + i, piece.slot + i,
                  [&](std::size_t in_block, std::span<std::byte> pool, std::size_t at, std::size_t count) {
                    std::byte* const b = blocks.data() + piece.block_at + in_block;
                    out ? std::memcpy(b, &pool[at], count) : std::memcpy(&pool[at], b, count);
                  });
}

class DeviceTokens : public ::testing::TestWithParam<KvType> {
 protected:
  KvType type = GetParam();
  std::mt19937_64 rng{testing::seed()};
  Emulated emulated;

  std::vector<Field> some_fields() {
    std::vector<Field> fields = {{type, KvForm::keys_and_values, 2, {40, 72}},
                                 {type, KvForm::latent, 1, {96, 64}},
                                 {type, KvForm::keys_and_values, 1, {32, 0}},
                                 {type, KvForm::keys_and_values, 3, {16, 16}}};
    std::size_t at = 0;
    for (Field& field : fields) {
      field.fill(rng);
      field.block_at = at;
      at += field.block_bytes();
    }
    return fields;
  }
  std::vector<std::byte> random_bytes(std::size_t count) {
    std::vector<std::byte> out(count);
    for (std::byte& b : out) b = static_cast<std::byte>(rng());
    return out;
  }
};

TEST_P(DeviceTokens, MoveBetweenThePoolAndBlocks) {
  for (const int first_token : {0, 7}) {
    std::vector<Field> fields = some_fields();
    const std::size_t stride = fields.back().block_at + fields.back().block_bytes() + (first_token == 0 ? 0 : 4);
    const auto pieces = random_pieces(rng, first_token, 600, stride);
    std::vector<cuda::MovedField> moved;
    for (const Field& f : fields) moved.push_back({f.layer(emulated), f.heads, f.block_at, f.key_row(), f.value_row()});
    std::vector<std::byte> blocks = random_bytes(stride * 39);
    cuda::MoveTokensTask task{};
    task.fields = emulated.put(moved);
    task.field_count = static_cast<int>(moved.size());
    task.pieces = emulated.put(pieces);
    task.piece_count = static_cast<int>(pieces.size());
    task.blocks = emulated.put(blocks);
    task.out = true;
    emulated.run(kEspalierMoveTokens, task);
    plainly_move(fields, pieces, blocks, true);
    ASSERT_EQ(emulated.get(task.blocks, blocks.size()), blocks) << "out";

    blocks = random_bytes(blocks.size());
    task.blocks = emulated.put(blocks);
    task.out = false;
    emulated.run(kEspalierMoveTokens, task);
    plainly_move(fields, pieces, blocks, false);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const KvLayer& layer = moved[i].layer;
      ASSERT_EQ(emulated.get(layer.keys, fields[i].keys.size()), fields[i].keys) << "in, field " << i;
      ASSERT_EQ(emulated.get(layer.values, fields[i].values.size()), fields[i].values) << "in, field " << i;
      const auto bits = [](const std::vector<float>& scales) {
        std::vector<std::uint32_t> out(scales.size());
        if (!out.empty()) std::memcpy(out.data(), scales.data(), out.size() * 4);
        return out;
      };
      ASSERT_EQ(bits(emulated.get(layer.key_scales, fields[i].key_scales.size())), bits(fields[i].key_scales));
      ASSERT_EQ(bits(emulated.get(layer.value_scales, fields[i].value_scales.size())), bits(fields[i].value_scales));
    }
  }
}

TEST_P(DeviceTokens, LatentRowsAreReadAsTheCpuReadsThem) {
  const CpuKernels& cpu = *runnable_cpu_kernels().front();
  for (const auto& [heads, key] : {std::pair{1, 576}, {3, 40}, {2, 7}}) {
    testing::Store store(type, KvForm::latent, heads, {key, key}, 1200);
    for (Slot slot = 0; slot < store.slots; ++slot)
      for (int h = 0; h < heads; ++h) {
        const std::vector<float> row = random_floats(rng, static_cast<std::size_t>(key), slot % 5 == 0 ? 0.0f : 1e-3f);
        cpu.store_kv(store.layer(), slot, row.data(), nullptr, h, store.dims);
      }
    std::vector<Slot> slots;
    for (int i = 0; i < 70; ++i) slots.push_back(i % 9 == 4 ? -1 : static_cast<Slot>(rng() % 1200));
    const int width = heads * key, stride = width + 3;
    std::vector<float> want(static_cast<std::size_t>(70 * stride), -7.0f);
    for (std::size_t i = 0; i < slots.size(); ++i)
      for (int h = 0; h < heads; ++h) {
        const std::span<float> row(&want[i * static_cast<std::size_t>(stride) + static_cast<std::size_t>(h * key)],
                                   static_cast<std::size_t>(key));
        if (slots[i] < 0)
          std::ranges::fill(row, 0.0f);
        else
          load_row(store.layer(), h, slots[i], row);
      }
    const cuda::LoadTokensTask task{.layer = put_layer(emulated, store),
                                    .heads = heads,
                                    .key_dim = key,
                                    .rows = 70,
                                    .slots = emulated.put(slots),
                                    .out = emulated.put(std::vector<float>(want.size(), -7.0f)),
                                    .out_stride = stride};
    emulated.run(kEspalierLoadTokens, task);
    ASSERT_EQ(emulated.get(task.out, want.size()), want) << heads << " x " << key;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceTokens, ::testing::ValuesIn(testing::kv_types()),
                         [](const auto& test) { return "kv" + std::to_string(static_cast<int>(test.param)); });

}  // namespace
}  // namespace espalier
