# HEADRACE_MPI: auto takes the MPI library that mpicc leads to, if there is one; openmpi or mpich that one,
# by the names that Debian gives its tools; OFF none. Sets HEADRACE_MPI_FOUND, or HEADRACE_MPI_WHY.
set(HEADRACE_MPI auto CACHE STRING "engine of groups over MPI: auto, openmpi, mpich or OFF")
set(HEADRACE_MPI_FOUND FALSE)
if(HEADRACE_MPI)
  if(NOT HEADRACE_MPI STREQUAL "auto")
    set(MPI_C_COMPILER mpicc.${HEADRACE_MPI} CACHE STRING "")
    set(MPIEXEC_EXECUTABLE mpiexec.${HEADRACE_MPI} CACHE STRING "")
  endif()
  find_package(MPI COMPONENTS C QUIET)
  if(MPI_C_FOUND)
    set(HEADRACE_MPI_FOUND TRUE)
  else()
    set(HEADRACE_MPI_WHY "no MPI library (${HEADRACE_MPI}) was found at build time")
  endif()
else()
  set(HEADRACE_MPI_WHY "built with HEADRACE_MPI=${HEADRACE_MPI}")
endif()
if(HEADRACE_MPI_FOUND)
  message(STATUS "MPI engine: on, ${MPI_C_COMPILER}")
else()
  message(STATUS "MPI engine: off, ${HEADRACE_MPI_WHY}")
endif()

# What the tests of a second library need, and no more.
add_custom_target(mpi_smoke)

set(mpi_environment OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  OMPI_MCA_hwloc_base_binding_policy=none)
# hr_mpi_test(name ranks target [environment]): a test program, started as many processes. As root, and with
# more ranks than CPUs, Open MPI wants to be told. Looking for leaks takes seconds, for the stacks of
# MPI's own have to be walked: one test does, and the others say detect_leaks=0.
function(hr_mpi_test name ranks target)
  if(HEADRACE_MPI_FOUND AND MPIEXEC_EXECUTABLE)
    add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
      $<TARGET_FILE:${target}> WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES TIMEOUT 120 LABELS mpi
      ENVIRONMENT "${mpi_environment};${ARGN}")
  else()
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${HEADRACE_MPI_WHY}")
    set_tests_properties(${name} PROPERTIES LABELS mpi SKIP_REGULAR_EXPRESSION "^skipped")
  endif()
endfunction()
# hr_mpi_smoke(target tests...): these tests, of that program, are also run over a second MPI library.
function(hr_mpi_smoke target)
  set_tests_properties(${ARGN} PROPERTIES LABELS "mpi;smoke")
  add_dependencies(mpi_smoke ${target})
endfunction()
