// Packed matrices out of a file give the bits that packing gives; what is cut, damaged, foreign or open to others is
// refused, and what it lacked is packed.
#include "model/weights/packed_weights.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <random>
#include <thread>

#include "base/fingerprint.h"
#include "model/config/gguf_config.h"
#include "model/config/hf_config.h"
#include "model/small_pool.h"
#include "tensor/file/gguf.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/temp_folder.h"

namespace espalier::packed_weights_test {
namespace {

namespace fs = std::filesystem;
using Access = PackedWeights::Access;

struct OpenedModel {
  std::unique_ptr<TensorFile> file;
  Naming naming = Naming::hf;
  ModelSpec spec;

  static std::unique_ptr<OpenedModel> open(const fs::path& path) {
    auto model = std::make_unique<OpenedModel>();
    if (path.extension() == ".gguf") {
      auto gguf = GgufFile::open(path);
      model->spec = read_gguf_config(*gguf).value().spec;
      model->file = std::make_unique<GgufFile>(std::move(gguf).value());
      model->naming = Naming::gguf;
    } else {
      model->file = std::make_unique<SafetensorsFile>(SafetensorsFile::open_folder(path).value());
      model->spec = load_hf_config(path).value().spec;
    }
    return model;
  }
  std::unique_ptr<Decoder> load(ComputeTeam& team, const PackedWeights* packed = nullptr) const {
    const Weights weights(*file, naming, packed);
    return Decoder::load(spec, weights, {Activations::int8, 64}, team).value();
  }
};

std::vector<float> logits_of(Decoder& decoder) {
  testing::SmallPool pool(decoder.keeps(), KvType::bf16, 64);
  std::vector<TokenId> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back((7919 * i + 13) % decoder.vocabulary());
  return testing::all_logits(decoder, pool, tokens, 64);
}

class EachStoredModel : public ::testing::TestWithParam<const char*> {};

TEST_P(EachStoredModel, ComesOutOfTheFileWithTheSameBits) {
  const auto path = testing::golden(GetParam());
  if (path.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  const auto model = OpenedModel::open(path);
  ComputeTeam team(2);
  const auto decoder = model->load(team);
  const auto expected = logits_of(*decoder);
  testing::TempFolder folder;
  const auto file = folder.path() / "packed";
  std::uint64_t said = 0;
  ASSERT_TRUE(
      PackedWeights::write(file, "key", decoder->matrices(), team, [&](std::uint64_t done, std::uint64_t total) {
        EXPECT_LE(said, done);
        EXPECT_LE(done, total);
        said = done;
      }).ok());
  for (const Access access : {Access::map, Access::read}) {
    auto packed = PackedWeights::open(file, "key");
    ASSERT_TRUE(packed.ok()) << packed.error().message;
    packed->choose(access);
    EXPECT_EQ(packed->bytes(), said);
    const auto again = model->load(team, &*packed);
    EXPECT_TRUE(packed->complete());
    EXPECT_EQ(logits_of(*again), expected);
    const auto want = decoder->matrices(), got = again->matrices();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].name, want[i].name);
      EXPECT_TRUE(std::ranges::equal(got[i].matrix->memory(), want[i].matrix->memory())) << want[i].name;
      EXPECT_NE(got[i].matrix->memory().data(), want[i].matrix->memory().data());
    }
    EXPECT_EQ(again->weight_bytes(), decoder->weight_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachStoredModel,
                         ::testing::Values("models/llama3-tied-gqa", "models/llama2-untied-mha", "models/qwen2-tied",
                                           "gguf/gguf-smollm2/gguf-smollm2-Q8_0.gguf",
                                           "gguf/gguf-llama3/gguf-llama3-Q5_K.gguf",
                                           "gguf/gguf-qwen2/gguf-qwen2-MIX_Q4_K_M.gguf"));

class PackedFile : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto path = testing::data("goldens/models/llama2-untied-mha");
    model_ = OpenedModel::open(path);
    decoder_ = model_->load(team_);
    ASSERT_TRUE(PackedWeights::write(file(), "key", decoder_->matrices(), team_).ok());
    whole_ = testing::read_file(file());
  }
  fs::path file() const { return folder_.path() / "packed"; }
  void put(const std::string& bytes) const { std::ofstream(file(), std::ios::binary) << bytes; }
  Error::Kind refusal(std::string_view key = "key") const {
    const auto opened = PackedWeights::open(file(), key);
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? Error::Kind::internal : opened.error().kind;
  }
  std::size_t head_bytes() const { return whole_.size() - bytes_of_panels(); }
  std::size_t bytes_of_panels() const {  // and what lies between them
    std::size_t sum = 0;
    for (const NamedMatrix& named : decoder_->matrices()) sum += (named.matrix->bytes() + 4095) / 4096 * 4096;
    return sum;
  }

  testing::TempFolder folder_;
  ComputeTeam team_{2};
  std::unique_ptr<OpenedModel> model_;
  std::unique_ptr<Decoder> decoder_;
  std::string whole_;
};

// Whoever changes which tensors lie side by side, in which order their rows are packed, or a panel's layout, changes
// what stands in files that this program's predecessors wrote: raise kPackedWeightsVersion and take over the new value.
TEST_F(PackedFile, HoldsWhatItsVersionSays) {
  Fingerprint print;
  for (const auto& [name, matrix] : decoder_->matrices()) {
    print.add(name);
    print.add(matrix->memory());
  }
  const auto gguf = testing::data("goldens/gguf/gguf-smollm2/gguf-smollm2-Q8_0.gguf");
  if (fs::exists(gguf)) {
    const auto interleaved = OpenedModel::open(gguf);
    const auto decoder = interleaved->load(team_);
    for (const auto& [name, matrix] : decoder->matrices()) {
      print.add(name);
      print.add(matrix->memory());
    }
  }
  EXPECT_EQ(fmt::format("{} {}", kPackedWeightsVersion, print.text()), "2 3b7e3a9af84229a7");
}

