hr_test(unit.stream SOURCES device/test_stream.c ROOMS device LABELS tsan)
