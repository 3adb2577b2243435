// Engines that keep their packed weights: the same answers with the file and without it, and a file that is good only
// for the very checkpoint it was made of.
#include "engine/load/packed_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "base/log.h"
#include "cache/testing/test_folder.h"
#include "espalier/stream.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"

namespace espalier::packed_cache_test {
namespace {

namespace fs = std::filesystem;

struct Said {
  std::vector<TokenId> tokens;
  std::vector<double> logprobs;
  std::string weights;  // ModelInfo::packed_weights
  bool operator==(const Said& o) const { return tokens == o.tokens && logprobs == o.logprobs; }
};

class EngineWithPackedWeights : public ::testing::Test {
 protected:
  void SetUp() override {
    log::configure(log::Level::error, log::Format::text);
    fs::copy(testing::data("goldens/models/llama3-tied-gqa"), model(), fs::copy_options::recursive);
    options.model_path = model().string();
    options.threads = 2;
    options.max_total_tokens = 1024;
  }
  void keep() { options.packed_weights_dir = kept().string(); }
  fs::path model() const { return folder.path() / "model"; }
  fs::path kept() const { return folder.path() / "kept" / "weights"; }
  fs::path only_file() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(kept())) all.push_back(entry.path());
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? fs::path() : all.front();
  }

  // Opens an engine, asks one thing, ends it.
  Said ask(const EngineOptions& with) const {
    Said said;
    auto engine = Engine::open(with);
    EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
    if (!engine.ok()) return said;
    said.weights = (*engine)->model().packed_weights;
    RequestFields fields;
    for (int i = 0; i < 60; ++i) fields.prompt.push_back(3 + i % 100);
    fields.sampling.max_new_tokens = 12;
    fields.sampling.temperature = 0;
    fields.sampling.ignore_eos = true;
    fields.logprobs.enabled = true;
    Stream stream = (*engine)->submit(Request::make(fields, (*engine)->model().limits).value()).value();
    for (bool ended = false; !ended && stream.wait(std::chrono::seconds(60));) {
      for (StreamEvent& event : stream.take()) {
        if (auto* token = std::get_if<TokenEvent>(&event)) {
          said.tokens.push_back(token->id);
          said.logprobs.push_back(token->logprob);
        }
        ended = ended || std::holds_alternative<FinishEvent>(event);
      }
    }
    EXPECT_EQ(said.tokens.size(), 12u);
    return said;
  }
  Said ask() const { return ask(options); }
  EngineOptions loaded_by(const char* how) const {
    EngineOptions with = options;
    with.packed_weights_load = how;
    return with;
  }

  testing::TestFolder folder{testing::TestFolder::Where::memory};
  EngineOptions options;
};

TEST_F(EngineWithPackedWeights, TheNextStartReadsOrMapsThemAndSaysTheSame) {
  const Said plain = ask();
  EXPECT_EQ(plain.weights, "");
  keep();
  const Said first = ask();
  EXPECT_EQ(first, plain);
  EXPECT_EQ(first.weights, "packed, and kept in " + only_file().string() + " for the next start");
  EXPECT_EQ(fs::status(kept()).permissions(), fs::perms::owner_all);
  for (const auto& [how, begins] :
       {std::pair("auto", "read from "), {"read", "read from "}, {"mmap", "mapped from "}}) {
    const Said again = ask(loaded_by(how));
    EXPECT_EQ(again, plain) << how;
    EXPECT_TRUE(again.weights.starts_with(begins + only_file().string())) << again.weights;
  }
}

TEST_F(EngineWithPackedWeights, ACheckpointThatWasWrittenToIsPackedAnewWhateverItsTimeStampSays) {
  keep();
  const Said before = ask();
  const auto weights = model() / "model.safetensors";
  const auto time = fs::last_write_time(weights);
  std::uint64_t offset = 0;
  {  // a byte that no sample of the tensors holds
    const auto file = SafetensorsFile::open(weights).value();
    const Tensor& tensor = *file.find("model.layers.0.mlp.down_proj.weight");
    ASSERT_GT(tensor.data.size(), 4 * 4096u + 3 * 100u);
    offset = static_cast<std::uint64_t>(tensor.data.data() - file.tensors().front().data.data()) + 4096 + 51;
  }
  const std::string bytes = testing::read_file(weights);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  fs::permissions(weights, fs::perms::owner_write, fs::perm_options::add);
  {
    std::fstream file(weights, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(8 + header + offset));
    file.put(static_cast<char>(bytes[8 + header + offset] ^ 0x40));
  }
  fs::last_write_time(weights, time);
  ASSERT_EQ(fs::file_size(weights), bytes.size());
  EngineOptions plain = options;
  plain.packed_weights_dir.clear();
  const Said wanted = ask(plain);
  EXPECT_NE(wanted.logprobs, before.logprobs);
  const Said said = ask();
  EXPECT_EQ(said, wanted);
  EXPECT_TRUE(said.weights.starts_with("packed, and kept in " + only_file().string())) << said.weights;
  EXPECT_EQ(ask(loaded_by("mmap")), wanted);
}

