hr_test(unit.range SOURCES trace/test_range.c ROOMS trace LABELS tsan)
hr_test(unit.timeline SOURCES trace/test_timeline.c ROOMS trace LABELS tsan)
hr_test(unit.overlap SOURCES trace/test_overlap.c ROOMS trace)
hr_test(unit.trace_json SOURCES trace/test_trace_json.c ROOMS trace LIBS PkgConfig::JANSSON)
