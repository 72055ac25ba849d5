# How everything here is compiled: one place for flags, packages and the helper functions.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Programs are not position-independent: Debian's static Abseil is not, and it saves relocations at start.
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

option(MUSTER_TESTS "build the tests and muster-sim" ON)
option(MUSTER_GRPC "build the parts that need gRPC (everything but the pure cores)" ON)
option(MUSTER_PMIX "build muster-pmix, which serves the programs of Open MPI, where libpmix is found" ON)
set(MUSTER_SANITIZE "" CACHE STRING "address,undefined | thread | empty")
option(MUSTER_FUZZ "the fuzzers of tests/fuzz as well, which need clang and a sanitizer" OFF)
# For builds from scratch. Who then gives two sources of a group one name hears of a redefinition: configure again, which
# finds other groups.
option(MUSTER_TOGETHER "compile sources of a target together: half the time for all, more for one; with python3" OFF)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
if(MUSTER_SANITIZE)
  add_compile_options(-fsanitize=${MUSTER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MUSTER_SANITIZE})
endif()
# What steers libFuzzer, and what llvm-cov counts: for the parsers and what calls them alone, as it costs a quarter of
# the time that a source takes to compile.
set(MUSTER_FUZZ_OPTIONS -fsanitize=fuzzer-no-link -fprofile-instr-generate -fcoverage-mapping)
if(MUSTER_FUZZ)
  add_link_options(-fprofile-instr-generate)
endif()

find_package(Threads REQUIRED)
find_package(absl CONFIG REQUIRED)
# Debian's absl:: targets are the shared libraries; ours take the archives beside them, so that gRPC's archives and our
# code share one copy and a program is one file.
get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target ${imported})
  get_target_property(location ${target} IMPORTED_LOCATION_NONE)
  if(target MATCHES "^absl::" AND location MATCHES "\\.so")
    string(REGEX REPLACE "\\.so.*" ".a" location ${location})
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_NONE ${location})
    list(APPEND MUSTER_ABSL_ARCHIVES ${location})
  endif()
endforeach()
find_package(PkgConfig REQUIRED)
if(MUSTER_GRPC)
  find_package(Protobuf REQUIRED) # module mode: Debian ships no config file
  find_package(gRPC CONFIG REQUIRED)
  find_package(OpenSSL REQUIRED)
  find_package(nlohmann_json CONFIG REQUIRED)
endif()
pkg_check_modules(LIBUV REQUIRED libuv)
if(MUSTER_PMIX AND MUSTER_GRPC)
  pkg_check_modules(PMIX IMPORTED_TARGET pmix>=4.1)
endif()
set(MUSTER_HAS_PMIX false)
if(MUSTER_PMIX AND MUSTER_GRPC AND PMIX_FOUND)
  set(MUSTER_HAS_PMIX true)
endif()
find_library(YAML_CPP_STATIC NAMES libyaml-cpp.a REQUIRED) # its headers need no flags
find_library(LIBUV_STATIC NAMES libuv_a.a libuv.a REQUIRED)

# The build's name in protocols, files and refusals ("another build is refused by name of both builds").
execute_process(COMMAND git rev-parse --short=12 HEAD WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                OUTPUT_VARIABLE MUSTER_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT MUSTER_COMMIT)
  set(MUSTER_COMMIT "release")
endif()

set(MUSTER_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  list(APPEND MUSTER_WARNINGS -Wthread-safety)
endif()

# muster_library(NAME SOURCES... [PUBLIC libs...] [PRIVATE libs...])
function(muster_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${MUSTER_WARNINGS})
  target_link_libraries(${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  set_property(GLOBAL APPEND PROPERTY MUSTER_TARGETS ${name})
endfunction()

# Called at the end, when all is known: the sources of MUSTER_PARSERS, each with the options of fuzzers, are compiled alone
# (a planted mistake replaces one whole), the others of a target in groups by MUSTER_TOGETHER.
function(muster_arrange_sources)
  get_property(targets GLOBAL PROPERTY MUSTER_TARGETS)
  get_property(parsers GLOBAL PROPERTY MUSTER_PARSERS)
  set(together ${MUSTER_TOGETHER})
  find_program(PYTHON3 python3)
  if(together AND NOT PYTHON3)
    message(STATUS "MUSTER_TOGETHER: no python3, so each source is compiled alone")
    set(together OFF)
  endif()
  set(lines "")
  foreach(target ${targets})
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    foreach(source ${sources})
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE)
      if(source IN_LIST parsers)
        set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES COMPILE_OPTIONS "${MUSTER_FUZZ_OPTIONS}")
      elseif(source MATCHES "\\.cc$" AND NOT source MATCHES "^${CMAKE_BINARY_DIR}/")
        string(APPEND lines "${target};${source}\n")
      endif()
    endforeach()
    if(together)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    endif()
  endforeach()
  if(together)
    set(groups ${CMAKE_BINARY_DIR}/source_groups)
    file(WRITE ${groups}.txt "${lines}")
    execute_process(COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/deploy/source_groups.py ${CMAKE_SOURCE_DIR} ${groups}.cmake
                    INPUT_FILE ${groups}.txt COMMAND_ERROR_IS_FATAL ANY)
    include(${groups}.cmake)
  endif()
endfunction()
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL muster_arrange_sources)

