# Tests are one line each in the CMakeLists.txt of their folder. Every test carries one label, the group that
# `scripts/test GROUP` runs: unit, fuzz, check, integration, e2e, cluster. A test that cannot run here exits
# with 77 after printing "SKIP: reason"; ctest then lists it as skipped.
pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
find_package(Python3 COMPONENTS Interpreter REQUIRED)

function(kw_test_properties test label)
    set_tests_properties(${test} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77
        ENVIRONMENT "KWATT_SOURCE_DIR=${CMAKE_SOURCE_DIR};KWATT_BUILD_DIR=${CMAKE_BINARY_DIR};UBSAN_OPTIONS=print_stacktrace=1;ASAN_OPTIONS=detect_stack_use_after_return=1")
endfunction()

# kw_c_test(LABEL NAME SOURCES... [LIBS ...] [TIMEOUT s]): a cmocka program NAME_test, run by ctest as LABEL.NAME.
# An unused static function is an error in a test: cmocka does not discover tests, so it would be one that
# nobody registered.
function(kw_c_test label name)
    cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS" ${ARGN})
    string(REPLACE "." "_" target ${label}_${name}_test)
    add_executable(${target} ${ARG_SOURCES})
    target_compile_options(${target} PRIVATE -Werror=unused-function)
    target_link_libraries(${target} PRIVATE kwatt_flags ${ARG_LIBS} PkgConfig::CMOCKA)
    add_test(NAME ${label}.${name} COMMAND ${target})
    kw_test_properties(${label}.${name} ${label})
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 120)
    endif()
    set_tests_properties(${label}.${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()

# kw_py_test(LABEL NAME FILE [ARGS words...] [TIMEOUT s] [COST s] [SERIAL]): a Python 3 (standard library only) test
# program. COST: what it takes about, where that is long; ctest begins with the longest, so that none is left alone at the end.
function(kw_py_test label name file)
    cmake_parse_arguments(ARG "SERIAL" "TIMEOUT;COST" "ARGS" ${ARGN})
    add_test(NAME ${label}.${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${ARG_ARGS})
    kw_test_properties(${label}.${name} ${label})
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 300)
    endif()
    if(NOT ARG_COST)
        set(ARG_COST 0)
    endif()
    set_tests_properties(${label}.${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST})
    if(ARG_SERIAL)
        set_tests_properties(${label}.${name} PROPERTIES RUN_SERIAL ON)
    endif()
endfunction()

# kw_fuzz_target(NAME SOURCE SEEDS_DIR [LIBS ...]): LLVMFuzzerTestOneInput in SOURCE. Without KWATT_LIBFUZZER it is
# linked with a main that replays every seed and a fixed number of mutations of each, and runs in ctest as fuzz.NAME.
function(kw_fuzz_target name source seeds)
    cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
    string(REPLACE "." "_" target fuzz_${name})
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE kwatt_flags ${ARG_LIBS})
    if(KWATT_LIBFUZZER)
        target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    else()
        target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.c)
        add_test(NAME fuzz.${name} COMMAND ${target} ${seeds})
        kw_test_properties(fuzz.${name} fuzz)
        set_tests_properties(fuzz.${name} PROPERTIES TIMEOUT 120)
    endif()
endfunction()
