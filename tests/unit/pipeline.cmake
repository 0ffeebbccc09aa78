hr_test(unit.node SOURCES pipeline/test_node.c ROOMS pipeline LABELS tsan)
hr_test(unit.node_hooks SOURCES pipeline/test_node_hooks.c ROOMS pipeline)
hr_test(unit.comm_stream SOURCES pipeline/test_comm_stream.c ROOMS pipeline LABELS tsan)
hr_test(unit.stage_grad SOURCES pipeline/test_stage_grad.c ROOMS pipeline)
