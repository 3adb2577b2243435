// blocks.h: a tile's queries against blocks of positions whose keys lie in groups of 16 slots, lane by lane.
#pragma once

#include "kernels/cpu/generic/attention/tile_softmax.h"

namespace espalier::kernels::ESPALIER_ISA {

template <KvType kType, class Arithmetic>
struct Blocks : TileSoftmax<kType, Arithmetic> {  // of one tile
  using Tile = TileSoftmax<kType, Arithmetic>;
  using Tile::arithmetic, Tile::here, Tile::key_width, Tile::mask, Tile::next, Tile::queries, Tile::rows, Tile::scores,
      Tile::t, Tile::value_width;

  alignas(64) float aside[Arithmetic::kRows][kAttentionBlock];  // scores of groups that the block has only a part of

  explicit Blocks(const AttentionTask& task) : Tile(task) {
    this->take_queries();
    set_queries(queries);
  }
  void set_queries(int count) {
    queries = count;
    arithmetic.set_queries(this->q, count, key_width, value_width);
  }

  int group_bytes() const { return key_width * kSlotGroup * element_bytes(kType); }

  void locate(int block) {
    Tile::locate(block, [&](Located& to, bool first) {
      for (int i = 0; i < to.stretch_count; ++i) add_groups(to, to.stretches[i]);
      for (int g = 0; first && g < to.group_count; ++g) call_in(to.groups[g].keys, group_bytes());
    });
  }

  void add_groups(Located& to, const Stretch& stretch) {
    const std::size_t value_bytes = static_cast<std::size_t>(value_width) * kSlotGroup * element_bytes(kType);
    const std::size_t keys_at = key_offset(t.kv, to.kv_head, stretch.slot),
                      values_at = value_offset(t.kv, to.kv_head, stretch.slot);
    Slot slot = stretch.slot;
    int at = stretch.at;
    for (const int end = at + stretch.length; at < end;) {
      const int lane = slot % kSlotGroup, rest = kSlotGroup - lane, taken = rest < end - at ? rest : end - at;
      const auto group = static_cast<std::size_t>(slot % kSegmentSlots / kSlotGroup);
      const std::byte *keys = t.kv.keys + keys_at + group * static_cast<std::size_t>(group_bytes()),
                      *values = t.kv.values + values_at + group * value_bytes;
      const bool wanted = !mask.masked() || to.seen.any(at, taken);
      if (wanted && !joins_last(to, keys, values, slot, at, taken))
        to.groups[to.group_count++] = {keys, values, slot - lane, lane, taken, at, nullptr, nullptr, 0, kSlotGroup};
      slot += taken;
      at += taken;
    }
  }

  // A place that begins in the lane where the last group ends fills it up: the two are computed as one.
  bool joins_last(Located& to, const std::byte* keys, const std::byte* values, Slot slot, int at, int length) const {
    if (to.group_count == 0) return false;
    Group& last = to.groups[to.group_count - 1];
    const int lane = slot % kSlotGroup;
    if (last.rest || last.lane + last.length != lane || last.at + last.length != at) return false;
    last.length += length;
    if (last.keys == keys) return true;
    last.rest = keys;
    last.rest_values = values;
    last.rest_slot = slot - lane;
    last.split = lane;
    call_in(keys, group_bytes());
    return true;
  }

  template <int kQ, int kG, bool kAhead, bool kJoined = false>
  void score_groups(int query, const Group* group) {
    float* to[kG];
    for (int g = 0; g < kG; ++g) to[g] = group[g].whole() ? &scores[query][group[g].at] : &aside[0][kSlotGroup * g];
    arithmetic.template scores<kQ, kG, kAhead, kJoined>(query, group, to, kAttentionBlock);
    for (int g = 0; g < kG; ++g) finish_group<kQ>(query, group[g], to[g]);
  }
  template <int kQ>
  void finish_group(int query, const Group& group, float* found) {
    for (int i = 0; (has_scales(kType) || !group.whole()) && i < kQ; ++i, found += kAttentionBlock) {
      if constexpr (has_scales(kType)) {
        const float* scales = t.kv.key_scales + t.span.kv_head * t.kv.head_scales;
        Simd::F factor = Simd::load(scales + group.slot);
        if (group.rest)
          factor = Simd::select(Simd::lanes_from(group.split), Simd::load(scales + group.rest_slot), factor);
        Simd::store(found, Simd::mul(Simd::load(found), factor));
      }
      if (!group.whole())
        __builtin_memcpy(&scores[query + i][group.at], found + group.lane,
                         static_cast<std::size_t>(group.length) * sizeof(float));
    }
  }

  template <int kQ, bool kAhead>
  void score(int query) {
    constexpr int kG = Arithmetic::kGroups;
    for (int i = 0; i < here->group_count;) {
      const Group* group = here->groups + i;
      const bool together = i + kG <= here->group_count && none_joined(group, kG);
      if (group->rest)
        score_joined<kQ, kAhead>(query, group);
      else if (together)
        score_groups<kQ, kG, kAhead>(query, group);
      else
        score_groups<kQ, 1, kAhead>(query, group);
      i += together ? kG : 1;
    }
  }
  static bool none_joined(const Group* groups, int count) {
    for (int i = 0; i < count; ++i)
      if (groups[i].rest) return false;
    return true;
  }
  template <int kQ, bool kAhead>
  void score_joined(int query, const Group* group) {
    const int row_bytes = value_width * element_bytes(kType), end = group->lane + group->length;
    if (kAhead) call_in(group->rest_values + group->split * row_bytes, (end - group->split) * row_bytes);
    score_groups<kQ, 1, kAhead, true>(query, group);
  }
  // While the last queries are computed, memory brings what comes next: the block's values beside the scores, the next
  // block's keys beside the weighted values of few queries (many are bound by arithmetic).
  void score_all() {
    this->all_queries([&](auto count, int query) {
      if (query + count == queries && value_width > 0)
        score<count, true>(query);
      else
        score<count, false>(query);
    });
  }

  // A sixteenth of a group's keys beside each position; what the block has no positions for, at once.
  void find_keys_ahead() {
    const int part = key_width * element_bytes(kType), beside = value_width * element_bytes(kType);
    int i = 0;
    for (int g = 0; g < next->group_count; ++g)
      for (int j = 0; j < kSlotGroup; ++j) {
        const std::byte* const keys =
            next->groups[g].keys + static_cast<std::size_t>(j) * static_cast<std::size_t>(part);
        if (i < this->row_count) {
          this->keys_ahead[i++] = keys;
          if (part > beside) call_in(keys + beside, part - beside);
        } else {
          call_in(keys, part);
        }
      }
    for (; i <= this->row_count; ++i) this->keys_ahead[i] = rows[i];
  }

  void compute(int block) {
    locate(block);
    score_all();
    this->soften_all();
    const int head = t.span.kv_head;
    if constexpr (has_scales(kType)) this->scale_weights(t.kv.value_scales + head * t.kv.head_scales);
    this->find_rows(
        *here, t.kv.values, static_cast<std::size_t>(value_width) * element_bytes(kType),
        [&](Slot slot) { return value_offset(t.kv, head, slot); }, rows);
    this->end_rows();
    this->gather_weights();
    if (this->few_queries()) find_keys_ahead();
    this->weigh_all();
  }
};

}  // namespace espalier::kernels::ESPALIER_ISA
