#include "device/stages/picture_stages.h"

#include "model/executor.h"

namespace espalier::device {

void BlendStage::prepare(Step& step) {
  const RowBlend& blend = step.pass().pictures().blends[static_cast<std::size_t>(op_.blend)];
  task_ = {.from = table_,
           .from_stride = op_.out.width,
           .to = out_.first,
           .to_stride = out_.stride,
           .width = op_.out.width,
           .map = step.memory().put(blend.rows),
           .weights = step.memory().put(blend.weights),
           .rows = step.pass().rows(),
           .count = blend.count,
           .sum = true,
           .add = true};
}

void GatherStage::prepare(Step& step) {
  const PictureRows& pictures = step.pass().pictures();
  const auto map = pictures.maps[static_cast<std::size_t>(op_.map)];
  const int rows = static_cast<int>(map.size()) / op_.count;
  task_ = {.from = in_.first,
           .from_stride = in_.stride,
           .to = out_.first,
           .to_stride = out_.stride,
           .width = op_.in.width,
           .map = step.memory().put(map),
           .weights = nullptr,
           .rows = rows,
           .count = op_.count,
           .sum = op_.mean || op_.weights >= 0,
           .add = false};
  if (op_.weights >= 0)
    task_.weights = step.memory().put(pictures.blends[static_cast<std::size_t>(op_.weights)].weights);
  step.pass().set_rows(rows);
}

void GiveStage::prepare(Step& step) {
  rows_ = step.pass().rows();
  to_ = step.pass().pictures().outputs[static_cast<std::size_t>(op_.output)];
  const std::size_t bytes = static_cast<std::size_t>(rows_) * static_cast<std::size_t>(op_.in.width) * sizeof(float);
  if (brought_.size() >= bytes) return;
  brought_ = {};
  brought_ = given_by_device(step.device().allocate_host(bytes));
}

void GiveStage::launch(Launches& launches) {
  launches.run(kEspalierGather, GatherTask{.from = in_.first,
                                           .from_stride = in_.stride,
                                           .to = aside_,
                                           .to_stride = op_.in.width,
                                           .width = op_.in.width,
                                           .map = nullptr,
                                           .weights = nullptr,
                                           .rows = rows_,
                                           .count = 1,
                                           .sum = false,
                                           .add = false});
  launches.copy(brought_.data(), aside_,
                static_cast<std::size_t>(rows_) * static_cast<std::size_t>(op_.in.width) * sizeof(float));
}

void GiveStage::finish() {
  std::copy_n(brought_.as<float>(), std::int64_t{rows_} * op_.in.width, to_);
}

}  // namespace espalier::device
