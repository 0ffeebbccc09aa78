# What every engine of groups promises. Engines by name, in group/engines.h.
foreach(part collectives all_to_all symmetric messages creation failures streams)
  hr_test(conform.group.${part} SOURCES group/test_group_${part}.c group/engines.c
    ROOMS group LABELS tsan TIMEOUT 300)
endforeach()

set(mpi_environment OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  OMPI_MCA_hwloc_base_binding_policy=none)
# mpi_test(name ranks target [environment]): the same programs, started as many processes. As root, and with
# more ranks than CPUs, Open MPI wants to be told. Looking for leaks takes seconds, for the stacks of
# MPI's own have to be walked; one test does.
function(mpi_test name ranks target)
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

set(parts_2 messages symmetric streams)
set(parts_3 messages creation failures symmetric)
set(parts_4 collectives all_to_all symmetric messages creation failures streams)
set(parts_8 collectives all_to_all streams)
foreach(ranks 2 3 4 8)
  foreach(part ${parts_${ranks}})
    mpi_test(mpi.group.${part}.${ranks} ${ranks} test_conform_group_${part}
      ASAN_OPTIONS=detect_stack_use_after_return=1:detect_leaks=0)
  endforeach()
endforeach()
mpi_test(mpi.group.leaks 2 test_conform_group_failures
  ASAN_OPTIONS=detect_stack_use_after_return=1:fast_unwind_on_malloc=0
  LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/scripts/mpi.supp:print_suppressions=0)
