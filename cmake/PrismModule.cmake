# prism_module(NAME model SOURCES a.cpp b.cpp HEADERS a.hpp b.hpp DEPS stats io [PRIVATE lib...] [TESTS a_test.cpp...])
#
# One static library `prism_<name>` (alias prism::<name>) per folder. DEPS are other folders, PRIVATE are
# third-party targets seen by our .cpp files only. TESTS go into one GoogleTest binary `prism_<name>_tests`.
# With CMAKE_VERIFY_INTERFACE_HEADER_SETS on, target all_verify_interface_header_sets compiles every header alone.
function(prism_module)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;HEADERS;DEPS;PRIVATE;TESTS;TEST_PRIVATE" ${ARGN})
  set(target prism_${arg_NAME})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(prism::${arg_NAME} ALIAS ${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
  list(TRANSFORM arg_DEPS PREPEND prism::)
  target_link_libraries(${target} PUBLIC ${arg_DEPS} PRIVATE prism_options ${arg_PRIVATE})
  # The sanitizer build is not optimised, for quick compiles; the rooms with the hot loops are, for quick tests.
  if(PRISM_SANITIZE AND arg_NAME MATCHES "^(engine|stats|ingest)$")
    target_compile_options(${target} PRIVATE -O1)
  endif()
  if(BUILD_TESTING AND arg_TESTS)
    prism_test(NAME ${target}_tests SOURCES ${arg_TESTS} LIBRARIES ${target} ${arg_PRIVATE} ${arg_TEST_PRIVATE})
  endif()
endfunction()

# prism_test(NAME t SOURCES x_test.cpp... LIBRARIES targets...): a GoogleTest binary, each case a ctest test.
function(prism_test)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBRARIES} prism_options GTest::gtest_main)
  # Parsing the frameworks is most of what a test file costs. A few files do not pay for a precompiled header.
  list(LENGTH arg_SOURCES files)
  if(files GREATER 5)
    set(headers <gtest/gtest.h> <gmock/gmock.h>)
    if("rapidcheck" IN_LIST arg_LIBRARIES)
      list(APPEND headers <rapidcheck.h> <rapidcheck/gtest.h>)
    endif()
    target_precompile_headers(${arg_NAME} PRIVATE ${headers})
  endif()
  # Tests are compiled more often than they run: property tests take a quarter less at -O1.
  target_compile_options(${arg_NAME} PRIVATE $<$<AND:$<CONFIG:RelWithDebInfo>,$<NOT:$<BOOL:${PRISM_SANITIZE}>>>:-O1>)
  target_compile_definitions(${arg_NAME} PRIVATE PRISM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # Under sanitizers, ten times slower, properties are tried on fewer cases: the plain build tries them all.
  set(properties TIMEOUT 300)
  if(PRISM_SANITIZE)
    list(APPEND properties ENVIRONMENT RC_PARAMS=max_success=30)
  endif()
  gtest_discover_tests(${arg_NAME} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60 PROPERTIES ${properties})
endfunction()
