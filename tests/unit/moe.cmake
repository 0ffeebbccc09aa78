set(moe_runs moe/moe_case.c moe/moe_flow.c moe/moe_runs.c)
hr_test(unit.dispatcher SOURCES moe/test_dispatcher.c ${moe_runs} ROOMS moe LABELS tsan)
hr_test(unit.dispatch_order SOURCES moe/test_dispatch_order.c ${moe_runs} ROOMS moe LABELS tsan)
hr_test(unit.dispatch_errors SOURCES moe/test_dispatch_errors.c ${moe_runs} ROOMS moe LABELS tsan)
hr_test(unit.zero_copy SOURCES moe/test_zero_copy.c moe/moe_drive.c ${moe_runs} ROOMS moe LABELS tsan)
hr_test(unit.staged_dispatch SOURCES moe/test_staged_dispatch.c moe/moe_drive.c ${moe_runs}
  ROOMS moe LABELS tsan)
