hr_test(unit.grads SOURCES exec/test_grads.c ROOMS exec LABELS tsan)
