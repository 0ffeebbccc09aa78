# The recorded traces of Megatron-LM against the library. `make conformance` runs the program
# itself: tests/conform/conform_megatron in the build folder.
add_executable(conform_megatron
  tally.c megatron/conform_main.c megatron/record.c megatron/compare.c megatron/case_node.c
  megatron/stub_layer.c megatron/case_layer.c megatron/case_chunk.c megatron/case_step.c
  megatron/case_policy.c megatron/case_streams.c megatron/case_stage.c megatron/case_ranks.c
  megatron/case_grid.c megatron/case_pipeline.c megatron/case_pipeline_step.c megatron/case_p2p.c)
hr_room_closure(rooms exec)
list(TRANSFORM rooms PREPEND hr_)
target_link_libraries(conform_megatron PRIVATE ${rooms} PkgConfig::JANSSON m)
target_include_directories(conform_megatron PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(conform_megatron PRIVATE
  MEGATRON_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data/megatron")
add_test(NAME conform.megatron COMMAND conform_megatron WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(conform.megatron PROPERTIES TIMEOUT 300 LABELS "tsan;streams")
