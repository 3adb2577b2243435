// remove.h: takes a model out of the caches, as Store::find() names it.
//
// Of a hub's repository: the files of the named GGUF, or all of the repository where no quantisation and no revision is
// named; a blob that another snapshot still uses stays. Of an alias: its file. A path is the user's own and is refused.
// Threads: any; what is being pulled is not touched. Fails: not_found; bad_request for a path; busy while somebody pulls
// it; what disk.h lists.
#pragma once

#include <cstdint>
#include <string>

#include "store/settings.h"
#include "store/store.h"

namespace espalier::store {

struct Removed {
  std::uint64_t bytes = 0;  // given back
  int files = 0;
};
Result<Removed> remove_model(const Settings& settings, const ModelName& meant, const std::string& given_name);

}  // namespace espalier::store
