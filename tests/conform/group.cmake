# What every engine of groups promises. Engines by name, in group/engines.h.
foreach(part collectives all_to_all symmetric messages creation failures streams)
  hr_test(conform.group.${part} SOURCES group/test_group_${part}.c group/engines.c
    ROOMS group LABELS tsan TIMEOUT 300)
endforeach()
