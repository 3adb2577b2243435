# One target per module; linking is the only way to include.
#
# espalier_module(cache USES base tensor) builds src/cache/**.cpp into libespalier_cache.a. A module's headers are
# reached as "cache/tree/radix_tree.h" through build/include-roots/cache, a folder that holds one link and nothing else,
# so a module that does not link `cache` cannot include from it. tests/module_graph_test.py checks the table below.
#
# All presets but dev compile a dozen files at a time, which halves the time of a first build and more; dev builds again
# quicker after a change of one file. Files whose names clash with a neighbour's are named in ESPALIER_ALONE.
#
# Beside the code lie *_test.cpp (one GoogleTest program a module), *_bench.cpp (one program each) and *_fuzz.cpp
# (one libFuzzer program each in the fuzz preset; in every other build the seed corpus is replayed as a test).

# What systems do differently lies in folders `linux` and `macos`, behind one header for both beside them.

set_property(GLOBAL PROPERTY ESPALIER_MODULE_EDGES "")
if(APPLE)
  set(ESPALIER_OTHER_SYSTEM linux)
else()
  set(ESPALIER_OTHER_SYSTEM macos)
endif()
set(ESPALIER_ALONE text/jinja/[a-z_/]+ net/[a-z_/]+_test tensor/file/gguf_metadata tensor/file/mapping_guard
  tensor/file/safetensors_test sampling/[a-z_]+_test grammar/rules/rule_grammar server/openai/[a-z_]+ server/programs/program_body
  server/prompt/chat_prompt engine/step/engine_core_test engine/engine_options tensor/quantize/[a-z_]+)
list(JOIN ESPALIER_ALONE "|" ESPALIER_ALONE)
if(ESPALIER_SANITIZE)
  set(ESPALIER_UNIT_TEST_SECONDS 7200)  # emulated devices take most of an hour under ThreadSanitizer
else()
  set(ESPALIER_UNIT_TEST_SECONDS 1200)
endif()

function(espalier_module name)
  cmake_parse_arguments(M "" "" "USES;LIBRARIES" ${ARGN})
  set(dir ${PROJECT_SOURCE_DIR}/src/${name})
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${dir}/*.cpp)
  list(FILTER all EXCLUDE REGEX "/src/${name}/(.+/)?${ESPALIER_OTHER_SYSTEM}/")
  list(FILTER all EXCLUDE REGEX "/src/(kernels/cuda|device/library|ranks/library)/")  # of objects of their own (kernels/cuda/device.cmake, tools/mpi.sh)
  set(alone ${all})
  list(FILTER alone INCLUDE REGEX "/src/(${ESPALIER_ALONE})\\.cpp$")
  set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set(sources ${all})
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cpp$")
  set(tests ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  set(benches ${all})
  list(FILTER benches INCLUDE REGEX "_bench\\.cpp$")
  set(fuzzers ${all})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cpp$")

  set(root ${PROJECT_BINARY_DIR}/include-roots/${name})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${dir} ${root}/${name} SYMBOLIC)

  if(NOT sources)
    file(WRITE ${PROJECT_BINARY_DIR}/empty_${name}.cpp "")
    set(sources ${PROJECT_BINARY_DIR}/empty_${name}.cpp)
  endif()
  add_library(espalier_${name} STATIC ${sources})
  target_include_directories(espalier_${name} PUBLIC ${root})
  target_link_libraries(espalier_${name} PUBLIC espalier_options ${M_LIBRARIES})
  foreach(used ${M_USES})
    target_link_libraries(espalier_${name} PUBLIC espalier_${used})
    set_property(GLOBAL APPEND PROPERTY ESPALIER_MODULE_EDGES "${name}:${used}")
  endforeach()

  if(tests AND ESPALIER_TESTS)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE espalier_${name} espalier_testing)
    add_test(NAME ${name} COMMAND ${name}_test --gtest_brief=1)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${ESPALIER_TEST_ENVIRONMENT}" TIMEOUT ${ESPALIER_UNIT_TEST_SECONDS})
  endif()
  foreach(bench ${benches})
    get_filename_component(target ${bench} NAME_WE)
    add_executable(${target} EXCLUDE_FROM_ALL ${bench})
    target_link_libraries(${target} PRIVATE espalier_${name})
    set_property(GLOBAL APPEND PROPERTY ESPALIER_BENCHES ${target})
  endforeach()
  foreach(fuzzer ${fuzzers})
    espalier_fuzzer(${fuzzer} espalier_${name})
  endforeach()
endfunction()

# A fuzz target `x_fuzz` reads its seeds from src/<module>/fuzz_corpus/x/.
function(espalier_fuzzer source library)
  get_filename_component(target ${source} NAME_WE)
  get_filename_component(dir ${source} DIRECTORY)
  string(REGEX REPLACE "_fuzz$" "" subject ${target})
  set(corpus ${dir}/fuzz_corpus/${subject})
  if(ESPALIER_FUZZ)
    add_executable(${target} ${source})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    set_property(GLOBAL APPEND PROPERTY ESPALIER_FUZZERS "${target}=${corpus}")
  elseif(ESPALIER_TESTS)
    add_executable(${target} ${source} ${PROJECT_SOURCE_DIR}/tests/replay_corpus.cpp)
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)  # one file of each
    add_test(NAME ${target}_seeds COMMAND ${target} ${corpus})
  else()
    return()
  endif()
  target_link_libraries(${target} PRIVATE ${library})
endfunction()
