// Whole pulls from a hub's double over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "store/hub/hub_cache.h"
#include "store/hub/hub_double.h"
#include "store/store.h"
#include "store/subprocess.h"
#include "testing/data.h"

namespace espalier::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

std::string sharded_index() {
  return R"({"metadata":{"total_size":1},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})";
}

HubDouble::Repository safetensors_repository() {
  HubDouble::Repository repository;
  repository.files = {{"config.json", "{}"},
                      {"tokenizer.json", noise(20'000, 1)},
                      {"tokenizer_config.json", "{\"a\":1}"},
                      {"generation_config.json", "{\"b\":1}"},
                      {"README.md", "not needed"},
                      {"pytorch_model.bin", noise(1000, 2)},
                      {"onnx/model.safetensors", noise(1000, 3)},
                      {"model.safetensors.index.json", sharded_index()},
                      {"model-00001-of-00002.safetensors", noise(300'000, 4)},
                      {"model-00002-of-00002.safetensors", noise(200'000, 5)}};
  return repository;
}

class Recorder : public Progress {
 public:
  void on(const ProgressEvent& event) override {
    stages.push_back(event.stage);
    EXPECT_TRUE(event.total == 0 || event.done <= event.total) << event.done << " of " << event.total;
    last_done = event.done;
    last_total = event.total;
  }
  std::vector<ProgressEvent::Stage> stages;
  std::uint64_t last_done = 0, last_total = 0;
};

class HubPull : public ::testing::Test {
 protected:
  HubPull() {
    hub.repositories["org/whole"] = safetensors_repository();
    auto& gguf = hub.repositories["org/ggufs"];
    gguf.commit = std::string(40, 'b');
    gguf.files = {{"m-Q4_K_M.gguf", "GGUF" + noise(50'000, 6)},
                  {"m-Q8_0.gguf", "GGUF" + noise(60'000, 7)},
                  {"mmproj-m-f16.gguf", "GGUF" + noise(100, 8)},
                  {"BF16/m-BF16-00001-of-00002.gguf", "GGUF" + noise(1000, 9)},
                  {"BF16/m-BF16-00002-of-00002.gguf", "GGUF" + noise(900, 10)}};
  }
  Store store() { return Store(hub.settings(folder.path())); }
  Result<Model> pull(const std::string& name) { return store().pull(name, progress); }
  fs::path repository_folder() const { return folder.path() / "hub" / "models--org--whole"; }

  void expect_file(const fs::path& path, const std::string& content) {
    EXPECT_EQ(testing::read_file(path) == content, true) << path << " differs";
  }

  TemporaryFolder folder;
  HubDouble hub;
  Recorder progress;
};

TEST_F(HubPull, FetchesWhatAModelNeedsInTheSharedLayout) {
  auto model = pull("org/whole");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->form, ModelForm::directory);
  EXPECT_EQ(model->revision, std::string(40, 'a'));
  const auto& files = hub.repositories["org/whole"].files;
  for (const char* path :
       {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json",
        "model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    expect_file(model->path / path, files.at(path));
    EXPECT_TRUE(fs::is_symlink(model->path / path));
    EXPECT_TRUE(fs::read_symlink(model->path / path).is_relative());
  }
  for (const char* path : {"README.md", "pytorch_model.bin", "onnx"})
    EXPECT_FALSE(fs::exists(model->path / path)) << path;
  EXPECT_EQ(model->path, repository_folder() / "snapshots" / std::string(40, 'a'));
  EXPECT_EQ(testing::read_file(repository_folder() / "refs" / "main"), std::string(40, 'a'));
  EXPECT_TRUE(fs::exists(repository_folder() / "blobs" /
                         hash_of(DigestKind::sha256, files.at("model-00001-of-00002.safetensors"))));
  EXPECT_TRUE(fs::exists(repository_folder() / "blobs" / hash_of(DigestKind::git_blob, "{}")));
  EXPECT_EQ(progress.stages.back(), ProgressEvent::Stage::ready);
  EXPECT_EQ(progress.last_done, progress.last_total);
  EXPECT_EQ(hub.leaked_credentials, 0);
}

TEST_F(HubPull, ASecondPullFetchesNothingAndFindNeedsNoHub) {
  ASSERT_TRUE(pull("org/whole").ok());
  const int before = hub.file_requests;
  ASSERT_TRUE(pull("org/whole").ok());
  EXPECT_EQ(hub.file_requests, before);

  Settings settings = hub.settings(folder.path());
  settings.endpoint = "http://127.0.0.1:1";
  auto found = Store(settings).resolve("org/whole", progress);
  ASSERT_TRUE(found.ok()) << found.error().message;
  settings.offline = true;
  EXPECT_TRUE(Store(settings).pull("org/whole", progress).ok());
}

TEST_F(HubPull, EveryFormOfFileListLeadsToTheSameFiles) {
  for (auto [sizes, siblings, redirects] :
       {std::tuple{false, true, false}, {false, true, true}, {true, false, false}}) {
    TemporaryFolder other;
    hub.lists_sizes = sizes;
    hub.lists_siblings = siblings;
    hub.small_files_redirect = redirects;
    auto model = Store(hub.settings(other.path())).pull("org/whole", progress);
    ASSERT_TRUE(model.ok()) << model.error().message;
    for (const char* path : {"config.json", "model-00002-of-00002.safetensors"})
      expect_file(model->path / path, hub.repositories["org/whole"].files.at(path));
  }
}

TEST_F(HubPull, AQuantisationChoosesOneGgufAndAllItsParts) {
  auto q8 = pull("org/ggufs:q8_0");
  ASSERT_TRUE(q8.ok()) << q8.error().message;
  EXPECT_EQ(q8->form, ModelForm::gguf);
  EXPECT_EQ(q8->path.filename(), "m-Q8_0.gguf");
  auto usual = pull("org/ggufs");
  ASSERT_TRUE(usual.ok()) << usual.error().message;
  EXPECT_EQ(usual->path.filename(), "m-Q4_K_M.gguf");
  auto split = pull("org/ggufs:bf16@" + std::string(40, 'b'));
  ASSERT_TRUE(split.ok()) << split.error().message;
  EXPECT_EQ(split->path.filename(), "m-BF16-00001-of-00002.gguf");
  EXPECT_TRUE(fs::exists(split->path.parent_path() / "m-BF16-00002-of-00002.gguf"));
  // The tower comes with it.
  EXPECT_TRUE(fs::exists(split->path.parent_path().parent_path() / "mmproj-m-f16.gguf"));

  auto listed = store().list();
  ASSERT_TRUE(listed.ok());
  std::vector<std::string> names;
  for (const CachedModel& model : *listed) {
    names.push_back(model.name);
    auto found = store().find(model.name);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(found->path, model.path);
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("org/ggufs:Q8_0", "org/ggufs:Q4_K_M", "org/ggufs:BF16"));

  auto wrong = pull("org/ggufs:Q2_K");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().kind, Error::Kind::not_found);
  EXPECT_THAT(wrong.error().message, HasSubstr("m-Q8_0.gguf"));
}

TEST_F(HubPull, ACutConnectionIsContinuedWhereItBroke) {
  hub.cut_after["model-00001-of-00002.safetensors"] = 70'000;
  auto model = pull("org/whole");
  ASSERT_TRUE(model.ok()) << model.error().message;
  std::uint64_t needed = 0;
  for (const auto& [path, content] : hub.repositories["org/whole"].files)
    if (fs::exists(model->path / path)) needed += content.size();
  EXPECT_EQ(hub.bytes_served, needed);  // not a byte twice
}

TEST_F(HubPull, AnEndedProcessesPartIsContinued) {
  const std::string& content = hub.repositories["org/whole"].files["model-00001-of-00002.safetensors"];
  const fs::path blob = repository_folder() / "blobs" / hash_of(DigestKind::sha256, content);
  write_text(blob.string() + ".incomplete", content.substr(0, 250'000));
  auto model = pull("org/whole");
  ASSERT_TRUE(model.ok()) << model.error().message;
  expect_file(model->path / "model-00001-of-00002.safetensors", content);
  EXPECT_LT(hub.bytes_served, 300'000u);
  EXPECT_FALSE(fs::exists(blob.string() + ".incomplete"));
}

TEST_F(HubPull, APartWithOtherBytesIsThrownAwayAndFetchedAnew) {
  const std::string& content = hub.repositories["org/whole"].files["model-00001-of-00002.safetensors"];
  const fs::path blob = repository_folder() / "blobs" / hash_of(DigestKind::sha256, content);
  for (std::size_t part : {std::size_t{100'000}, content.size(), content.size() + 50}) {
    fs::remove_all(folder.path() / "hub");
    write_text(blob.string() + ".incomplete", std::string(part, '\0'));
    auto model = pull("org/whole");
    ASSERT_TRUE(model.ok()) << model.error().message;
    expect_file(model->path / "model-00001-of-00002.safetensors", content);
  }
}

TEST_F(HubPull, AServerThatIgnoresRangesIsStillRightAfterACut) {
  hub.cdn_ranges = false;
  const std::string& content = hub.repositories["org/whole"].files["model-00001-of-00002.safetensors"];
  write_text((repository_folder() / "blobs" / hash_of(DigestKind::sha256, content)).string() + ".incomplete",
             content.substr(0, 1000));
  auto model = pull("org/whole");
  ASSERT_TRUE(model.ok()) << model.error().message;
  expect_file(model->path / "model-00001-of-00002.safetensors", content);
}

TEST_F(HubPull, WrongContentIsNeverGivenAName) {
  hub.corrupt = {"model-00002-of-00002.safetensors"};
  auto model = pull("org/whole");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().kind, Error::Kind::network);
  EXPECT_THAT(model.error().message, HasSubstr("another hash"));
  EXPECT_FALSE(fs::exists(repository_folder() / "refs" / "main"));
  EXPECT_FALSE(store().find("org/whole").ok());
  hub.corrupt.clear();
  EXPECT_TRUE(pull("org/whole").ok());
}

TEST_F(HubPull, MoreBytesThanStatedAreNotTaken) {
  for (const char* path : {"config.json", "model-00002-of-00002.safetensors"}) {
    hub.too_long = {path};
    auto model = pull("org/whole");
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().kind, Error::Kind::bad_file);
    EXPECT_THAT(model.error().message, HasSubstr("more than the stated"));
  }
}

TEST_F(HubPull, ABusyHubIsAskedAgain) {
  hub.failures_before_success = 2;
  auto model = pull("org/whole");
  ASSERT_TRUE(model.ok()) << model.error().message;
}

TEST_F(HubPull, TheTokenGoesToTheHubAloneAndIntoNoMessage) {
  hub.repositories["org/whole"].gated = true;
  hub.token = "hf_very_secret";
  auto refused = pull("org/whole");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, Error::Kind::unauthorized);
  EXPECT_THAT(refused.error().message, HasSubstr("HF_TOKEN"));

  Settings settings = hub.settings(folder.path());
  settings.token = "hf_wrong";
  auto wrong = Store(settings).pull("org/whole", progress);
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().message, Not(HasSubstr("hf_wrong")));

  settings.token = hub.token;
  auto model = Store(settings).pull("org/whole", progress);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(hub.leaked_credentials, 0);
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    EXPECT_THAT(entry.is_regular_file() ? testing::read_file(entry.path()) : "", Not(HasSubstr("hf_very_secret")));
}

TEST_F(HubPull, WhatIsNotThereIsSaidPlainly) {
  auto unknown = pull("org/nothing");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message, HasSubstr("org/nothing"));
  EXPECT_THAT(unknown.error().message, HasSubstr("HF_TOKEN"));
  auto revision = pull("org/whole@v9");
  ASSERT_FALSE(revision.ok());
  EXPECT_EQ(revision.error().kind, Error::Kind::not_found);
  EXPECT_THAT(revision.error().message, HasSubstr("v9"));
  EXPECT_EQ(revision.error().exit_code(), 3);

  hub.repositories["org/pickled"].files = {{"config.json", "{}"}, {"pytorch_model.bin", "x"}};
  auto pickled = pull("org/pickled");
  ASSERT_FALSE(pickled.ok());
  EXPECT_THAT(pickled.error().message, HasSubstr("safetensors"));
}

TEST_F(HubPull, AnUnreachableHubAndAnOfflineOneAreClearErrors) {
  Settings settings = hub.settings(folder.path());
  settings.endpoint = "http://127.0.0.1:1";
  auto unreachable = Store(settings).resolve("org/whole", progress);
  ASSERT_FALSE(unreachable.ok());
  EXPECT_EQ(unreachable.error().kind, Error::Kind::network);
  EXPECT_EQ(unreachable.error().exit_code(), 6);
  EXPECT_THAT(unreachable.error().message, HasSubstr("127.0.0.1:1"));

  settings = hub.settings(folder.path());
  settings.offline = true;
  const auto asked = hub.hub_requests().size();
  auto offline = Store(settings).resolve("org/whole", progress);
  ASSERT_FALSE(offline.ok());
  EXPECT_EQ(offline.error().kind, Error::Kind::not_found);
  EXPECT_THAT(offline.error().message, HasSubstr("HF_HUB_OFFLINE"));
  EXPECT_EQ(hub.hub_requests().size(), asked);
}

TEST_F(HubPull, HostileListsAndIndicesStayInsideTheCache) {
  auto& files = hub.repositories["org/whole"].files;
  files["../../escape.safetensors"] = "x";
  files["/abs.safetensors"] = "x";
  files.erase("model.safetensors.index.json");
  auto model = pull("org/whole");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_FALSE(fs::exists(folder.path() / "hub" / "models--org--whole" / "escape.safetensors"));

  for (const char* index :
       {R"({"weight_map":{"a":"../../../x.safetensors"}})", R"({"weight_map":{"a":"sub/x.safetensors"}})",
        R"({"weight_map":{"a":7}})", R"({"weight_map":[]})", R"({"weight_map":{}})", "[]", "{",
        R"({"weight_map":{"a":"missing.safetensors"}})"}) {
    files["model.safetensors.index.json"] = index;
    auto bad = pull("org/whole");
    ASSERT_FALSE(bad.ok()) << index;
    EXPECT_EQ(bad.error().kind, Error::Kind::bad_file) << bad.error().message;
  }
}

TEST_F(HubPull, GarbageFromAHubIsANetworkError) {
  for (const char* body :
       {"", "null", "[]", "{}", R"({"sha":"../../etc"})", R"({"sha":7,"siblings":7})", "<html>login</html>"}) {
    testing::HttpDouble server([&](const testing::HttpDoubleRequest&) {
      testing::HttpDoubleReply reply;
      reply.body = body;
      return reply;
    });
    Settings settings = hub.settings(folder.path());
    settings.endpoint = server.url();
    auto model = Store(settings).pull("org/whole", progress);
    ASSERT_FALSE(model.ok()) << body;
    EXPECT_EQ(model.error().kind, Error::Kind::network) << model.error().message;
  }
}

TEST_F(HubPull, AHubWhoseCertificateNobodyVouchesForIsRefused) {
  const std::string key = folder.path() / "key.pem", certificate = folder.path() / "certificate.pem";
  Command make;
  make.arguments = {
      "openssl", "req", "-x509", "-newkey",   "rsa:2048", "-nodes",  "-days",   "2",
      "-keyout", key,   "-out",  certificate, "-subj",    "/CN=hub", "-addext", "subjectAltName=IP:127.0.0.1"};
  if (auto made = run_command(make); !made.ok() || made->exit_code != 0) GTEST_SKIP() << "left out: no openssl command";
  const int port = [] {  // free a moment ago
    const testing::HttpDouble probe([](const auto&) { return testing::HttpDoubleReply(); });
    return probe.port();
  }();
  std::jthread server([&](const std::stop_token& stop) {
    Command serve;
    serve.arguments = {"openssl", "s_server", "-accept", std::to_string(port), "-cert", certificate,
                       "-key",    key,        "-www"};
    serve.stop = stop;
    EXPECT_EQ(run_command(serve).error().kind, Error::Kind::cancelled);
  });
  Settings settings = hub.settings(folder.path());
  settings.endpoint = fmt::format("https://127.0.0.1:{}", port);
  const auto pull_message = [&] { return Store(settings).pull("org/whole", progress).error().message; };
  std::string message = pull_message();
  for (int i = 0; i < 200 && message.find("nothing answers") != std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    message = pull_message();
  }
  EXPECT_THAT(message, HasSubstr("not trusted"));
  EXPECT_THAT(message, HasSubstr("SSL_CERT_FILE"));

  const char* before = std::getenv("SSL_CERT_FILE");
  const std::string kept = before ? before : "";
  ::setenv("SSL_CERT_FILE", certificate.c_str(), 1);
  message = pull_message();
  before ? ::setenv("SSL_CERT_FILE", kept.c_str(), 1) : ::unsetenv("SSL_CERT_FILE");
  EXPECT_THAT(message, HasSubstr("in a form that no hub has"));  // trusted now; it speaks HTML
}

TEST_F(HubPull, ManyPullersOfOneModelFetchItOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&] {
      NoProgress quiet;
      good += store().pull("org/whole", quiet).ok();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 6);
  EXPECT_EQ(hub.file_requests, 7);
}

TEST_F(HubPull, AStoppedPullKeepsWhatCameForTheNext) {
  hub.pause = std::chrono::milliseconds(30);
  hub.repositories["org/whole"].files["model-00001-of-00002.safetensors"] = noise(3'000'000, 11);
  std::stop_source source;
  struct Stopper : Progress {
    std::stop_source& source;
    explicit Stopper(std::stop_source& s) : source(s) {}
    void on(const ProgressEvent& event) override {
      if (event.done > 500'000) source.request_stop();
    }
  } stopper(source);
  auto stopped = store().pull("org/whole", stopper, source.get_token());
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, Error::Kind::cancelled);
  EXPECT_FALSE(store().find("org/whole").ok());

  hub.pause = std::chrono::milliseconds(0);
  hub.bytes_served = 0;
  auto model = pull("org/whole");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_LT(hub.bytes_served, 2'900'000u);
}

TEST_F(HubPull, ANewCommitReplacesTheBranchAndSharesWhatIsTheSame) {
  ASSERT_TRUE(pull("org/whole").ok());
  auto& repository = hub.repositories["org/whole"];
  repository.commit = std::string(40, 'c');
  repository.files["config.json"] = "{\"new\":1}";
  const int before = hub.file_requests;
  auto model = pull("org/whole");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(hub.file_requests, before + 1);
  EXPECT_EQ(testing::read_file(model->path / "config.json"), "{\"new\":1}");
  EXPECT_TRUE(store().find("org/whole@" + std::string(40, 'a')).ok());
  EXPECT_EQ(store().find("org/whole")->revision, std::string(40, 'c'));
}

}  // namespace
}  // namespace espalier::store
