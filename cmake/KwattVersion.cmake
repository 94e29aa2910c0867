# Writes common/version_generated.h into the build folder: version and commit that --version prints.
# A new commit configures again (and rebuilds one file); a tree without git (a source archive, an image build) may
# pass -DKWATT_COMMIT=... instead.
if(NOT KWATT_COMMIT)
    execute_process(COMMAND git -C ${CMAKE_SOURCE_DIR} rev-parse --short=12 HEAD
                    OUTPUT_VARIABLE kwatt_commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                    RESULT_VARIABLE kwatt_commit_rc)
    if(kwatt_commit_rc EQUAL 0)
        execute_process(COMMAND git -C ${CMAKE_SOURCE_DIR} rev-parse --git-path logs/HEAD
                        OUTPUT_VARIABLE kwatt_git_log OUTPUT_STRIP_TRAILING_WHITESPACE)
        cmake_path(ABSOLUTE_PATH kwatt_git_log BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
        if(EXISTS ${kwatt_git_log})
            set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kwatt_git_log})
        endif()
    else()
        set(kwatt_commit unknown)
    endif()
else()
    set(kwatt_commit ${KWATT_COMMIT})
endif()
configure_file(${CMAKE_SOURCE_DIR}/cmake/version_generated.h.in
               ${CMAKE_BINARY_DIR}/common/version_generated.h @ONLY)
