#include "base/system/file_times.h"

namespace espalier {

timespec content_changed(const struct stat& file) {
  return file.st_mtim;
}

timespec status_changed(const struct stat& file) {
  return file.st_ctim;
}

}  // namespace espalier
