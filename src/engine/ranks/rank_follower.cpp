#include "engine/ranks/rank_follower.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/fingerprint.h"
#include "base/threads/thread_name.h"
#include "engine/load/file_start.h"
#include "engine/load/load_decoder.h"
#include "engine/load/loaded_tower.h"
#include "engine/load/tensor_samples.h"
#include "engine/ranks/kept_bytes.h"
#include "engine/ranks/rank_leader.h"
#include "model/adapters/adapter_file.h"

namespace espalier {
namespace {

ExtentList take_slots(MessageReader& message) {
  std::vector<Extent> extents;
  message.take_all(extents);
  ExtentList slots;
  for (const Extent& extent : extents) slots.append(extent);
  return slots;
}

}  // namespace

std::string group_key(const EngineOptions& options, const EngineChoices& chosen, const ModelFiles& files,
                      std::string_view device) {
  const std::filesystem::path path = options.model_path;
  std::error_code none;
  Fingerprint tensors, numbers;
  add_tensors(tensors, *files.weights);
  add_start(numbers, std::filesystem::is_directory(path, none) ? path / "config.json" : path, KeyReach::fleet);
  return fmt::format(
      "{}, weights {}, configuration {}; {}{}; {} activations, {} keys; {} rows at once; {} {}; experts by {}; {} "
      "stages",
      files.config.class_name, tensors.text(), numbers.text(), files.pooled ? "pooled texts" : "new tokens",
      files.config.spec.drafts ? " and its own layer's guesses" : "", options.activations, name(chosen.kv),
      chosen.rows(), device, cpu_kernels().isa, options.experts_by_id ? "id" : "columns", options.rank_stages);
}

Result<std::unique_ptr<RankFollower>> RankFollower::open(const EngineOptions& options,
                                                         const Engine::Progress& progress) {
  auto follower = std::make_unique<RankFollower>();
  ESP_CHECK(follower->load(options, progress));
  return follower;
}

Result<> RankFollower::load(const EngineOptions& options, const Engine::Progress& progress) {
  ESP_TRY(chosen_, choices_of(options));
  ESP_TRY(files_, open_model_files(options));
  ESP_TRY(const int context, context_of(options, files_.config.context_length));
  ESP_TRY(chosen_.longest_span, longest_span_of(files_, context));
  ESP_TRY(compute_, open_device(options));
  ESP_TRY(group_, options.join_ranks(group_key(options, chosen_, files_, kind_of(compute_.get()))));
  team_ = std::make_unique<ComputeTeam>(chosen_.threads, chosen_.place);
  if (team_->shortage()) return *team_->shortage();
  const DecoderOptions with{chosen_.activations, chosen_.rows(),        backend_of(compute_.get()),
                            group_.get(),        options.experts_by_id, options.rank_stages};
  ESP_TRY(LoadedDecoder loaded, load_decoder(options, files_, with, *team_, progress));
  decoder_ = std::move(loaded.decoder);
  group_->barrier();  // the first rank, which plans the pools, looks at what memory is left
  least_room(*group_, room_of_rank(options, compute_.get()).pages);
  most_kept(*group_, kept_bytes(*decoder_, chosen_.kv));
  numbers_.input_widths = decoder_->program().whole_inputs;
  numbers_.state_at = [this](int cell) { return states_.at(cell); };
  numbers_.adapter_at = [this](int number) -> const LoraAdapter* {
    return number == 0 ? nullptr : adapters_.at(number).get();
  };
  return success();
}

Result<> RankFollower::run() {
  name_this_thread("esp-rank");
  team_->place_caller();
  std::vector<std::byte> message;
  for (bool goes_on = true; goes_on;) {
    group_->broadcast(0, message);
    if (group_->ended()) break;
    MessageReader reader(message);
    auto obeyed = obey_if_it_can(reader);
    if (!obeyed.ok()) {
      group_->end(fmt::format("rank {} cannot go on: {}", group_->rank(), obeyed.error().message));
      return obeyed.error();
    }
    goes_on = *obeyed;
  }
  return success();
}

Result<bool> RankFollower::obey_if_it_can(MessageReader& message) {
  try {
    return obey(message);
  } catch (const DeviceFailure& failure) {
    return internal_error(failure.what());
  }
}

Result<bool> RankFollower::obey(MessageReader& message) {
  const auto call = message.take<RankCall>();
  switch (call) {
    case RankCall::pools:
      ESP_CHECK(allocate(message));
      return true;
    case RankCall::forward:
      decoder_->forward(batch_.read(message, numbers_), kv_.view());
      return true;
    case RankCall::guess:
      decoder_->draft_layer()->forward(batch_.read(message, numbers_), kv_.view());
      return true;
    case RankCall::copy:
      copy(message);
      return true;
    case RankCall::copy_out:
    case RankCall::copy_in:
    case RankCall::windows_out:
    case RankCall::windows_in:
      move_blocks(call, message);
      return true;
    case RankCall::state_out:
    case RankCall::state_in:
      move_state(call, message);
      return true;
    case RankCall::bind:
      ESP_CHECK(bind(message));
      return true;
    case RankCall::end:
      return false;
  }
  return internal_error("the first rank asks for something that this program does not know");
}

Result<> RankFollower::allocate(MessageReader& message) {
  const auto slots = message.take<int>(), window_slots = message.take<int>(), cells = message.take<int>();
  std::vector<unsigned char> windows;
  message.take_all(windows);
  ESP_TRY(kv_, KvPools::allocate({decoder_->keeps().per_token, chosen_.kv}, slots,
                                 std::vector<bool>(windows.begin(), windows.end()), window_slots,
                                 device_of(compute_.get())));
  ESP_TRY(states_, StatePool::allocate(decoder_->keeps().state_floats, cells, device_of(compute_.get())));
  const Program& program = decoder_->program();
  copier_ = std::make_unique<KvCopier>(kv_.tokens(), *team_);
  blocks_.emplace(*group_, program, fields_in(kv_, false), chosen_.kv, *copier_);
  if (window_slots > 0) {
    window_copier_ = std::make_unique<KvCopier>(kv_.windows(), *team_);
    windows_.emplace(*group_, program, fields_in(kv_, true), chosen_.kv, *window_copier_);
  }
  if (cells > 0) shared_states_.emplace(*group_, states_);
  return success();
}

Result<> RankFollower::bind(MessageReader& message) {
  const auto number = message.take<int>(), forgotten = message.take<int>();
  std::vector<char> path;
  message.take_all(path);
  adapters_.erase(forgotten);
  ESP_TRY(const AdapterFile file, open_adapter(std::string(path.begin(), path.end())));
  ESP_TRY(adapters_[number], decoder_->bind(file));
  return success();
}

void RankFollower::copy(MessageReader& message) {
  const ExtentList from = take_slots(message), to = take_slots(message);
  copier_->copy_within(from, to);
}

void RankFollower::move_blocks(RankCall call, MessageReader& message) {
  const auto first_token = message.take<int>();
  const ExtentList slots = take_slots(message);
  RankBlocks& blocks = call == RankCall::copy_out || call == RankCall::copy_in ? *blocks_ : *windows_;
  if (call == RankCall::copy_out || call == RankCall::windows_out)
    blocks.gather(slots, {}, 0);
  else
    blocks.spread({}, 0, first_token, slots);
}

void RankFollower::move_state(RankCall call, MessageReader& message) {
  const auto cell = message.take<int>();
  const auto from = message.take<std::size_t>(), count = message.take<std::size_t>();
  if (call == RankCall::state_out)
    shared_states_->gather(cell, from, {}, count);
  else
    shared_states_->spread(cell, from, {}, count);
}

}  // namespace espalier
