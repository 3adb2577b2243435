// workload_file.h: reads a file of the format espalier-workload/1, gzipped or not.
//
// Everything is checked when it is read, so that a run cannot stumble: fields and their types, unique ids, the number
// of items, roles and places of operations, and that every variable is set before it is used.
// Units:   bytes.
// Threads: pure functions.
// Fails:   not_found, or bad_file whose sentence begins "FILE line N:" and names the field.
#pragma once

#include <string>

#include "bench/workload/workload.h"
#include "espalier/error.h"

namespace espalier::bench {

Result<Workload> read_workload(const std::string& path);

// The same from text; `name` stands for the file in messages.
Result<Workload> parse_workload(std::string_view text, const std::string& name);

}  // namespace espalier::bench
