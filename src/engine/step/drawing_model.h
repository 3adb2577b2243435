// drawing_model.h: a model that draws its tokens itself, over one that does not; for tests.
//
// Rows that nobody reads become NaN, so that whoever reads them shows. Threads: one caller at a time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "model/model.h"
#include "sampling/sampler.h"

namespace espalier::testing {

// Draws on the host what a device draws.
class DrawingModel final : public Model {
 public:
  explicit DrawingModel(Model& model) : model_(model) {}

  int vocabulary() const override { return model_.vocabulary(); }
  int max_rows() const override { return model_.max_rows(); }
  bool draws() const override { return true; }
  bool overlaps() const override { return true; }
  std::span<float> forward(const Batch& batch, const KvView& kv) override {
    begin_forward(batch, kv);
    return end_forward();
  }
  void begin_forward(const Batch& batch, const KvView& kv) override {
    EXPECT_EQ(batch.reader, nullptr);
    draws_ = batch.draws != nullptr ? *batch.draws : RowDraws{};
    Batch without = batch;
    without.draws = nullptr;
    const auto logits = model_.forward(without, kv);
    while_it_computes();
    whole_.assign(logits.begin(), logits.end());
  }
  std::span<float> end_forward() override {  // as late as a device reads what it is to draw
    const RowDraws draws = draws_;
    read_ = whole_;
    draw_all(draws.now, draws.drawn);
    with_step += draws.now.size();
    for (std::size_t row = 0; row < draws.unseen.size(); ++row) {
      if (draws.unseen[row] != 0) std::ranges::fill(of(read_, row), std::numeric_limits<float>::quiet_NaN());
      came_down += draws.unseen[row] == 0 ? 1 : 0;
    }
    return read_;
  }
  void logits_again(int, int, std::span<float>) const override { ADD_FAILURE() << "nobody scanned its rows"; }
  void draw(std::span<const RowDraw> draws, std::span<DrawnToken> drawn) override {
    draw_all(draws, drawn);
    behind_step += draws.size();
  }

  std::function<void()> while_it_computes = [] {};
  std::size_t with_step = 0, behind_step = 0, came_down = 0;  // rows so far

 private:
  std::span<float> of(std::vector<float>& rows, std::size_t row) const {
    const auto width = static_cast<std::size_t>(vocabulary());
    return std::span(rows).subspan(row * width, width);
  }
  void draw_all(std::span<const RowDraw> draws, std::span<DrawnToken> drawn) {
    for (std::size_t i = 0; i < draws.size(); ++i) drawn[i] = drawn_of(draws[i]);
  }
  DrawnToken drawn_of(const RowDraw& draw) {
    const auto row = of(whole_, static_cast<std::size_t>(draw.row));
    const auto pick =
        Sampler().pick({.logits = row, .params = draw.params, .mask = draw.mask, .uniform = draw.uniform});
    if (!pick.ok())
      return {-1, pick.error().code == "no_token_allowed" ? RowFault::none_allowed : RowFault::not_finite, 0, 0};
    sampling::RowScan scan;
    scan_row(row, draw.mask, draw.sharpness(), sampling::ScanFor::sums, scan);
    return {pick->token, RowFault::none, pick->probability, scan.total};
  }

  Model& model_;
  std::vector<float> whole_, read_;
  RowDraws draws_;
};

}  // namespace espalier::testing
