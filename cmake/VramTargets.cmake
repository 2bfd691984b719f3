# How every target of the project is compiled: warnings, sanitizers, and the two worlds code lives in.
#   vram_layer(NAME ...)           ordinary code (the command, the daemon, the simulator, tests)
#   vram_library_layer(NAME ...)   the same, for what also goes into libvram.so: hidden but for VRAM_API
#   vram_injected_layer(NAME ...)  code that ends up inside somebody else's program: no exceptions,
#                                  no run-time type information, nothing of libstdc++ but headers
#   vram_test(NAME ...)            a GoogleTest executable, every test of it known to CTest; one labelled no-asan
#                                  or no-tsan is left out of that sanitizer's build; vram_tests builds all
#   vram_fuzzer(NAME_fuzz ...)     a libFuzzer executable (preset fuzz); `make fuzz` finds it by its folder
#   vram_driver_program(NAME FOLDER FILE)  a program as somebody else would build it: compiled with CUDA's headers,
#                                  linked with libcuda.so.1 and libnvidia-ml.so.1, no path to a driver built in
find_package(Threads REQUIRED)

add_library(vram_flags INTERFACE)
target_compile_options(vram_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -Wno-missing-field-initializers -Werror)
# gcc 12 takes inlined std::string concatenation for overlapping copies when it optimises.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(vram_flags INTERFACE $<$<NOT:$<CONFIG:Debug>>:-Wno-restrict>)
endif()
target_include_directories(vram_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
# A library takes a sanitizer's functions from the program that loads it.
set(VRAM_NO_UNDEFINED -Wl,-z,defs)
if(VRAM_SANITIZE)
  set(VRAM_NO_UNDEFINED "")
  target_compile_options(vram_flags INTERFACE -fsanitize=${VRAM_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(vram_flags INTERFACE -fsanitize=${VRAM_SANITIZE})
endif()

add_library(vram_injected_flags INTERFACE)
target_link_libraries(vram_injected_flags INTERFACE vram_flags)
target_compile_options(vram_injected_flags INTERFACE -fvisibility=hidden -mcx16
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -fno-threadsafe-statics -fvisibility-inlines-hidden>
  $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-ffat-lto-objects> -ftls-model=initial-exec -fno-plt -U_FORTIFY_SOURCE -fno-stack-protector)

function(vram_layer name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC vram_flags Threads::Threads)
endfunction()

function(vram_library_layer name)
  vram_layer(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

function(vram_injected_layer name)
  add_library(${name} STATIC ${ARGN})
  # The flags stay with the layer: the command and the tests that link it keep their exceptions. Only
  # what its headers need (16-byte swaps) goes along.
  target_link_libraries(${name} PUBLIC vram_flags PRIVATE vram_injected_flags)
  target_compile_options(${name} PUBLIC -mcx16)
  set_target_properties(${name} PROPERTIES INTERPROCEDURAL_OPTIMIZATION_RELEASE ON)
endfunction()

function(vram_driver_program name folder file)
  add_executable(${name} ${file})
  target_link_libraries(${name} PRIVATE vram_flags vram_cuda_headers Threads::Threads ${CMAKE_DL_LIBS}
    sim_cuda sim_nvml)
  set_target_properties(${name} PROPERTIES SKIP_BUILD_RPATH ON RUNTIME_OUTPUT_DIRECTORY ${folder})
endfunction()

add_custom_target(vram_tests)
add_custom_target(vram_fuzzers)

function(vram_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS;LABELS" ${ARGN})
  if(NOT VRAM_TESTS
     OR (VRAM_SANITIZE MATCHES "address" AND "no-asan" IN_LIST arg_LABELS)
     OR (VRAM_SANITIZE STREQUAL "thread" AND "no-tsan" IN_LIST arg_LABELS))
    return()
  endif()
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} vram_flags GTest::gtest GTest::gtest_main Threads::Threads)
  # What a test checks is optimised as it is shipped; the test itself only costs time to compile.
  target_compile_options(${name} PRIVATE $<IF:$<CXX_COMPILER_ID:GNU>,-Og,-O0>)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_dependencies(vram_tests ${name})
  # One label made of all: CTest matches labels by expression, and discovery takes no list.
  list(JOIN arg_LABELS "." label)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${label}" TIMEOUT 120)
endfunction()

function(vram_fuzzer name)
  if(NOT VRAM_FUZZ)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  add_dependencies(vram_fuzzers ${name})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} vram_flags Threads::Threads)
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzzers)
endfunction()
