// file_start.h: telling files apart by how they begin: the metadata of a GGUF (hyperparameters, vocabulary), the whole of a small JSON file.
//
// Threads: reads the file. Units: 16 MiB at most. Fails: never; a file that cannot be read counts as absent.
#pragma once

#include <filesystem>

#include "base/fingerprint.h"

namespace espalier {

// Who compares: this machine, which knows when files were changed, or others too, whose copies have other times.
enum class KeyReach { machine, fleet };

void add_start(Fingerprint& print, const std::filesystem::path& path, KeyReach reach);

}  // namespace espalier
