#include "espalier/error.h"

namespace espalier {

int Error::http_status() const {
  switch (kind) {
    case Kind::bad_request:
      return 400;
    case Kind::unauthorized:
      return 401;
    case Kind::forbidden:
      return 403;
    case Kind::not_found:
      return 404;
    case Kind::timeout:
      return 408;
    case Kind::too_large:
      return 413;
    case Kind::unsupported:
      return 422;
    case Kind::busy:
      return 429;
    case Kind::cancelled:
      return 499;
    case Kind::network:
      return 502;
    case Kind::unavailable:
    case Kind::out_of_memory:
      return 503;
    case Kind::bad_file:
    case Kind::cannot_bind:
    case Kind::internal:
      return 500;
  }
  return 500;
}

int Error::exit_code() const {
  switch (kind) {
    case Kind::bad_request:
    case Kind::unsupported:
    case Kind::too_large:
      return 2;
    case Kind::not_found:
    case Kind::bad_file:
      return 3;
    case Kind::out_of_memory:
      return 4;
    case Kind::cannot_bind:
      return 5;
    case Kind::network:
    case Kind::timeout:
      return 6;
    case Kind::cancelled:
      return 130;
    default:
      return 1;
  }
}

}  // namespace espalier