TEST_F(EngineWithPackedWeights, ACheckpointThatTookThePlaceOfAnotherIsPackedAnew) {
  keep();
  ask();
  const auto weights = model() / "model.safetensors", copy = model() / "copy";
  fs::copy_file(weights, copy);
  fs::last_write_time(copy, fs::last_write_time(weights));
  fs::rename(copy, weights);
  EXPECT_TRUE(ask().weights.starts_with("packed"));
  EXPECT_TRUE(ask().weights.starts_with("read"));
}

TEST_F(EngineWithPackedWeights, AFileThatIsCutOrDamagedIsMadeAnew) {
  keep();
  const Said wanted = ask();
  const auto file = only_file();
  const std::string whole = testing::read_file(file);
  for (const bool cut : {true, false}) {
    std::string bytes = whole;
    if (cut)
      bytes.resize(bytes.size() / 3);
    else
      bytes[bytes.size() / 2] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
    const Said said = ask();
    EXPECT_EQ(said, wanted);
    EXPECT_TRUE(said.weights.starts_with("packed, and kept")) << said.weights;
    EXPECT_EQ(testing::read_file(only_file()), whole);
  }
}

TEST_F(EngineWithPackedWeights, AFolderThatCannotBeHadIsNoReasonNotToStart) {
  const Said wanted = ask();
  std::ofstream(folder.path() / "file") << "text";
  options.packed_weights_dir = (folder.path() / "file" / "sub").string();
  const Said said = ask();
  EXPECT_EQ(said, wanted);
  EXPECT_EQ(said.weights, "packed");
  fs::create_directory(folder.path() / "open");
  fs::permissions(folder.path() / "open", fs::perms::all);
  options.packed_weights_dir = (folder.path() / "open").string();
  EXPECT_EQ(ask(), wanted);
  EXPECT_TRUE(fs::is_empty(folder.path() / "open")) << "others could have put weights there";
}

TEST_F(EngineWithPackedWeights, TwoThatStartAtOnceDoNotDisturbEachOther) {
  const Said wanted = ask();
  keep();
  std::array<Said, 4> said;
  std::vector<std::thread> starts;
  for (Said& one : said) starts.emplace_back([&] { one = ask(loaded_by("mmap")); });
  for (auto& start : starts) start.join();
  for (const Said& one : said) EXPECT_EQ(one, wanted);
  const Said mapped = ask(loaded_by("mmap"));
  EXPECT_EQ(mapped, wanted);
  EXPECT_TRUE(mapped.weights.starts_with("mapped from " + only_file().string()));
}

TEST_F(EngineWithPackedWeights, DummyWeightsAreNotKept) {
  keep();
  options.load_format = "dummy";
  EXPECT_EQ(ask().weights, "");
  EXPECT_FALSE(fs::exists(kept()));
}

TEST_F(EngineWithPackedWeights, AnUnknownWayToLoadThemIsRefused) {
  options.packed_weights_load = "fast";
  const auto refused = options.check();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "--packed-weights-load is fast, but it must be auto, mmap or read");
}

TEST_F(EngineWithPackedWeights, ACopyIsNotMadeWhereItWouldTakeMostOfTheMemory) {
  keep();
  ask();
  const auto files = open_model_files(options).value();
  MemoryRoom room;
  room.pages = 64 << 20;
  EXPECT_EQ(PackedCache::open(options, files, room).mapped_bytes(), 0);
  room.pages = 100;
  EXPECT_GT(PackedCache::open(options, files, room).mapped_bytes(), 100);
  EXPECT_EQ(PackedCache::open(loaded_by("read"), files, room).mapped_bytes(), 0) << "insisted on";
}

}  // namespace
}  // namespace espalier::packed_cache_test
