# One run of cargo, with a sentence that says what to do when a crate is not there; with FETCH it may be fetched.
# Messages of panics name source files: not where this machine keeps them.
if(DEFINED ENV{CARGO_HOME})
  set(cargo_home $ENV{CARGO_HOME})
else()
  set(cargo_home $ENV{HOME}/.cargo)
endif()
set(remapped --config "build.rustflags=['--remap-path-prefix=${cargo_home}/registry/src=crates']")
set(for_target)
if(TARGET)
  set(for_target --target ${TARGET})
endif()
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env CARGO_TARGET_DIR=${TARGET_DIR} ${CARGO} build ${remapped} --release --offline --locked --quiet
          --manifest-path ${MANIFEST} ${for_target}
  RESULT_VARIABLE failed ERROR_VARIABLE errors)
if(failed AND FETCH)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env CARGO_TARGET_DIR=${TARGET_DIR} ${CARGO} build ${remapped} --release --locked --quiet
            --manifest-path ${MANIFEST} ${for_target}
    RESULT_VARIABLE failed ERROR_VARIABLE errors)
endif()
if(failed)
  if(errors MATCHES "offline|no matching package|failed to download|unable to update")
    message(FATAL_ERROR "${errors}Crates of ${MANIFEST} are missing and nothing is fetched during a build: run `make setup`.")
  endif()
  message(FATAL_ERROR "${errors}${CARGO} could not build ${MANIFEST}.")
endif()
# cargo leaves the file alone when it was up to date; the build must see that it is newer than its sources.
file(TOUCH_NOCREATE ${LIBRARY})
