#include "store/hub/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/disk.h"

namespace espalier::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostEntries = 200'000;  // files looked at in one cache
constexpr std::uint64_t kMostIndexBytes = 64 << 20;
constexpr std::string_view kPrefix = "models--";

std::string folder_name(std::string repository) {
  const auto slash = repository.find('/');
  return std::string(kPrefix) + repository.replace(slash, 1, "--");
}

// "models--org--name" -> "org/name"; empty for any other folder.
std::string repository_name(std::string folder) {
  if (!folder.starts_with(kPrefix)) return {};
  folder.erase(0, kPrefix.size());
  if (const auto dashes = folder.find("--"); dashes != std::string::npos) folder.replace(dashes, 2, "/");
  return folder;
}

// What is really there below `folder`: a link whose blob is gone does not count.
std::vector<HubFile> files_below(const fs::path& folder) {
  std::vector<HubFile> files;
  std::error_code code;
  for (fs::recursive_directory_iterator entry(folder, code), end; !code && entry != end && files.size() < kMostEntries;
       entry.increment(code)) {
    std::error_code gone;
    if (!entry->is_regular_file(gone)) continue;
    HubFile file{.path = entry->path().lexically_relative(folder).generic_string()};
    const auto bytes = entry->file_size(gone);
    if (gone) continue;
    file.bytes = bytes;
    files.push_back(std::move(file));
  }
  return files;
}

// What a model needs of the files in a snapshot, its index read; fails when anything is missing.
Result<HubChoice> choose_whole(const fs::path& folder, const std::vector<HubFile>& files, std::string_view quant) {
  ESP_TRY(HubChoice choice, choose_files(files, quant));
  if (choice.index.empty()) return choice;
  ESP_TRY(const std::string index, read_small_file(folder / choice.index, kMostIndexBytes));
  return choose_files(files, quant, index);
}

template <class F>
void each_folder(const fs::path& folder, F&& work) {
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code))
    if (std::error_code gone; entry->is_directory(gone)) work(entry->path());
}

}  // namespace

const std::string& blob_name(const HubFile& file) {
  return file.sha256.empty() ? file.git_sha1 : file.sha256;
}

fs::path HubCache::repository(const std::string& repository) const {
  return root_ / folder_name(repository);
}

fs::path HubCache::blob(const std::string& name, const HubFile& file) const {
  return repository(name) / "blobs" / blob_name(file);
}

fs::path HubCache::lock(const std::string& name, const HubFile& file) const {
  return root_ / ".locks" / folder_name(name) / (blob_name(file) + ".lock");
}

fs::path HubCache::snapshot(const std::string& name, const std::string& commit) const {
  return repository(name) / "snapshots" / commit;
}

std::optional<std::string> HubCache::commit_of(const HubName& name) const {
  if (is_commit(name.revision)) return name.revision;
  auto text = read_small_file(repository(name.repository) / "refs" / name.revision, 4096);
  if (!text.ok()) return std::nullopt;
  while (!text->empty() && static_cast<unsigned char>(text->back()) <= ' ') text->pop_back();
  return is_commit(*text) ? std::optional(*text) : std::nullopt;
}

Result<> HubCache::add_to_snapshot(const std::string& name, const std::string& commit, const HubFile& file) const {
  const fs::path link = snapshot(name, commit) / file.path;
  std::error_code code;
  if (fs::equivalent(link, blob(name, file), code)) return success();
  return link_or_copy(blob(name, file).lexically_relative(link.parent_path()), link);
}

Result<> HubCache::write_ref(const HubName& name, const std::string& commit) const {
  if (is_commit(name.revision)) return success();
  return write_whole_file(repository(name.repository) / "refs" / name.revision, commit);
}

Result<Model> HubCache::find(const std::string& given_name, const HubName& name) const {
  const auto missing = [&](std::string_view why) {
    return Error{Error::Kind::not_found,
                 fmt::format("{} is not in the cache {} ({}); `espalier pull {}` fetches it", given_name,
                             root_.string(), why, given_name),
                 "model", "model_not_found"};
  };
  const auto commit = commit_of(name);
  if (!commit) return missing("nothing of it is there");
  const fs::path folder = snapshot(name.repository, *commit);
  const auto choice = choose_whole(folder, files_below(folder), name.quant);
  if (!choice.ok()) return missing(choice.error().message);
  if (!choice->main.empty()) return Model{given_name, ModelForm::gguf, folder / choice->main, *commit};
  return Model{given_name, ModelForm::directory, folder, *commit};
}

// A short word that names this GGUF and no other of the repository: the end of its file name, else all of it.
std::string quant_of(const std::vector<HubFile>& files, const HubChoice& gguf) {
  const std::string stem = fs::path(gguf.name).stem().string();
  const std::string end = stem.substr(stem.find_last_of("-.") + 1);
  const auto by_end = choose_gguf(files, end);
  return by_end.ok() && by_end->main == gguf.main ? end : stem;
}

void HubCache::add_models_of(const std::string& name, const fs::path& folder, std::vector<Entry>& to) const {
  const std::string commit = folder.filename().string();
  if (!is_commit(commit)) return;
  const std::vector<HubFile> files = files_below(folder);
  const bool is_main = commit_of({name, "", "main"}) == commit;
  const auto add = [&](const std::string& quant, const HubChoice& choice) {
    Entry entry;
    for (const HubFile& file : files)
      if (std::find(choice.files.begin(), choice.files.end(), file.path) != choice.files.end())
        entry.bytes += file.bytes.value_or(0);
    entry.model.name = name + (quant.empty() ? "" : ":" + quant) + (is_main ? "" : "@" + commit);
    entry.model.form = choice.main.empty() ? ModelForm::directory : ModelForm::gguf;
    entry.model.path = choice.main.empty() ? folder : folder / choice.main;
    entry.model.revision = commit;
    to.push_back(std::move(entry));
  };
  for (const HubChoice& gguf : gguf_choices(files)) add(quant_of(files, gguf), gguf);
  if (const auto whole = choose_whole(folder, files, ""); whole.ok() && whole->main.empty()) add("", *whole);
}

std::vector<HubCache::Entry> HubCache::models() const {
  std::vector<Entry> found;
  each_folder(root_, [&](const fs::path& repository) {
    const std::string name = repository_name(repository.filename().string());
    if (name.empty()) return;
    each_folder(repository / "snapshots", [&](const fs::path& folder) { add_models_of(name, folder, found); });
  });
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.model.name < b.model.name; });
  return found;
}

}  // namespace espalier::store
