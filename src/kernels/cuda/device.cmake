# The shared objects of devices: the same .cu files by nvcc (libespalier_cuda.so, tools/cuda.sh) and by the host's compiler
# against the emulator (libespalier_emu.so). Included from src/.
if(CMAKE_CROSSCOMPILING OR APPLE OR ESPALIER_FUZZ)
  return()  # fibers of another system; fuzzers have nothing to do with devices
endif()
file(GLOB_RECURSE device_kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/cuda/*.cu ${CMAKE_CURRENT_SOURCE_DIR}/device/library/*.cu)
list(FILTER device_kernels EXCLUDE REGEX "/cuda_[a-z]+\\.cu$")
find_package(Boost 1.81 REQUIRED COMPONENTS context)  # fibers: the emulator's threads
add_library(espalier_emu SHARED ${device_kernels}
  ${CMAKE_CURRENT_SOURCE_DIR}/device/library/emu_table.cpp ${CMAKE_CURRENT_SOURCE_DIR}/device/library/emu_memory.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/kernels/cuda/simt/emulator.cpp)
set_source_files_properties(${device_kernels} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++;$<$<CONFIG:Release>:-O2>"
  SKIP_UNITY_BUILD_INCLUSION ON)
set_target_properties(espalier_emu PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
target_include_directories(espalier_emu PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_options(espalier_emu PRIVATE -Wl,--no-undefined)
target_link_libraries(espalier_emu PRIVATE espalier_options fmt::fmt-header-only Boost::context Threads::Threads)
if(ESPALIER_TESTS)
  add_dependencies(device_test espalier_emu)
  if(NOT ESPALIER_SANITIZE)  # whose memory has borders that find more
    set_property(TEST device APPEND PROPERTY ENVIRONMENT ESPALIER_EMU_STRICT=1)  # device/library/emu_memory.h
  endif()
endif()
