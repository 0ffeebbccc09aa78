# The recorded pipeline schedules of other projects against the library: figures, verdicts, texts,
# and the tables of our generators beside theirs.
add_executable(conform_schedules
  tally.c schedules/conform_schedules.c schedules/recorded.c schedules/claims.c schedules/case_table.c
  schedules/case_megatron.c schedules/case_torch.c schedules/case_stream.c schedules/case_optimise.c
  schedules/sha256.c)
target_link_libraries(conform_schedules PRIVATE hr_schedule hr_base PkgConfig::JANSSON m)
target_include_directories(conform_schedules PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(conform_schedules PRIVATE
  SCHEDULE_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data/schedules"
  MEGATRON_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data/megatron")
add_test(NAME conform.schedules COMMAND conform_schedules WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(conform.schedules PROPERTIES TIMEOUT 300)
