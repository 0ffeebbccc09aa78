# What every engine of groups promises. Engines by name, in group/engines.h.
foreach(part collectives all_to_all symmetric messages creation failures streams)
  hr_test(conform.group.${part} SOURCES group/test_group_${part}.c group/engines.c
    ROOMS group LABELS tsan TIMEOUT 300)
endforeach()

# And over processes.
set(parts_2 messages symmetric streams)
set(parts_3 messages creation failures symmetric)
set(parts_4 collectives all_to_all symmetric messages creation failures streams)
set(parts_8 collectives all_to_all streams)
foreach(ranks 2 3 4 8)
  foreach(part ${parts_${ranks}})
    hr_mpi_test(mpi.group.${part}.${ranks} ${ranks} test_conform_group_${part}
      ASAN_OPTIONS=detect_stack_use_after_return=1:detect_leaks=0)
  endforeach()
endforeach()
hr_mpi_smoke(test_conform_group_messages mpi.group.messages.3)
hr_mpi_smoke(test_conform_group_failures mpi.group.failures.3)
hr_mpi_smoke(test_conform_group_symmetric mpi.group.symmetric.2)
hr_mpi_smoke(test_conform_group_collectives mpi.group.collectives.4)
hr_mpi_test(mpi.group.leaks 2 test_conform_group_failures
  ASAN_OPTIONS=detect_stack_use_after_return=1:fast_unwind_on_malloc=0
  LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/scripts/mpi.supp:print_suppressions=0)