# muster_proto(NAME PATHS...): what protoc makes of the files; no warnings of ours, headers as system headers.
function(muster_proto name)
  set(gen ${CMAKE_BINARY_DIR}/gen)
  file(MAKE_DIRECTORY ${gen})
  foreach(path ${ARGN})
    string(REGEX REPLACE "\\.proto$" "" stem ${gen}/${path})
    add_custom_command(
      OUTPUT ${stem}.pb.cc ${stem}.pb.h ${stem}.grpc.pb.cc ${stem}.grpc.pb.h
      COMMAND protobuf::protoc -I ${CMAKE_SOURCE_DIR} --cpp_out=${gen} --grpc_out=${gen}
              --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin> ${path}
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
      DEPENDS ${CMAKE_SOURCE_DIR}/${path} VERBATIM)
    list(APPEND sources ${stem}.pb.cc ${stem}.grpc.pb.cc)
  endforeach()
  add_library(${name} STATIC ${sources})
  if(MUSTER_SANITIZE)
    target_compile_options(${name} PRIVATE -O0) # thirty thousand lines that nobody wrote, in half the time
  endif()
  target_include_directories(${name} SYSTEM PUBLIC ${gen})
  target_link_libraries(${name} PUBLIC muster_grpc_static)
endfunction()

# muster_program(NAME SOURCES... LINK libs...): a program of ours; libstdc++ inside, so that one file can be pushed to a node.
function(muster_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_compile_options(${name} PRIVATE ${MUSTER_WARNINGS})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  if(NOT MUSTER_SANITIZE)
    target_link_options(${name} PRIVATE -no-pie -static-libgcc -static-libstdc++ -Wl,--gc-sections)
    # Symbols go to NAME.debug beside it, where debuggers look: what is pushed to nodes is a quarter of the size.
    add_custom_command(TARGET ${name} POST_BUILD
      COMMAND ${CMAKE_OBJCOPY} --only-keep-debug $<TARGET_FILE:${name}> $<TARGET_FILE:${name}>.debug
      COMMAND ${CMAKE_OBJCOPY} --strip-unneeded --add-gnu-debuglink=$<TARGET_FILE:${name}>.debug $<TARGET_FILE:${name}>
      VERBATIM)
  endif()
endfunction()

find_program(LLD ld.lld) # for tests, of which there are fifty: it takes a quarter of the time of binutils' ld

# muster_test(NAME SOURCES... LINK libs...): a GoogleTest program, one ctest entry. Its own sources, not what they test,
# are compiled without optimization, which takes half the time; they spend theirs in what they test.
function(muster_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_compile_options(${name} PRIVATE ${MUSTER_WARNINGS} -O0)
  target_link_libraries(${name} PRIVATE ${arg_LINK} GTest::gmock GTest::gtest_main)
  if(LLD)
    target_link_options(${name} PRIVATE -fuse-ld=lld)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set_property(GLOBAL APPEND PROPERTY MUSTER_TARGETS ${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "unit;${arg_LABELS}" TIMEOUT 120)
endfunction()

# muster_tool(NAME SOURCES file... LINK library...): a program of benchmarks and integration tests, which run those of the
# release build: a build with sanitizers has none.
function(muster_tool name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_compile_options(${name} PRIVATE ${MUSTER_WARNINGS})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(MUSTER_SANITIZE)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()
