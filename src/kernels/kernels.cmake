# Each instruction set's files are compiled with its own flags; cpu/table.cpp chooses at start (included from src/).
set(kernel_dir ${CMAKE_CURRENT_SOURCE_DIR}/kernels/cpu)
function(espalier_isa_flags isa level)
  file(GLOB files ${kernel_dir}/${isa}/*.cpp)
  set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:${level}>;${ARGN}" SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# The plain loops judge the others and serve processors without vectors: -O3 takes 3.5 times as long to compile them.
espalier_isa_flags(scalar -O2)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Loops begin a cache line: where attention's inner loop happens to lie costs up to 5 % on Zen 3 (attention_bench).
  espalier_isa_flags(avx2 -O3 -falign-loops=64 -mavx2 -mfma -mf16c)
  espalier_isa_flags(avxvnni -O3 -mavx2 -mfma -mf16c -mavxvnni)
  # g++ 12 warns about its own undefined-value intrinsics (GCC bug 105593).
  espalier_isa_flags(avx512 -O3 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx2 -mfma -mf16c)
  espalier_isa_flags(amx -O3 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx2 -mfma -mf16c -mamx-tile -mamx-int8 -mamx-bf16)
  set_property(SOURCE ${kernel_dir}/avx512/matmul_bf16.cpp ${kernel_dir}/avx512/attention_bf16.cpp ${kernel_dir}/amx/attention.cpp APPEND PROPERTY COMPILE_OPTIONS -mavx512bf16)
  set_property(SOURCE ${kernel_dir}/avx512/matmul_float8.cpp APPEND PROPERTY COMPILE_OPTIONS -mavx512bf16 -mavx512vbmi)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  espalier_isa_flags(neon -O3 -march=armv8.2-a+dotprod)
  espalier_isa_flags(i8mm -O3 -march=armv8.2-a+dotprod+i8mm)
endif()
