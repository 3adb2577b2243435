# Names of blocks that servers share are SHA-256 (OpenSSL), and a shared store speaks Redis's protocol, which hiredis parses:
# small, in Debian, with a static library.
find_package(OpenSSL REQUIRED)
find_path(HIREDIS_INCLUDE hiredis/hiredis.h REQUIRED)
find_library(HIREDIS_LIBRARY hiredis REQUIRED)
target_include_directories(espalier_cache SYSTEM PRIVATE ${HIREDIS_INCLUDE})
target_link_libraries(espalier_cache PRIVATE ${HIREDIS_LIBRARY} OpenSSL::Crypto)