TEST_F(PackedFile, OfAnotherKeyIsNotServed) {
  EXPECT_EQ(refusal("key of a checkpoint that was written to"), Error::Kind::unsupported);
}

TEST_F(PackedFile, ThatIsMissingCutOrNothingOfTheKindIsRefused) {
  std::mt19937_64 rng(testing::seed());
  for (std::size_t size : {std::size_t{0}, std::size_t{3}, head_bytes() / 2, head_bytes(), whole_.size() / 2,
                           static_cast<std::size_t>(rng() % (whole_.size() - 4096))}) {
    put(whole_.substr(0, size));
    EXPECT_EQ(refusal(), Error::Kind::bad_file) << size;
  }
  put(std::string(100'000, 'x'));
  EXPECT_EQ(refusal(), Error::Kind::bad_file);
  fs::copy_file(testing::data("goldens/gguf/gguf-smollm2/gguf-smollm2-Q8_0.gguf"), file(),
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(refusal(), Error::Kind::bad_file) << "a model";
  fs::remove(file());
  EXPECT_EQ(refusal(), Error::Kind::not_found);
}

TEST_F(PackedFile, WithAnyByteOfItsHeadChangedIsRefusedOrTheSame) {
  std::mt19937_64 rng(testing::seed());
  const long tries = testing::operations(300, 20'000);
  for (long i = 0; i < tries; ++i) {
    std::string changed = whole_;
    const std::size_t at = rng() % head_bytes();
    changed[at] = static_cast<char>(changed[at] ^ (1 << rng() % 8));
    put(changed);
    auto opened = PackedWeights::open(file(), "key");
    if (!opened.ok()) continue;
    for (const auto& [name, matrix] : decoder_->matrices()) {
      const auto found = opened->find(name, matrix->type(), matrix->outputs(), matrix->k(), team_);
      ASSERT_TRUE(found) << "byte " << at;
      EXPECT_TRUE(std::ranges::equal(found->memory(), matrix->memory())) << "byte " << at;
    }
  }
}

TEST_F(PackedFile, WithDamagedPanelsIsReadUpToThemAndTheRestIsPacked) {
  const auto expected = logits_of(*decoder_);
  std::string changed = whole_;
  changed[head_bytes() + bytes_of_panels() / 2] ^= 4;
  put(changed);
  auto packed = PackedWeights::open(file(), "key");
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(logits_of(*model_->load(team_, &*packed)), expected);
  EXPECT_TRUE(packed->damaged());
  EXPECT_FALSE(packed->complete());
}

TEST_F(PackedFile, HasOnlyMatricesOfTheNameTypeAndShapeThatWereWritten) {
  auto packed = PackedWeights::open(file(), "key");
  ASSERT_TRUE(packed.ok());
  const auto [name, matrix] = decoder_->matrices()[1];
  const DType other = matrix->type() == DType::f32 ? DType::bf16 : DType::f32;
  EXPECT_TRUE(packed->find(name, matrix->type(), matrix->outputs(), matrix->k(), team_));
  EXPECT_TRUE(packed->complete());
  EXPECT_FALSE(packed->find(name, other, matrix->outputs(), matrix->k(), team_));
  EXPECT_FALSE(packed->find(name, matrix->type(), matrix->outputs() - 1, matrix->k(), team_));
  EXPECT_FALSE(packed->find(name + "x", matrix->type(), matrix->outputs(), matrix->k(), team_));
  EXPECT_FALSE(packed->complete());
  EXPECT_FALSE(packed->damaged());
}

TEST_F(PackedFile, ThatOthersMayWriteToIsRefused) {
  EXPECT_EQ(fs::status(file()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  fs::permissions(file(), fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(refusal(), Error::Kind::bad_file);
  fs::permissions(file(), fs::perms::others_write, fs::perm_options::remove);
  fs::permissions(folder_.path(), fs::perms::group_write, fs::perm_options::add);
  EXPECT_EQ(refusal(), Error::Kind::bad_file);
  EXPECT_FALSE(PackedWeights::write(file(), "key", decoder_->matrices(), team_).ok());
}

TEST_F(PackedFile, IsAlwaysWholeWhileOthersWriteIt) {
  std::atomic<bool> stop{false};
  auto write = [&] {
    ComputeTeam team(1);
    while (!stop) EXPECT_TRUE(PackedWeights::write(file(), "key", decoder_->matrices(), team).ok());
  };
  std::thread first(write), second(write);
  const auto matrices = decoder_->matrices();
  for (int i = 0; i < 30; ++i) {
    auto packed = PackedWeights::open(file(), "key");
    if (!packed.ok()) {  // its name went to another between two looks at it
      EXPECT_NE(packed.error().message.find("replaced"), std::string::npos) << packed.error().message;
      continue;
    }
    for (const auto& [name, matrix] : matrices) {
      const auto found = packed->find(name, matrix->type(), matrix->outputs(), matrix->k(), team_);
      ASSERT_TRUE(found);
      EXPECT_TRUE(std::ranges::equal(found->memory(), matrix->memory()));
    }
  }
  stop = true;
  first.join();
  second.join();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(PackedFile, StaysAsItWasWhenThereIsNoRoomForANewOne) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit less{whole_.size() / 2, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &less);
  const auto written = PackedWeights::write(file(), "another key", decoder_->matrices(), team_);
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, Error::Kind::unavailable);
  EXPECT_TRUE(PackedWeights::open(file(), "key").ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace espalier::packed_weights_test
