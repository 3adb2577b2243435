# The Rust library of src/text/rust, built by cargo, offline, into build/rust of the source tree: one place for all build
# folders, so that its crates are compiled once. `make setup` fetches them; nothing is fetched here.
# ESPALIER_RUST_LIBRARY names one that was built elsewhere.
if(ESPALIER_RUST_LIBRARY)
  target_link_libraries(espalier_text PRIVATE ${ESPALIER_RUST_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS} m)
  return()
endif()
set(ESPALIER_CARGO_NEEDED 1.85)
foreach(candidate cargo /usr/bin/cargo)
  find_program(cargo_${candidate} ${candidate} NO_CACHE)
  if(NOT ESPALIER_CARGO AND cargo_${candidate})
    execute_process(COMMAND ${cargo_${candidate}} --version OUTPUT_VARIABLE version ERROR_QUIET)
    if(version MATCHES "cargo ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL ESPALIER_CARGO_NEEDED)
      set(ESPALIER_CARGO ${cargo_${candidate}} CACHE FILEPATH "cargo, at least ${ESPALIER_CARGO_NEEDED}")
    endif()
  endif()
endforeach()
if(NOT ESPALIER_CARGO)
  message(FATAL_ERROR "No cargo of version ${ESPALIER_CARGO_NEEDED} or newer on the PATH or in /usr/bin. "
                      "Run `make setup`, which installs Debian's cargo-web and rustc-web.")
endif()

set(rust_dir ${CMAKE_CURRENT_LIST_DIR}/rust)
set(rust_target_dir ${PROJECT_SOURCE_DIR}/build/rust)
set(rust_library ${rust_target_dir}/${ESPALIER_RUST_TARGET}/release/libespalier_text.a)  # a toolchain file names the target
file(GLOB rust_sources CONFIGURE_DEPENDS ${rust_dir}/src/*.rs)
set(rust_fetch OFF)
if(SKBUILD)  # pip asks its index for what it needs, so crates may come from theirs
  set(rust_fetch ON)
endif()
add_custom_command(OUTPUT ${rust_library}
  COMMAND ${CMAKE_COMMAND} -DFETCH=${rust_fetch} -DCARGO=${ESPALIER_CARGO} -DMANIFEST=${rust_dir}/Cargo.toml -DTARGET_DIR=${rust_target_dir} -DTARGET=${ESPALIER_RUST_TARGET}
          -DLIBRARY=${rust_library} -P ${rust_dir}/build.cmake
  DEPENDS ${rust_sources} ${rust_dir}/Cargo.toml ${rust_dir}/Cargo.lock ${rust_dir}/build.cmake
  COMMENT "cargo: the tokenizer library" USES_TERMINAL VERBATIM)
add_custom_target(espalier_text_rust DEPENDS ${rust_library})
add_dependencies(espalier_text espalier_text_rust)
target_link_libraries(espalier_text PRIVATE ${rust_library} Threads::Threads ${CMAKE_DL_LIBS} m)
