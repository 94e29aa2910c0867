# Compiler settings shared by every target, and kw_component(), which makes the one static library of a component.

add_library(kwatt_flags INTERFACE)
target_compile_options(kwatt_flags INTERFACE
    -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes
    -Wpointer-arith -Wformat=2 -Wvla -Wundef -fno-common -fstack-protector-strong)
if(KWATT_WERROR OR "$ENV{CI}" STREQUAL "true")
    target_compile_options(kwatt_flags INTERFACE -Werror)
endif()
target_compile_definitions(kwatt_flags INTERFACE _GNU_SOURCE)
# Includes are spelled from the repository root; the build folder holds generated headers.
target_include_directories(kwatt_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})

if(KWATT_SANITIZE)
    target_compile_options(kwatt_flags INTERFACE
        -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
    target_link_options(kwatt_flags INTERFACE -fsanitize=address,undefined)
endif()
if(KWATT_COVERAGE)
    target_compile_options(kwatt_flags INTERFACE --coverage)
    target_link_options(kwatt_flags INTERFACE --coverage)
endif()
if(KWATT_LIBFUZZER)
    target_compile_options(kwatt_flags INTERFACE
        -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer)
    target_link_options(kwatt_flags INTERFACE -fsanitize=address,undefined)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" AND NOT KWATT_LIBFUZZER)
    target_compile_options(kwatt_flags INTERFACE -D_FORTIFY_SOURCE=2)
    target_link_options(kwatt_flags INTERFACE -Wl,-z,relro,-z,now)
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# kw_component(NAME SOURCES... [LIBS ...]): the static library kwatt_NAME.
function(kw_component name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
    add_library(kwatt_${name} STATIC ${ARG_SOURCES})
    target_link_libraries(kwatt_${name} PUBLIC kwatt_flags ${ARG_LIBS})
endfunction()
