# What the toolchains for macOS share; the file that includes it sets ESPALIER_MACOS_TARGET (as zig spells it),
# ESPALIER_RUST_TARGET (as rustc does) and CMAKE_SYSTEM_PROCESSOR (as `uname -m` does there).
#
# zig brings clang, a linker, libc++ and Apple's public headers of libc, so that no Mac and no SDK is needed. CMake wants
# compilers that are one program each, and a zig that lies in a virtual environment (tools/check-macos.sh makes it), so
# small scripts in the build folder stand for `zig c++ -target ...` and the like.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_VERSION 22)  # macOS 13: the oldest that zig knows
set(CMAKE_OSX_SYSROOT "")     # there is no SDK to look for

get_filename_component(ESPALIER_MACOS_TOOLS ${CMAKE_CURRENT_LIST_DIR}/../build/venv-macos ABSOLUTE)
file(GLOB zig ${ESPALIER_MACOS_TOOLS}/lib/python3*/site-packages/ziglang/zig)
if(NOT zig)
  message(FATAL_ERROR "No zig in ${ESPALIER_MACOS_TOOLS}: tools/check-macos.sh installs it there")
endif()

set(scripts ${ESPALIER_MACOS_TOOLS}/${ESPALIER_MACOS_TARGET})
foreach(tool ar ranlib cc c++)
  set(script "exec ${zig} ${tool} \"$@\"")
  if(tool MATCHES "^c")  # clang's -march=armv8.2-a+dotprod is zig's -mcpu=generic+v8_2a+dotprod
    set(script "for word; do
  shift
  case $word in -march=armv8.2-a*) word=-mcpu=generic+v8_2a\${word#-march=armv8.2-a} ;; esac
  set -- \"$@\" \"$word\"
done
exec ${zig} ${tool} -target ${ESPALIER_MACOS_TARGET} \"$@\"")
  endif()
  set(script "#!/bin/sh\nexport ZIG_GLOBAL_CACHE_DIR=${ESPALIER_MACOS_TOOLS}/cache\n${script}\n")
  file(CONFIGURE OUTPUT ${scripts}/zig-${tool} CONTENT "${script}" @ONLY)
  file(CHMOD ${scripts}/zig-${tool} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endforeach()
set(CMAKE_C_COMPILER ${scripts}/zig-cc)
set(CMAKE_CXX_COMPILER ${scripts}/zig-c++)
set(CMAKE_AR ${scripts}/zig-ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${scripts}/zig-ranlib CACHE FILEPATH "")
set(CMAKE_INSTALL_NAME_TOOL /bin/true)  # CMake insists on one; nothing is installed

# Libraries of others: only those that tools/check-macos.sh laid out.
set(CMAKE_FIND_ROOT_PATH ${ESPALIER_MACOS_TOOLS}/prefix)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
