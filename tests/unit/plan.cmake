set(toy plan/toy_ops.c plan/toy_model.c)
hr_test(unit.overlap_step SOURCES plan/test_overlap_step.c ${toy} ROOMS plan LABELS tsan)
hr_test(unit.wgrad_store SOURCES plan/test_wgrad_store.c ${toy} ROOMS plan LABELS tsan)
hr_test(unit.chunk_plan SOURCES plan/test_chunk_plan.c ${toy} ROOMS plan LABELS tsan)
