# The two libraries, made of the objects of all rooms, and what is installed beside them: headers,
# a pkg-config file, a CMake package. Only what is marked HR_API can be seen from outside.
get_property(rooms GLOBAL PROPERTY HR_ROOMS)
get_property(libs GLOBAL PROPERTY HR_LIBS)
list(REMOVE_DUPLICATES libs)
list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:hr_\\1>")

add_library(headrace_shared SHARED ${rooms})
add_library(headrace_static STATIC ${rooms})
set_target_properties(headrace_shared PROPERTIES EXPORT_NAME headrace
  VERSION ${PROJECT_VERSION} SOVERSION 0)
set_target_properties(headrace_static PROPERTIES EXPORT_NAME static)
foreach(library headrace_shared headrace_static)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME headrace LINKER_LANGUAGE C)
  target_link_libraries(${library} PRIVATE Threads::Threads m ${libs})
  target_include_directories(${library} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  if(HEADRACE_SANITIZE)
    target_link_options(${library} PUBLIC -fsanitize=${HEADRACE_SANITIZE})
  endif()
endforeach()
if(NOT HEADRACE_SANITIZE)
  target_link_options(headrace_shared PRIVATE -Wl,--no-undefined)
endif()

install(TARGETS headrace_shared headrace_static EXPORT headrace_targets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/headrace
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# What the rooms link by pkg-config, for those who link our archive: as flags for the .pc file (not
# as Requires: some modules ask there for libraries that only their own archives need), and as
# modules for the CMake package.
set(private_libs "")
set(package_modules "")
foreach(lib ${libs})
  if(lib MATCHES "^PkgConfig::(.+)")
    list(APPEND private_libs ${${CMAKE_MATCH_1}_LDFLAGS})
    string(APPEND package_modules "pkg_check_modules(${CMAKE_MATCH_1} REQUIRED IMPORTED_TARGET "
      "${${CMAKE_MATCH_1}_MODULE_NAME})\n")
  elseif(lib STREQUAL "MPI::MPI_C")
    list(APPEND private_libs ${MPI_C_LIBRARIES})
    string(APPEND package_modules "find_dependency(MPI COMPONENTS C)\n")
  endif()
endforeach()
list(JOIN private_libs " " private_libs)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/headrace)
include(CMakePackageConfigHelpers)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/headrace-config.cmake.in
  headrace-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(headrace-config-version.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT headrace_targets NAMESPACE headrace:: DESTINATION ${package_dir}
  FILE headrace-targets.cmake)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/headrace-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/headrace-config-version.cmake DESTINATION ${package_dir})

# Paths in the .pc file follow from where it lies, so that a DESTDIR or a moved tree still works.
file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/headrace.pc.in headrace.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/headrace.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
