# bpf_object(NAME SOURCE [HEADERS...]): compiles one BPF program and makes its skeleton.
#
# The result is the INTERFACE library NAME_skel; linking it gives the target libbpf and the generated
# header bpf/NAME.skel.h (spelled from the root, like every include).
find_program(KWATT_BPF_CLANG NAMES clang-14 clang REQUIRED)
find_program(KWATT_BPFTOOL NAMES bpftool HINTS /usr/sbin /usr/local/sbin REQUIRED)
find_program(KWATT_LLVM_STRIP NAMES llvm-strip-14 llvm-strip REQUIRED)
pkg_check_modules(LIBBPF REQUIRED IMPORTED_TARGET libbpf)

function(bpf_object name source)
    set(object ${CMAKE_BINARY_DIR}/bpf/${name}.bpf.o)
    set(skeleton ${CMAKE_BINARY_DIR}/bpf/${name}.skel.h)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
        set(arch arm64)
    else()
        set(arch x86)
    endif()
    add_custom_command(
        OUTPUT ${object}
        COMMAND ${KWATT_BPF_CLANG} -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_${arch}
                -Wall -Wextra -Werror
                # asm/types.h lives under the multiarch folder, which -target bpf does not search
                -idirafter /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
                -I${CMAKE_SOURCE_DIR} -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
        COMMAND ${KWATT_LLVM_STRIP} -g ${object}
        DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} ${ARGN}
        COMMENT "BPF ${name}" VERBATIM)
    add_custom_command(
        OUTPUT ${skeleton}
        COMMAND ${KWATT_BPFTOOL} gen skeleton ${object} name ${name}_bpf > ${skeleton}
        DEPENDS ${object}
        COMMENT "BPF skeleton ${name}" VERBATIM)
    add_custom_target(${name}_skel_files DEPENDS ${skeleton})
    add_library(${name}_skel INTERFACE)
    add_dependencies(${name}_skel ${name}_skel_files)
    # SYSTEM: the generated header is not held to our warnings
    target_include_directories(${name}_skel SYSTEM INTERFACE ${CMAKE_BINARY_DIR})
    target_link_libraries(${name}_skel INTERFACE PkgConfig::LIBBPF)
endfunction()
