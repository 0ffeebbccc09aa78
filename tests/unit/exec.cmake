hr_test(unit.grads SOURCES exec/test_grads.c exec/grads_rig.c ROOMS exec LABELS tsan)
hr_test(unit.grads_shard SOURCES exec/test_grads_shard.c exec/grads_rig.c ROOMS exec LABELS tsan)
hr_test(unit.plan_stage SOURCES exec/test_plan_stage.c exec/stage_drive.c exec/stage_rig.c
  plan/toy_ops.c plan/toy_model.c ROOMS exec LABELS tsan)
hr_test(unit.handy_model SOURCES exec/test_handy_model.c exec/handy.c exec/handy_stage.c ROOMS exec LABELS tsan)
hr_test(unit.plan_stage_ranks SOURCES exec/test_plan_stage_ranks.c exec/stage_rig.c plan/toy_ops.c
  plan/toy_model.c ROOMS exec LABELS tsan)
hr_test(unit.missing_arguments SOURCES exec/test_missing_arguments.c ROOMS exec)
hr_test(unit.exec_failures SOURCES exec/test_exec_failures.c exec/handy.c exec/handy_stage.c ROOMS exec LABELS tsan)
hr_test(unit.exec_grid SOURCES exec/test_exec_grid.c exec/handy.c exec/handy_stage.c ROOMS exec)
hr_test(unit.exec_memory SOURCES exec/test_exec_memory.c exec/handy.c exec/handy_stage.c ROOMS exec)
hr_test(unit.exec_refusals SOURCES exec/test_exec_refusals.c exec/handy.c exec/handy_stage.c ROOMS exec LABELS tsan)
hr_test(unit.exec_starved SOURCES exec/test_exec_starved.c ROOMS exec LABELS tsan)
target_link_options(test_unit_exec_starved PRIVATE -Wl,--wrap=malloc,--wrap=calloc)
