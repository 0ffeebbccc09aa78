# What surrounds the model in the program; the model and its training are tested in tests/train.
foreach(name options interrupt stage_costs)
  hr_test(unit.${name} SOURCES app/test_${name}.c ROOMS base trace LIBS hr_app)
endforeach()
foreach(name config data safetensors profile progress pictures)
  hr_test(unit.${name} SOURCES app/test_${name}.c app/scratch.c ROOMS base trace LIBS hr_app)
endforeach()
foreach(name checkpoint checkpoint_pieces checkpoint_kills)
  hr_test(unit.${name} SOURCES app/test_${name}.c app/scratch.c
    ${PROJECT_SOURCE_DIR}/tests/support/checkpoint_case.c ROOMS base trace LIBS hr_app)
endforeach()
hr_test(unit.picture_schedule SOURCES app/test_picture_schedule.c app/scratch.c
  ROOMS base trace schedule LIBS hr_app hr_schedule_file hr_planner)

hr_test(unit.program SOURCES app/test_program.c app/scratch.c ROOMS base trace LIBS hr_app)
set_tests_properties(unit.program PROPERTIES LABELS streams) # its program trains
if(TARGET test_unit_program)
  add_dependencies(test_unit_program headrace)
  target_compile_definitions(test_unit_program PRIVATE HR_PROGRAM="$<TARGET_FILE:headrace>")
endif()
