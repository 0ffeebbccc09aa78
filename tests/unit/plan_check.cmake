foreach(noun event_mistakes memory_mistakes group_mistakes)
  hr_test(unit.${noun} SOURCES plan_check/test_${noun}.c plan_check/lab.c plan/toy_ops.c
    ROOMS plan LABELS tsan)
  target_include_directories(test_unit_${noun} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/plan)
endforeach()
